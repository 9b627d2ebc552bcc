"""Plans: the compiled form of a graph for given fetches, shapes and mode."""

from ..cpu.plain import Segment
from . import control
from .kernels import Kernels, Row
from .plan import Plan
from .report import Held, Memory, exhausted

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
