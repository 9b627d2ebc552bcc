"""Debugging logic without widgets: stepping, breakpoints, non-finite origins, gradient checks."""

from .check.curve import LossCurve, loss_curve
from .check.findings import Finding
from .check.gradient_check import gradient_check
from .check.probe import ElementCheck
from .check.report import ParameterCheck, Report
from .digits import NodeDigits, PrecisionReport, precision
from .live.points import Alarm, Point
from .stepping.breakpoints import Breakpoint
from .stepping.expression import Expression
from .stepping.nonfinite import Origin, Range
from .stepping.stepper import Stepper, Stop

__all__ = [
    "Alarm",
    "Breakpoint",
    "ElementCheck",
    "Expression",
    "Finding",
    "LossCurve",
    "NodeDigits",
    "Origin",
    "ParameterCheck",
    "Point",
    "PrecisionReport",
    "Range",
    "Report",
    "Stepper",
    "Stop",
    "gradient_check",
    "loss_curve",
    "precision",
]
