"""Attention with as many heads of keys as of queries, as BERT, GPT-2 and Whisper have it."""

from __future__ import annotations

from typing import Any

from .....errors import ArchiveError
from .....spec import differ
from ...node import OnnxNode, cast, op
from .contrib import flat_last, reads, refuse
from .integers import matmul_integer_to_float


def hidden_keys(node: OnnxNode, mask: Any, n_rows: Any, n_keys: Any) -> Any:
    """Return a mask of any form by key, 0 where one is hidden: [B, S] or [B, T, S].

    A vector holds where the keys of each row end, and then, if it is longer, where they start.
    """
    if mask is None or mask.rank in (2, 3):
        return mask
    if mask.rank != 1:
        raise ArchiveError(
            f"{node.op_type} with a mask {mask.spec} is not read", need="1 to 3 axes"
        )
    at = op("arange", start=0, stop=n_keys, dtype="int32")()
    ends = cast(mask, "int32")
    if not differ(mask.shape[0], n_rows) or mask.shape[0] == 1:
        return cast(at < op("expand_dims", axis=1)(ends), "int32")
    if differ(mask.shape[0], n_rows * 2):
        raise ArchiveError(
            f"{node.op_type}: a mask {mask.spec} for {n_rows} rows", need="one or two for each row"
        )
    end, start = (op("expand_dims", axis=1)(v) for v in op("split", parts=2, axis=0)(ends))
    return cast(op("logical_and")(at < end, at >= start), "int32")


def attended(
    node: OnnxNode,
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    more: Any = None,
    past_key: Any = None,
    past_value: Any = None,
) -> Any:
    """Return attention of packed heads, and its caches; what is hidden lies far lower."""
    n_keys = key.shape[1] if past_key is None else key.shape[1] + past_key.shape[2]
    seen = hidden_keys(node, mask, query.shape[0], n_keys)
    return op(
        "multi_head_attention",
        num_heads=node["num_heads"],
        mask_filter_value=node.get("mask_filter_value", -10000.0),
        scale=node.get("scale") or None,  # 0 stands for the usual one
        is_causal=node.flag("unidirectional"),
    )(query, key, value, bias, seen, more, past_key, past_value)


@reads("MultiHeadAttention")
def multi_head_attention(
    node: OnnxNode,
    query: Any,
    key: Any = None,
    value: Any = None,
    bias: Any = None,
    mask: Any = None,
    more: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    *others: Any,
) -> Any:
    """Attention of queries, keys and values, apart or packed, or keys and values of a cache."""
    if any(x is not None for x in others):
        raise ArchiveError(
            "MultiHeadAttention that writes into a shared cache is not read",
            need="past_key and past_value of the past alone",
        )
    if any(node.wanted[3:]):
        raise ArchiveError("MultiHeadAttention that returns its scores is not read")
    if query.rank == 5:  # [B, T, n, 3, E]
        query, key, value = _unstacked(query, 3)
    elif key is not None and key.rank == 5:  # [B, S, n, 2, E]
        key, value = _unstacked(key, 2)
    elif key is not None and key.rank == 4:  # [B, n, S, E], made by another node
        if bias is not None:
            query, bias = query + bias[: query.shape[2]], None
        key, value = (
            flat_last(op("transpose", axes=(0, 2, 1, 3))(x), x.shape[1] * x.shape[3])
            for x in (key, value)
        )
    if key is None or value is None:
        raise ArchiveError("MultiHeadAttention has no keys or values", need="key and value")
    return attended(node, query, key, value, bias, mask, more, past_key, past_value)


def _unstacked(x: Any, n: int) -> list[Any]:
    """Return the n tensors that stand beside each other, by head, with their heads packed."""
    return [flat_last(x[:, :, :, i], x.shape[2] * x.shape[4]) for i in range(n)]


@reads("Attention")
def attention(
    node: OnnxNode,
    x: Any,
    weight: Any,
    bias: Any = None,
    mask: Any = None,
    past: Any = None,
    more: Any = None,
    *others: Any,
) -> Any:
    """Attention of three projections that one weight makes."""
    if any(v is not None for v in others):
        raise ArchiveError("Attention that writes into a shared cache is not read")
    refuse(node, "do_rotary", "past_present_share_buffer")
    y = op("matmul")(x, weight)
    return self_attended(node, y if bias is None else y + bias, mask, past, more)


@reads("QAttention")
def qattention(
    node: OnnxNode,
    x: Any,
    weight: Any,
    bias: Any,
    x_scale: Any,
    w_scale: Any,
    mask: Any = None,
    x_zero: Any = None,
    w_zero: Any = None,
    past: Any = None,
) -> Any:
    """Attention of three projections, whose product is one of codes."""
    refuse(node, "do_rotary", "past_present_share_buffer")
    y = matmul_integer_to_float(node, x, weight, x_scale, w_scale, x_zero, w_zero, bias)
    return self_attended(node, y, mask, past)


def self_attended(node: OnnxNode, joined: Any, mask: Any, past: Any, more: Any = None) -> Any:
    """Return attention of ``[B, T, Q + K + V]``, and keys and values as one cache."""
    n = node["num_heads"]
    sizes = tuple(node.get("qkv_hidden_sizes") or ())
    q, k, v = op("split", parts=sizes or 3, axis=2)(joined)
    caches = (None, None) if past is None else (past[0], past[1])
    y, keys, values = attended(node, q, k, v, None, mask, more, *caches)
    if not any(node.wanted[1:]):
        return y
    if v.shape[2] != k.shape[2]:
        raise ArchiveError(
            f"a cache of {k.shape[2] // n} features of keys and {v.shape[2] // n} of values",
            need="as many of both",
        )
    return y, op("stack", axis=0)(keys, values)
