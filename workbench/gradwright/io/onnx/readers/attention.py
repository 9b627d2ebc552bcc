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
    attrs["softmax_precision"] = precision(node)
    return op("attention", **attrs)(*xs)
