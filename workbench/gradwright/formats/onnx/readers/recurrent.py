"""Recurrent layers."""

from __future__ import annotations

from typing import Any

from ..node import OnnxNode, op, reads


@reads("RNN", "GRU", "LSTM", since=7)
def recurrent(node: OnnxNode, *xs: Any) -> Any:
    attrs = {k: v for k, v in node.attributes.items() if k != "hidden_size"}
    if "activations" in attrs:
        attrs["activations"] = tuple(name.lower() for name in attrs["activations"])
    for flag in ("linear_before_reset", "input_forget"):
        if flag in attrs:
            attrs[flag] = bool(attrs[flag])
    return op(node.op_type.lower(), **attrs)(*xs)
