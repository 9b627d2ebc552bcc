"""Gated units of single elements, some with a bias added first."""

from __future__ import annotations

from typing import Any

from ...node import OnnxNode, maps, op
from .contrib import DOMAIN, reads

maps("Gelu", "gelu", domain=DOMAIN)
maps("QuickGelu", "swish", domain=DOMAIN, attributes={"alpha": 1.702})


@reads("BiasGelu")
def bias_gelu(node: OnnxNode, x: Any, bias: Any) -> Any:
    return op("gelu")(x + bias)


@reads("FastGelu", "GemmFastGelu")
def fast_gelu(node: OnnxNode, x: Any, *others: Any) -> Any:
    """GELU by tanh, of a product with weights if there are any, plus a bias."""
    if node.op_type == "GemmFastGelu":
        x, others = op("matmul")(x, others[0]), others[1:]
    for bias in others:
        x = x if bias is None else x + bias
    return op("gelu", approximate="tanh")(x)


@reads("BiasSplitGelu")
def bias_split_gelu(node: OnnxNode, x: Any, bias: Any) -> Any:
    """Return the first half of the features times the GELU of the second."""
    value, gate = op("split", parts=2, axis=-1)(x + bias)
    return value * op("gelu")(gate)


@reads("BiasAdd")
def bias_add(node: OnnxNode, x: Any, bias: Any, skip: Any) -> Any:
    return x + bias + skip
