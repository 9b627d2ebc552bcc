"""Operators on single elements, of one tensor or several that broadcast."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ....spec import kind
from ....spec.rounding import rounded
from ...foreign import Chosen
from ..dtypes import from_element_type
from ..node import OnnxNode, cast, maps, op, reads


@reads("Max", since=6)
@reads("Min", since=6)
def fold(node: OnnxNode, *xs: Any) -> Any:
    return functools.reduce(op({"Max": "maximum", "Min": "minimum"}[node.op_type]), xs)


maps("Sum", "add_n", since=6)
maps("Mean", "merge_avg", since=6)


@reads("Div", since=7)
def divide(node: OnnxNode, a: Any, b: Any) -> Any:
    """Divide; integers towards zero."""
    k = kind(a.dtype)
    if k == "u":
        return op("floor_div")(a, b)
    if k != "i":
        return op("div")(a, b)
    remainder = c_remainder(a, b)
    return op("floor_div")(a - remainder, b)


def c_remainder(a: Any, b: Any) -> Any:
    """Return the remainder that has the sign of the dividend, as in C."""
    floored = op("mod")(a, b)
    other_sign = op("logical_xor")(a < 0, b < 0)
    return op("where")(op("logical_and")(other_sign, floored != 0), floored - b, floored)


@reads("Mod", since=10)
def mod(node: OnnxNode, a: Any, b: Any) -> Any:
    if not node.flag("fmod") or kind(a.dtype) == "u":
        return op("mod")(a, b)
    return op("fmod")(a, b) if kind(a.dtype) == "f" else c_remainder(a, b)


@reads("Pow", since=7)
def power(node: OnnxNode, a: Any, b: Any) -> Any:
    """Raise to a power; the result is of the dtype of the base."""
    if kind(a.dtype) in "iu" and kind(b.dtype) == "f":
        return cast(op("pow")(cast(a, "float64"), cast(b, "float64")), a.dtype)
    return cast(op("pow")(a, cast(b, a.dtype)), a.dtype)


@reads("Clip", since=6)
def clip_to_attributes(node: OnnxNode, x: Any) -> Any:
    low, high = (
        None if v is None else rounded(v, x.dtype) for v in (node.get("min"), node.get("max"))
    )
    return clip(node, x, low, high)


@reads("Clip", since=11)
def clip(node: OnnxNode, x: Any, low: Any = None, high: Any = None) -> Any:
    return op("identity")(x) if low is high is None else op("clip")(x, low, high)


@reads("Cast", since=6)
def cast_to(node: OnnxNode, x: Any) -> Any:
    return _cast(node, x, from_element_type(node["to"]))


@reads("CastLike", since=15)
def cast_like(node: OnnxNode, x: Any, like: Any) -> Any:
    return _cast(node, x, like.dtype)


def _cast(node: OnnxNode, x: Any, dtype: np.dtype[Any]) -> Any:
    if kind(x.dtype) == "s" and kind(dtype) != "s":
        return op("to_number", dtype=dtype)(x)
    attrs = {"saturate": node.flag("saturate", True)}
    return op("cast", dtype=dtype, **attrs)(x)


maps("PRelu", "prelu", since=7)


@reads("IsInf", since=10)
def is_inf(node: OnnxNode, x: Any) -> Any:
    found = op("is_inf")(x)
    if not node.flag("detect_negative", True):
        found = op("logical_and")(found, x > 0)
    if not node.flag("detect_positive", True):
        found = op("logical_and")(found, x < 0)
    return found


maps("HardSigmoid", "hard_sigmoid", since=6, attributes={"alpha": 0.2, "beta": 0.5})
maps(
    "BitShift", Chosen("direction", {"LEFT": "left_shift", "RIGHT": "right_shift"}), since=11,
    attributes={"direction": str},
)  # fmt: skip
