"""Debugging logic without widgets: stepping, breakpoints, non-finite origins, gradient checks."""

from .breakpoints import Breakpoint
from .expression import Expression
from .gradient_check import gradient_check
from .nonfinite import Origin, Range
from .report import ElementCheck, ParameterCheck, Report
from .stepper import Stepper, Stop

__all__ = [
    "Breakpoint",
    "ElementCheck",
    "Expression",
    "Origin",
    "ParameterCheck",
    "Range",
    "Report",
    "Stepper",
    "Stop",
    "gradient_check",
]
