"""Integers that stand for real numbers by scale and zero point."""

from __future__ import annotations

from typing import Any

from ..dtypes import from_element_type
from ..node import OnnxNode, op, reads
from .images import geometry


def _alike(zero_point: Any, scale: Any) -> Any:
    """Return a zero point in the shape of its scale; one element may have rank 0 or 1."""
    if zero_point is None or zero_point.rank == scale.rank:
        return zero_point
    return op("reshape_like")(zero_point, scale)


@reads("QuantizeLinear", since=10)
def quantize_linear(node: OnnxNode, x: Any, scale: Any, zero_point: Any = None) -> Any:
    attrs: dict[str, Any] = {
        "axis": node.get("axis", 1),
        "block_size": node.get("block_size", 0),
        "saturate": node.flag("saturate", True),
    }
    for ours, theirs in (("dtype", "output_dtype"), ("precision", "precision")):
        if node.get(theirs):
            attrs[ours] = from_element_type(node[theirs])
    return op("quantize_linear", **attrs)(x, scale, _alike(zero_point, scale))


@reads("DequantizeLinear", since=10)
def dequantize_linear(node: OnnxNode, x: Any, scale: Any, zero_point: Any = None) -> Any:
    attrs: dict[str, Any] = {
        "axis": node.get("axis", 1), "block_size": node.get("block_size", 0)
    }  # fmt: skip
    if node.get("output_dtype"):
        attrs["dtype"] = from_element_type(node["output_dtype"])
    return op("dequantize_linear", **attrs)(x, scale, _alike(zero_point, scale))


@reads("ConvInteger", since=10)
def conv_integer(node: OnnxNode, x: Any, weight: Any, *zero_points: Any) -> Any:
    attrs = {**geometry(node, x.rank - 2), "groups": node.get("group", 1)}
    return op("conv_integer", **attrs)(x, weight, *zero_points)


@reads("QLinearConv", since=10)
def qlinear_conv(node: OnnxNode, x: Any, *others: Any) -> Any:
    attrs = {**geometry(node, x.rank - 2), "groups": node.get("group", 1)}
    return op("qlinear_conv", **attrs)(x, *others)
