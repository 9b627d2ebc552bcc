"""Normalisations over the last axes, of sums with what skips a layer, and of embeddings."""

from __future__ import annotations

from typing import Any

from ...node import ONNX, OnnxNode, cast, op
from ..neural import layer_norm
from .contrib import reads

ONNX.reads("LayerNormalization", since=1)(layer_norm)  # as in opset 17


@ONNX.reads("SimplifiedLayerNormalization")
def simplified(node: OnnxNode, x: Any, scale: Any) -> Any:
    """RMS norm; where the inverse deviation is asked for, too, step by step."""
    axis, eps = node.get("axis", -1), node.get("epsilon", 1e-5)
    y = op("rms_norm", axis=axis, eps=eps)(x, scale)
    if not any(node.wanted[1:]):
        return y
    axes = tuple(range(axis % x.rank, x.rank))
    wide = cast(x, "float32") if x.dtype.itemsize < 4 else x
    square = op("mean", axis=axes, keepdims=True)(wide * wide)
    return y, op("reciprocal")(op("sqrt")(square + eps))


@reads("SkipSimplifiedLayerNormalization")
def skip_simplified(node: OnnxNode, x: Any, skip: Any, scale: Any, bias: Any = None) -> Any:
    """RMS norm of a sum, which is the last output."""
    total = _sum(x, skip, bias)
    y = op("rms_norm", eps=node.get("epsilon", 1e-12))(total, scale)
    return y, None, None, total


@reads("SkipLayerNormalization")
def skip_layer_norm(
    node: OnnxNode, x: Any, skip: Any, scale: Any, shift: Any = None, bias: Any = None
) -> Any:
    """Layer norm of a sum, which is the last output."""
    total = _sum(x, skip, bias)
    y = op("layer_norm", eps=node.get("epsilon", 1e-12))(total, scale, shift)
    return y, None, None, total


def _sum(x: Any, skip: Any, bias: Any) -> Any:
    return x + skip if bias is None else x + bias + skip


@reads("EmbedLayerNormalization")
def embed_layer_norm(
    node: OnnxNode,
    ids: Any,
    segments: Any,
    words: Any,
    positions: Any,
    kinds: Any,
    scale: Any,
    shift: Any,
    mask: Any = None,
    position_ids: Any = None,
) -> Any:
    """Layer norm of the sum of three embeddings; and how many words there are in each row."""
    look_up = op("gather", axis=0)
    counted = position_ids is None
    total = look_up(words, ids)
    total = total + (positions[: ids.shape[1]] if counted else look_up(positions, position_ids))
    if segments is not None:
        total = total + look_up(kinds, segments)
    y = op("layer_norm", eps=node.get("epsilon", 1e-12))(total, scale, shift)
    if mask is None:
        count = op("full", shape=(ids.shape[0],), fill_value=0, dtype="int32")()
    else:
        count = op("sum", axis=1)(cast(op("equal")(mask, 1), "int32"))
    return y, cast(count, "int32"), total
