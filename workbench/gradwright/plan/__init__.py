"""Plans: the compiled form of a graph for given fetches, shapes and mode."""

from ..program.row import Row
from . import control
from .kernels import Kernels
from .plan import Plan
from .report import Held, Memory, exhausted
from .segment import Segment

__all__ = [
    "Held",
    "Kernels",
    "Memory",
    "Plan",
    "Row",
    "Segment",
    "control",
    "exhausted",
]
