"""Debugging logic without widgets: stepping, breakpoints, non-finite origins, gradient checks."""

from .check.curve import LossCurve, loss_curve
from .check.findings import Finding
from .check.gradient_check import gradient_check
from .check.probe import ElementCheck
from .check.report import ParameterCheck, Report
from .digits import NodeDigits, PrecisionReport, precision
from .flops import flops
from .flow.explain import explain_gradient
from .flow.explanation import Cause, Explanation, Step
from .flow.norms import gradient_norms
from .flow.opening import Turns
from .live.points import Alarm, Point
from .stepping.breakpoints import Breakpoint
from .stepping.expression import Expression
from .stepping.moving import Stop
from .stepping.nonfinite import Origin, Range
from .stepping.stepper import Stepper

__all__ = [
    "Alarm",
    "Breakpoint",
    "Cause",
    "ElementCheck",
    "Explanation",
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
    "Step",
    "Stepper",
    "Stop",
    "Turns",
    "explain_gradient",
    "flops",
    "gradient_check",
    "gradient_norms",
    "loss_curve",
    "precision",
]
