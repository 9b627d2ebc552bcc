"""Attention, positions and caches beside PyTorch and JAX, or beside the papers' formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import gradwright as gw
from tests.oracle.rows import Array, Case, Row, bools, ints, normal


def heads(b: int, n: int, m: int, t: int, s: int, e: int, d: int) -> tuple[Array, ...]:
    """Return queries of n heads, keys and values of m."""
    return normal(b, n, t, e), normal(b, m, s, e), normal(b, m, s, d)


SELF = heads(2, 2, 2, 5, 5, 4, 4)
GROUPED = heads(2, 4, 2, 3, 5, 4, 3)
EMPTY = heads(2, 2, 2, 0, 3, 4, 4), heads(0, 2, 2, 3, 3, 4, 4)
ALONE = heads(1, 1, 1, 1, 1, 1, 1)


def seen_by(
    t: Any, n: int, m: int, offset: Any = 0, left: int = -1, right: int = -1, causal: bool = False
) -> Any:
    """Return which of m keys each of n queries sees, told one pair at a time."""

    def sees(i: int, j: int, at: int) -> bool:
        behind = j - (i + at)
        return not ((causal and behind > 0) or (0 <= right < behind) or (0 <= left < -behind))

    per = np.ravel(offset)
    table = t.tensor([[[sees(i, j, int(o)) for j in range(m)] for i in range(n)] for o in per])
    table = table.reshape(len(per), 1, n, m)
    return table if np.ndim(offset) else table[0, 0]


def attend(t: Any, q: Any, k: Any, v: Any, mask: Any = None, scale: Any = None) -> Any:
    """Return torch's attention; what sees nothing is zeros there, too."""
    groups = q.shape[1] != k.shape[1]
    if not q.numel():
        return q.new_zeros(*q.shape[:3], v.shape[3]) + q.sum() + k.sum() + v.sum()
    return t.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, scale=scale, enable_gqa=groups
    )


def general(
    t: Any, q: Any, k: Any, v: Any, mask: Any = None, past_k: Any = None, past_v: Any = None,
    length: Any = None, is_causal: bool = False, scale: Any = None, softcap: float = 0.0,
    q_num_heads: int = 0, kv_num_heads: int = 0, qk_matmul_output_mode: int = 0,
    left_window_size: int = -1, right_window_size: int = -1,
) -> Any:  # fmt: skip
    """Return ONNX's four outputs, by einsum over repeated heads."""
    packed = q.ndim == 3
    if packed:
        q = q.unflatten(2, (q_num_heads, -1)).movedim(2, 1)
        k, v = (x.unflatten(2, (kv_num_heads, -1)).movedim(2, 1) for x in (k, v))
    offset: Any = 0
    if past_k is not None:
        offset, k, v = past_k.shape[2], t.cat([past_k, k], 2), t.cat([past_v, v], 2)
    n, m, share = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    kk, vv = (x.repeat_interleave(share, 1) for x in (k, v))
    raw = t.einsum("bhie,bhje->bhij", q, kk) * (scale or 1 / math.sqrt(q.shape[3]))
    capped = softcap * t.tanh(raw / softcap) if softcap else raw
    bias = t.zeros((), dtype=raw.dtype)
    if mask is not None and mask.dtype == t.bool:
        bias = t.where(mask, 0.0, -math.inf)
    elif mask is not None:
        bias = mask
    if mask is not None and mask.shape[-1] < m:
        bias = t.nn.functional.pad(bias, (0, m - mask.shape[-1]), value=-math.inf)
    if length is not None:
        offset = length.numpy() - n
        there = t.arange(m) < length[:, None, None, None]
        bias = bias + t.where(there, 0.0, -math.inf)
    rule = seen_by(t, n, m, offset, left_window_size, right_window_size, is_causal)
    bias = (bias + t.where(rule, 0.0, -math.inf)).to(raw.dtype)
    with_bias = capped + bias
    hidden = (with_bias == -math.inf).all(-1, keepdim=True)
    p = with_bias.masked_fill(hidden, 0.0).softmax(-1).masked_fill(hidden, 0.0)
    y = t.einsum("bhij,bhjd->bhid", p, vv)
    y = y.movedim(1, 2).flatten(2) if packed else y
    return y, k.clone(), v.clone(), (raw, capped, with_bias, p)[qk_matmul_output_mode]


PAST = normal(2, 2, 3, 4), normal(2, 2, 3, 3)
PACKED = normal(2, 3, 8), normal(2, 5, 4), normal(2, 5, 6)
PACK = {"q_num_heads": 4, "kv_num_heads": 2}
NEW = heads(1, 4, 2, 3, 3, 2, 3)
SOME_SEEN = bools(3, 5) | (np.arange(5) == 1)
BANDS = [
    {"left_window_size": a, "right_window_size": b, "is_causal": c}
    for a, b, c in ((1, 1, False), (0, -1, False), (2, 3, True), (-1, 0, False))
]

GENERAL: list[Case] = [
    SELF,
    (*SELF, {"is_causal": True, "scale": 0.3}),
    (*GROUPED, {"softcap": 0.7, "qk_matmul_output_mode": 1}),
    (*GROUPED, SOME_SEEN, {"qk_matmul_output_mode": 3}),
    (*GROUPED, bools(2, 1, 1, 5), {"is_causal": True}),
    (*GROUPED, normal(4, 3, 5), {"is_causal": True}),
    (*GROUPED, normal(3, 4)),
    (*GROUPED, normal(2, 4, 3, 8), *PAST, {"is_causal": True}),
    (*PACKED, {**PACK, "is_causal": True}),
    *((*GROUPED, band) for band in BANDS),
]
LENGTHS: list[Case] = [
    (*GROUPED, np.array(n), {"is_causal": True, **band}) for n in ([5, 3], [1, 5]) for band in BANDS
]


def ours_with_length(q: Any, k: Any, v: Any, n: Any, **attrs: Any) -> Any:
    return gw.nn.attention(q, k, v, None, None, None, n, **attrs)


def theirs_with_length(t: Any, q: Any, k: Any, v: Any, n: Any, **attrs: Any) -> Any:
    return general(t, q, k, v, None, None, None, n, **attrs)


def latest(q: Any, k: Any) -> int:
    """Return where the first query stands if the last stands at the last key."""
    return int(k.shape[2] - q.shape[2])


def tiled(
    t: Any, q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: Any = None,
    left_window_size: int = -1, right_window_size: int = -1, tile: int = 0, offset: Any = None,
) -> Any:  # fmt: skip
    at = latest(q, k) if offset is None else offset
    rule = seen_by(t, *(q.shape[2], k.shape[2]), at, left_window_size, right_window_size, is_causal)
    return attend(t, q, k, v, both(t, rule, mask) if k.shape[2] else None, scale)


def both(t: Any, rule: Any, mask: Any) -> Any:
    """Return a rule and a mask as one mask."""
    if mask is None:
        return rule
    return rule & mask if mask.dtype == t.bool else mask.masked_fill(~rule, -math.inf)


def cached(
    t: Any, q: Any, k: Any, v: Any, old_k: Any, old_v: Any, filled: Any, scale: Any = None,
    window_size: int = 1 << 30,
) -> Any:  # fmt: skip
    """Return averages, sample by sample, of what is filled and what is new."""
    made = []
    for i, n in enumerate(filled.tolist()):
        keys, values = (t.cat((o[i, :, :n], x[i]), 1)[None] for o, x in ((old_k, k), (old_v, v)))
        rule = seen_by(t, q.shape[2], n + q.shape[2], n, window_size - 1, -1, causal=True)
        made.append(attend(t, q[i : i + 1], keys, values, rule, scale))
    return t.cat(made)


def grouped(
    t: Any, q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: Any = None
) -> Any:
    rule = seen_by(t, q.shape[2], k.shape[2], causal=is_causal)
    return attend(t, q, k, v, both(t, rule, mask), scale)


def sliding(t: Any, q: Any, k: Any, v: Any, window_size: int = 128, is_causal: bool = True) -> Any:
    away = t.arange(q.shape[2])[:, None] - t.arange(k.shape[2])
    near = (away < window_size) & (away > -window_size)
    return attend(t, q, k, v, near & (away >= 0) if is_causal else near)


def shared(t: Any, q: Any, k: Any, v: Any, n: Any = None, left_window_size: int = -1) -> Any:
    ends = np.array([k.shape[2]] * q.shape[0]) if n is None else np.ravel(n.numpy())
    rule = seen_by(t, q.shape[2], k.shape[2], ends - q.shape[2], left_window_size, causal=True)
    return attend(t, q, k, v, rule)


def windowed(t: Any, q: Any, k: Any, v: Any, mask: Any = None, window_size: int = 1) -> Any:
    share = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(share, 1) for x in (k, v))
    blocks = (x.unflatten(2, (-1, window_size)) for x in (q, k, v))
    y = t.nn.functional.scaled_dot_product_attention(*blocks, attn_mask=mask)
    return y.flatten(2, 3)


def heads_last(
    t: Any, q: Any, k: Any, v: Any, bias: Any = None, mask: Any = None,
    local_window_size: Any = (-1, -1), **attrs: Any,
) -> Any:  # fmt: skip
    if bias is not None and mask is not None:
        bias = bias.masked_fill(~mask, -math.inf)
    sides = {"left_window_size": local_window_size[0], "right_window_size": local_window_size[1]}
    y = general(t, *(x.transpose(1, 2) for x in (q, k, v)), bias, **attrs, **sides)[0]
    return y.transpose(1, 2)


def by_length(t: Any, q: Any, k: Any, v: Any, n: Any, m: Any) -> Any:
    rows = t.arange(q.shape[1])[:, None] < n[:, None, None, None]
    both = rows & (t.arange(k.shape[1]) < m[:, None, None, None])
    return heads_last(t, q, k, v, t.where(both, 0.0, -math.inf).to(q.dtype))


def projected(
    t: Any, q: Any, k: Any, v: Any, wq: Any, wk: Any, wv: Any, wo: Any, bq: Any, bk: Any, bv: Any,
    bo: Any, mask: Any = None, num_heads: int = 1,
) -> Any:  # fmt: skip
    if mask is not None and mask.dtype == t.bool:
        mask = ~mask  # torch says what is hidden
    y, _ = t.nn.functional.multi_head_attention_forward(
        *(x.transpose(0, 1) for x in (q, k, v)), q.shape[2], num_heads, None,
        t.cat([bq, bk, bv]), None, None, False, 0.0, wo.T, bo, training=False, need_weights=False,
        attn_mask=mask, use_separate_proj_weight=True,
        q_proj_weight=wq.T, k_proj_weight=wk.T, v_proj_weight=wv.T,
    )  # fmt: skip
    return y.transpose(0, 1)


def both_ways(
    t: Any, a: Any, a_value: Any, b: Any, b_value: Any, mask: Any = None, scale: Any = None
) -> Any:
    back = None if mask is None else mask.transpose(-1, -2)
    return attend(t, a, b, b_value, mask, scale), attend(t, b, a, a_value, back, scale)


def unfolded(
    t: Any, q: Any, c: Any, r: Any, wk: Any, wv: Any, n: Any = None, is_causal: bool = True
) -> Any:
    """Return latent attention with all keys and values made, as the paper first writes it."""
    keys = t.einsum("bsc,nec->bnse", c, wk)
    keys = t.cat([keys, r[:, None].expand(-1, keys.shape[1], -1, -1)], 3)
    values = t.einsum("bsc,ncd->bnsd", c, wv)
    ends = np.array([c.shape[1]] * len(q)) if n is None else n.numpy()
    rule = seen_by(t, q.shape[2], c.shape[1], ends - q.shape[2], causal=is_causal)
    there = t.arange(c.shape[1]) < t.tensor(ends)[:, None, None, None]
    return attend(t, q, keys, values, rule & there)


def contrib(
    t: Any, q: Any, k: Any, v: Any, bias: Any, mask: Any, added: Any = None, num_heads: int = 1,
    mask_filter_value: float = -10000.0, is_causal: bool = False,
) -> Any:  # fmt: skip
    n, m = q.shape[2], k.shape[2]
    parts = q + bias[:n], k + bias[n : n + m], v + bias[n + m :]
    q, k, v = (x.unflatten(2, (num_heads, -1)).transpose(1, 2) for x in parts)
    if mask.ndim == 1:
        mask = t.arange(m and k.shape[2]) < mask[:, None]
    hidden = (mask == 0)[:, None] if mask.ndim == 3 else (mask == 0)[:, None, None]
    total = hidden * mask_filter_value + (0.0 if added is None else added)
    rule = seen_by(t, q.shape[2], k.shape[2], causal=is_causal)
    total = total.expand(-1, -1, *rule.shape).masked_fill(~rule, -math.inf).to(q.dtype)
    return attend(t, q, k, v, total).transpose(1, 2).flatten(2), k.clone(), v.clone()


def decoded(
    t: Any, q: Any, k: Any, v: Any, keys: Any, values: Any, at: Any, num_heads: int = 1
) -> Any:
    n = q.shape[1]
    q, k, v = (x.unflatten(2, (num_heads, -1)).transpose(1, 2) for x in (q, k, v))
    keys, values = keys.clone(), values.clone()
    starts = np.broadcast_to(at.numpy(), (len(q),))
    for b, start in enumerate(starts):
        keys[b, :, start : start + n], values[b, :, start : start + n] = k[b], v[b]
    rule = seen_by(t, n, keys.shape[2], starts, causal=True)
    return attend(t, q, keys, values, rule).transpose(1, 2).flatten(2), keys, values


def flexed(t: Any, q: Any, k: Any, v: Any, slope: Any) -> Any:
    share = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(share, 1) for x in (k, v))
    scores = 2.0 * t.tanh(q @ k.mT / math.sqrt(q.shape[3]) / 2.0)
    return (slope * scores.softmax(-1)) @ v


def ours_flexed(q: Any, k: Any, v: Any, slope: Any) -> Any:
    return gw.nn.flex_attention(q, k, v, lambda s: gw.nn.tanh(s / 2.0) * 2.0, lambda p: slope * p)


CONTRIB = normal(2, 3, 4), normal(2, 4, 4), normal(2, 4, 6), normal(14)
ROOM = normal(2, 2, 5, 2), normal(2, 2, 5, 2)
BOTH = normal(2, 2, 3, 4), normal(2, 2, 3, 5), normal(2, 2, 6, 4), normal(2, 2, 6, 3)
LATENT = normal(2, 3, 2, 6), normal(2, 5, 4), normal(2, 5, 2), normal(3, 4, 4), normal(3, 4, 5)
WEIGHTS = normal(6, 6), normal(5, 6), normal(3, 6), normal(6, 6), *(normal(6) for _ in range(4))
INPUTS = normal(2, 3, 6) / 2, normal(2, 4, 5) / 2, normal(2, 4, 3) / 2
TURNED = tuple(x.swapaxes(1, 2) for x in heads(2, 4, 2, 3, 5, 4, 4))

FORMS: dict[str, Row] = {
    "visible_keys": Row(
        lambda t, x, offset=0, left_window_size=-1, right_window_size=-1, is_causal=False: seen_by(
            t, *x.shape[-2:], offset, left_window_size, right_window_size, is_causal
        ),
        [(normal(2, 3, 5), {**band, "offset": o}) for band in BANDS for o in (0, 2)],
    ),
    "masked_softmax": Row(
        lambda t, x, seen: x.masked_fill(~seen, -math.inf).softmax(-1).nan_to_num(0.0),
        [(normal(2, 3, 5), SOME_SEEN), (normal(2, 0, 5), bools(5)), (normal(4, 1), bools(4, 1))],
        fixed=(),
    ),
    "attention": Row(general, GENERAL),
    "attention, of a cache": Row(theirs_with_length, LENGTHS, ours_with_length),
    "cached_attention": Row(
        cached,
        [
            (*NEW, *heads(1, 2, 2, 4, 4, 2, 3)[1:], np.array([2]), {"scale": 0.4}),
            (*NEW, *heads(1, 2, 2, 4, 4, 2, 3)[1:], np.array([4]), {"window_size": 2}),
        ],
        lambda *xs, **attrs: gw.nn.cached_attention(*xs, **attrs)[0],
    ),
    "flash_attention": Row(
        tiled,
        [
            (*SELF, {"tile": 2}),
            (*SELF, {"tile": 3, "is_causal": True, "scale": 0.3}),
            *((*GROUPED, {**band, "tile": 2}) for band in BANDS),
            (*heads(1, 2, 1, 40, 70, 8, 8), {"tile": 16, "is_causal": True}),
            (*heads(1, 2, 1, 70, 40, 8, 4), {"tile": 16, "left_window_size": 9}),
            (*heads(1, 1, 1, 5, 3, 2, 2), {"is_causal": True}),
            (*GROUPED, SOME_SEEN, {"tile": 2}),
            (*GROUPED, normal(4, 1, 5), {"tile": 2, "is_causal": True, "offset": 1}),
            *EMPTY,
            ALONE,
        ],
    ),
    "grouped_query_attention": Row(
        grouped,
        [
            GROUPED,
            (*GROUPED, {"is_causal": True, "scale": 0.2}),
            (*GROUPED, SOME_SEEN),
            (*GROUPED, normal(4, 1, 5), {"is_causal": True}),
            *EMPTY,
            ALONE,
        ],
    ),
    "sliding_window_attention": Row(
        sliding,
        [(*SELF, {"window_size": w, "is_causal": c}) for w in (1, 2, 9) for c in (True, False)],
    ),
    "shared_kv_attention": Row(
        shared, [GROUPED, (*GROUPED, {"left_window_size": 1}), (*GROUPED, np.array([5, 4]))]
    ),
    "windowed_attention": Row(
        windowed,
        [
            (*heads(2, 4, 2, 6, 6, 4, 3), {"window_size": 3}),
            (*heads(2, 2, 2, 6, 6, 4, 3), normal(2, 1, 2, 2), {"window_size": 2}),
            (*heads(1, 1, 1, 4, 4, 2, 2), np.eye(4, dtype=bool), {"window_size": 4}),
        ],
    ),
    "dot_product_attention": Row(
        heads_last,
        [
            TURNED,
            (*TURNED, {"is_causal": True, "scale": 0.3}),
            (*TURNED, normal(2, 4, 3, 5), {"local_window_size": (2, 1)}),
            (*TURNED, normal(1, 4, 3, 5), SOME_SEEN[None, None]),
        ],
    ),
    "dot_product_attention, by length": Row(
        by_length,
        [(*TURNED, np.array([2, 3], np.int32), np.array([5, 2], np.int32))],
        lambda q, k, v, n, m: gw.nn.dot_product_attention(q, k, v, None, None, n, m),
    ),
    "multi_head_dot_product_attention": Row(
        projected,
        [
            (*INPUTS, *WEIGHTS, {"num_heads": 2}),
            (*INPUTS, *WEIGHTS, normal(3, 4), {"num_heads": 3}),
            (*INPUTS, *WEIGHTS, bools(3, 4) | (np.arange(4) == 2), {"num_heads": 1}),
        ],
    ),
    "two_way_cross_attention": Row(
        both_ways,
        [
            BOTH,
            (*BOTH, normal(2, 3, 6), {"scale": 0.3}),
            (*BOTH, bools(3, 6) | np.eye(3, 6, dtype=bool)),
        ],
    ),
    "mla_attention": Row(
        unfolded, [LATENT, (*LATENT, {"is_causal": False}), (*LATENT, np.array([5, 3]))]
    ),
    "multi_head_attention": Row(
        contrib,
        [
            (*CONTRIB, ints(0, 2, 2, 4, dtype="int32"), {"num_heads": 2}),
            (*CONTRIB, np.array([4, 2]), {"num_heads": 2, "is_causal": True}),
            (*CONTRIB, ints(0, 2, 2, 3, 4), normal(1, 2, 3, 4), {"num_heads": 2}),
        ],
    ),
    "decoder_masked_mha": Row(
        decoded,
        [
            (*(normal(2, 1, 4) for _ in range(3)), *ROOM, np.array(2), {"num_heads": 2}),
            (*(normal(2, 2, 4) for _ in range(3)), *ROOM, np.array([3, 0]), {"num_heads": 2}),
        ],
    ),
    "flex_attention": Row(flexed, [(*GROUPED, normal(5))], ours_flexed),
}

ROWS = FORMS
