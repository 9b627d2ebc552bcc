"""A tensor as a picture."""
