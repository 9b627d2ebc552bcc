"""Attention of language models: heads of queries share keys, which lie in a cache, and turn."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....errors import ArchiveError
from .....spec import Dim
from .....spec.dims import larger
from ...node import OnnxNode, cast, one, op
from .contrib import flat_last, reads, refuse


@reads("RotaryEmbedding")
def rotary_embedding(node: OnnxNode, x: Any, at: Any, cos: Any, sin: Any) -> Any:
    """Turn pairs of features by their positions, or by those from one position on."""
    refuse(node, "is_packed_batching")
    scale = node.get("scale", 1.0)
    n_turned, heads = node.get("rotary_embedding_dim", 0), node.get("num_heads", 0)
    if x.rank == 3 and not heads:
        heads = x.shape[2] // (cos.shape[1] * 2)
    if at.rank == 1 or at.shape == (1,):
        steps = op("arange", start=0, stop=x.shape[-2], dtype="int64")()
        at = op("expand_dims", axis=0)(cast(at, "int64") + steps)
    if at.shape[0] == 1 and x.shape[0] != 1:
        at = op("broadcast_to", shape=(x.shape[0], x.shape[-2]))(at)
    y = rope(node.flag("interleaved"), n_turned, heads)(x, cos, sin, at)
    return y if scale == 1.0 else y * scale


def rope(interleaved: bool, n_turned: int = 0, heads: int = 0) -> Any:
    return op("rope", interleaved=interleaved, rotary_dim=n_turned, num_heads=heads)


def _present(node: OnnxNode, query: Any, key: Any, value: Any, past: Any, *others: Any) -> Any:
    """Return what is known of attention and its caches before the size of these is."""
    n, m = node["num_heads"], node["kv_num_heads"]
    width = query.shape[2] if key is not None else query.shape[2] // (n + 2 * m) * n
    room = query.shape[1] if past is None else Dim.fresh("keys")
    size = width // n
    caches = [query.with_shape((query.shape[0], m, room, size)) for _ in range(2)]
    return [query.with_shape((*query.shape[:2], width)), *caches][: len(node.wanted)]


@reads("GroupQueryAttention", values=(6,), takes_dims=True, outputs=_present)
def group_query_attention(
    node: OnnxNode,
    query: Any,
    key: Any,
    value: Any,
    past_key: Any,
    past_value: Any,
    last: Any,
    total: Any,
    cos: Any = None,
    sin: Any = None,
    position_ids: Any = None,
    more: Any = None,
    sink: Any = None,
    *others: Any,
) -> Any:
    """Attention to a cache, into which the new keys and values of each row are written.

    ``last`` is the position of the last key of each row, ``total`` the largest number of keys.
    """
    refuse(node, "qk_output", "k_quant_type", "v_quant_type", "sliding_window_cache")
    k_scale, v_scale, q_norm, k_norm, counts = (*others, *[None] * 5)[:5]
    if any(x is not None for x in (k_scale, v_scale, counts)):
        raise ArchiveError("GroupQueryAttention of coded caches or padded chunks is not read")
    n, m = node["num_heads"], node["kv_num_heads"]
    if key is None:
        size = query.shape[2] // (n + 2 * m)
        query, key, value = op("split", parts=(n * size, m * size, m * size), axis=2)(query)
    q, k, v = _apart(query, n), _apart(key, m), _apart(value, m)
    if q_norm is not None:
        q, k = _normed(node, q, q_norm, "q"), _normed(node, k, k_norm, "k")
    length = op("full", shape=(), fill_value=query.shape[1], dtype="int64")()
    ends = cast(op("reshape", shape=(-1,))(last), "int64") + 1
    before = op("maximum")(ends - length, 0)  # where a row of a first prompt is padded, 0
    if node.flag("do_rotary"):
        if position_ids is None:
            steps = op("arange", start=0, stop=query.shape[1], dtype="int64")()
            position_ids = op("expand_dims", axis=1)(before) + steps
        half = cos.shape[1] * 2
        turn = rope(node.flag("rotary_interleaved"), 0 if half == q.shape[3] else half)
        q, k = (turn(x, cos, sin, position_ids) for x in (q, k))
    if past_key is not None:
        room, write = larger(past_key.shape[2], one(total)), op("kv_scatter")
        k = write(_grown(past_key, room), k, before)
        v = write(_grown(past_value, room), v, before)
    y = _attended(node, q, k, v, before + length, ends, more, sink)
    joined = flat_last(op("transpose", axes=(0, 2, 1, 3))(y), n * q.shape[3])
    return joined, k, v


def _apart(x: Any, n: int) -> Any:
    """Return ``[B, n, T, D]`` for ``[B, T, n·D]``."""
    split = op("reshape", shape=(*x.shape[:2], n, x.shape[2] // n))(x)
    return op("transpose", axes=(0, 2, 1, 3))(split)


def _normed(node: OnnxNode, x: Any, scale: Any, side: str) -> Any:
    eps = node.get(f"{side}_norm_epsilon", node.get("qk_norm_epsilon", 1e-6))
    return op("rms_norm", eps=eps)(x, scale)


def _grown(past: Any, room: Any) -> Any:
    """Return a cache with room for so many positions."""
    more = room - past.shape[2]
    if isinstance(more, int) and more <= 0:
        return past
    b, heads, _, size = past.shape
    return op("concat", axis=2)(past, op("full", shape=(b, heads, more, size), dtype=past.dtype)())


def _attended(
    node: OnnxNode, q: Any, k: Any, v: Any, reach: Any, ends: Any, more: Any, sink: Any
) -> Any:
    """Return attention of ``[B, n, T, E]``, the last query at the last key that is reached."""
    causal, window = node.flag("causal", True), node.get("local_window_size", -1)
    seen = {"is_causal": causal, "left_window_size": window - 1 if window > 0 else -1}
    made = {"scale": node.get("scale") or None, "softcap": node.get("softcap", 0.0)}
    length = reach if causal else ends
    if sink is None and node.get("smooth_softmax", -1) != 1:
        return op("attention", **made, **seen)(q, k, v, more, None, None, length)[0]
    # A key of zeros that all see: its score is 0, to which the sink of the head is added.
    scores = op("matmul")(q[:, :1], k[:, :1].mT)  # read for its sizes only
    zero = q.graph.constant(np.zeros((), q.dtype))
    visible = op("visible_keys", **seen)(scores, length)
    bias = op("where")(visible, zero if more is None else more, zero - np.inf)
    own = zero if sink is None else op("reshape", shape=(1, -1, 1, 1))(sink)
    lead = q.shape[:3]
    spread = (op("broadcast_to", shape=(*lead, k.shape[2]))(bias),
              op("broadcast_to", shape=(*lead, 1))(own))  # fmt: skip
    grow = op("pad", pad_width=((0, 0), (0, 0), (0, 1), (0, 0)))
    return op("attention", **made)(q, grow(k), grow(v), op("concat", axis=3)(*spread))[0]
