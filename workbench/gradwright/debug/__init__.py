"""Debugging logic without widgets: stepping, breakpoints, non-finite origins, gradient checks."""

from .breakpoints import Breakpoint
from .curve import LossCurve, loss_curve
from .expression import Expression
from .findings import Finding
from .gradient_check import gradient_check
from .nonfinite import Origin, Range
from .probe import ElementCheck
from .report import ParameterCheck, Report
from .stepper import Stepper, Stop

__all__ = [
    "Breakpoint",
    "ElementCheck",
    "Expression",
    "Finding",
    "LossCurve",
    "Origin",
    "ParameterCheck",
    "Range",
    "Report",
    "Stepper",
    "Stop",
    "gradient_check",
    "loss_curve",
]
