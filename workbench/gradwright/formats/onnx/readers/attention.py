"""Attention, whose precision ONNX states as an element type."""

from __future__ import annotations

from typing import Any

from ....spec import dtype_name
from ..dtypes import from_element_type
from ..node import OnnxNode, op, reads


def precision(node: OnnxNode) -> str | None:
    """Return the dtype of the softmax by name, None where it is not stated."""
    number = node.get("softmax_precision")
    return None if number is None else dtype_name(from_element_type(number))


@reads("Attention", since=23)
def attention(node: OnnxNode, *xs: Any) -> Any:
    attrs = {**node.attributes, "is_causal": node.flag("is_causal")}
    # Where it is not stated, each step is rounded to the query's own dtype, halves too.
    half = dtype_name(xs[0].dtype) if xs[0].dtype.itemsize < 4 else None
    attrs["softmax_precision"] = precision(node) or half
    return op("attention", **attrs)(*xs)


@reads("LinearAttention", since=27)
def linear_attention(node: OnnxNode, *xs: Any) -> Any:
    attrs = dict(node.attributes)
    attrs["scale"] = attrs.get("scale") or None  # 0 stands for the usual one
    return op("linear_attention", **attrs)(*xs)
