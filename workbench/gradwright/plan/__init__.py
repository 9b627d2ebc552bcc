"""Plans: the compiled form of a graph for given fetches, shapes and mode."""

from . import control
from .plan import Memory, Plan, bind_sizes
from .segment import Segment

__all__ = ["Memory", "Plan", "Segment", "bind_sizes", "control"]
