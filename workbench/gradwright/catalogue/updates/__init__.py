"""Updates of parameters, and what stands around them."""

from ...ops import optimizer
from . import joint, moments, running, scaled

__all__ = ["joint", "moments", "optimizer", "running", "scaled"]
