"""Ops: what one is and declares, by which name it is found, how it is called.

An op's file needs this one import.
"""

from .declare import (
    REQUIRED,
    ZERO,
    Attr,
    Cotangent,
    ErrorSample,
    NotDifferentiable,
    OnnxRule,
    Sample,
    WeightSite,
    Zero,
    attr,
)
from .op import Op, infer_specs, run_forward
from .registry import OPS, find_op, maker, redefinitions, register, registry_revision

__all__ = [
    "OPS",
    "REQUIRED",
    "ZERO",
    "Attr",
    "Cotangent",
    "ErrorSample",
    "NotDifferentiable",
    "OnnxRule",
    "Op",
    "Sample",
    "WeightSite",
    "Zero",
    "attr",
    "find_op",
    "infer_specs",
    "maker",
    "redefinitions",
    "register",
    "registry_revision",
    "run_forward",
]
