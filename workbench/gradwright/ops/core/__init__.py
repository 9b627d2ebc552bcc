"""The core: what gradients and other families are written in."""
