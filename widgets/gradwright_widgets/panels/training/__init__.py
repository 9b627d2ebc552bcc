"""The controls of a training."""
