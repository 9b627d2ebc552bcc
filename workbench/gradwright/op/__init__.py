"""Ops: what one is and declares, by which name it is found, how it is called.

An op's file needs this one import.
"""

from .applying import infer_specs, run_forward
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
from .dependence import AFFINE, ELEMENT, LINEAR, OPAQUE, ROWS, Claims, Dependence
from .facts import Autocast, Family, elements, multiplied, of_product
from .op import Op
from .registry import OPS, find_op, maker, redefinitions, register, registry_revision

__all__ = [
    "AFFINE",
    "ELEMENT",
    "LINEAR",
    "OPAQUE",
    "OPS",
    "REQUIRED",
    "ROWS",
    "ZERO",
    "Attr",
    "Autocast",
    "Claims",
    "Cotangent",
    "Dependence",
    "ErrorSample",
    "Family",
    "NotDifferentiable",
    "OnnxRule",
    "Op",
    "Sample",
    "WeightSite",
    "Zero",
    "attr",
    "elements",
    "find_op",
    "infer_specs",
    "maker",
    "multiplied",
    "of_product",
    "redefinitions",
    "register",
    "registry_revision",
    "run_forward",
]
