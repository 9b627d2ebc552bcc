"""Debugging logic without widgets: stepping, breakpoints, non-finite origins, gradient checks."""

from .breakpoints import Breakpoint
from .expression import Expression
from .nonfinite import Origin, Range
from .stepper import Stepper, Stop

__all__ = ["Breakpoint", "Expression", "Origin", "Range", "Stepper", "Stop"]
