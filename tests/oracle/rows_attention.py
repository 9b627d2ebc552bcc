"""Attention, positions and caches beside PyTorch and JAX, or beside the papers' formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import gradwright as gw
from tests.oracle.rows import Array, Case, Row, bools, ints, normal, uniform

ELSEWHERE = {
    "token_sample": "random: its frequencies are tested in test_sampling.py",
    "top_k_sample": "random: its frequencies are tested in test_sampling.py",
    "top_p_sample": "random: its frequencies are tested in test_sampling.py",
    "xtc_filter": "random: held against its rule, row by row, in test_sampling.py",
}


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
    t: Any, q: Any, k: Any, v: Any, is_causal: bool = False, scale: Any = None,
    left_window_size: int = -1, right_window_size: int = -1, tile: int = 0,
) -> Any:  # fmt: skip
    rule = seen_by(
        t, q.shape[2], k.shape[2], latest(q, k), left_window_size, right_window_size, is_causal
    )
    return attend(t, q, k, v, rule if k.shape[2] else None, scale)


def grouped(
    t: Any, q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: Any = None
) -> Any:
    rule = seen_by(t, q.shape[2], k.shape[2], causal=is_causal)
    if mask is not None:
        rule = rule & mask if mask.dtype == t.bool else mask.masked_fill(~rule, -math.inf)
    return attend(t, q, k, v, rule, scale)


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


def jax_attention(jax: Any, q: Any, k: Any, v: Any, *rest: Any, **attrs: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, *rest, **attrs)


def by_length(jax: Any, q: Any, k: Any, v: Any, n: Any, m: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, query_seq_lengths=n, key_value_seq_lengths=m)


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
    mask_filter_value: float = -10000.0, unidirectional: bool = False,
) -> Any:  # fmt: skip
    n, m = q.shape[2], k.shape[2]
    parts = q + bias[:n], k + bias[n : n + m], v + bias[n + m :]
    q, k, v = (x.unflatten(2, (num_heads, -1)).transpose(1, 2) for x in parts)
    if mask.ndim == 1:
        mask = t.arange(m and k.shape[2]) < mask[:, None]
    hidden = (mask == 0)[:, None] if mask.ndim == 3 else (mask == 0)[:, None, None]
    total = hidden * mask_filter_value + (0.0 if added is None else added)
    rule = seen_by(t, q.shape[2], k.shape[2], causal=unidirectional)
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
    "flash_attention": Row(
        tiled,
        [
            (*SELF, {"tile": 2}),
            (*SELF, {"tile": 3, "is_causal": True, "scale": 0.3}),
            *((*GROUPED, {**band, "tile": 2}) for band in BANDS),
            (*heads(1, 2, 1, 40, 70, 8, 8), {"tile": 16, "is_causal": True}),
            (*heads(1, 2, 1, 70, 40, 8, 4), {"tile": 16, "left_window_size": 9}),
            (*heads(1, 1, 1, 5, 3, 2, 2), {"is_causal": True}),
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
        jax_attention,
        [
            TURNED,
            (*TURNED, {"is_causal": True, "scale": 0.3}),
            (*TURNED, normal(2, 4, 3, 5), {"local_window_size": (2, 1)}),
            (*TURNED, normal(1, 4, 3, 5), SOME_SEEN[None, None]),
        ],
        library="jax",
    ),
    "dot_product_attention, by length": Row(
        by_length,
        [(*TURNED, np.array([2, 3], np.int32), np.array([5, 2], np.int32))],
        lambda q, k, v, n, m: gw.nn.dot_product_attention(q, k, v, None, None, n, m),
        library="jax",
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
            (*CONTRIB, np.array([4, 2]), {"num_heads": 2, "unidirectional": True}),
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

# -- positions -------------------------------------------------------------------------------------


def turned(t: Any, x: Any, cos: Any, sin: Any, interleaved: bool = False) -> Any:
    """Return products of complex numbers."""
    first, second = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    y = t.view_as_real(t.complex(first, second) * t.complex(cos, sin))
    return y.flatten(-2) if interleaved else y.transpose(-1, -2).flatten(-2)


def onnx_rope(
    t: Any, x: Any, cos: Any, sin: Any, at: Any = None, interleaved: bool = False,
    num_heads: int = 0, rotary_embedding_dim: int = 0,
) -> Any:  # fmt: skip
    if at is not None:
        cos, sin = cos[at], sin[at]
    packed = x.ndim == 3
    x = x.unflatten(2, (num_heads, -1)).transpose(1, 2) if packed else x
    n = rotary_embedding_dim or x.shape[3]
    y = t.cat([turned(t, x[..., :n], cos[:, None], sin[:, None], interleaved), x[..., n:]], 3)
    return y.transpose(1, 2).flatten(2) if packed else y


def speeds(dim: int, base: float, scaling: str, factor: float, length: int) -> list[float]:
    """Return the angle per position of each pair, by the rules as Hugging Face documents them."""
    if scaling == "ntk":
        return speeds(dim, base * factor ** (dim / (dim - 2)), "none", 1.0, length)
    plain = [1.0 / base ** (2 * k / dim) for k in range(dim // 2)]
    if scaling == "llama3":
        out = []
        for w in plain:
            wave = 2 * math.pi / w
            if wave < length / 4.0:
                out.append(w)
            elif wave > length / 1.0:
                out.append(w / factor)
            else:
                smooth = (length / wave - 1.0) / (4.0 - 1.0)
                out.append((1 - smooth) * w / factor + smooth * w)
        return out
    if scaling == "yarn":
        ends = [dim * math.log(length / (r * 2 * math.pi)) / (2 * math.log(base)) for r in (32, 1)]
        low, high = max(math.floor(ends[0]), 0), min(math.ceil(ends[1]), dim - 1)
        ramp = [min(max((k - low) / (high - low), 0.0), 1.0) for k in range(dim // 2)]
        return [w / factor * r + w * (1 - r) for w, r in zip(plain, ramp, strict=True)]
    return [w / factor if scaling == "linear" else w for w in plain]


def angles(
    t: Any, at: Any, dim: int, base: float = 1e4, scaling: str = "none", factor: float = 1.0,
    original_length: int = 8192, dtype: str = "float32",
) -> Any:  # fmt: skip
    w = t.tensor(speeds(dim, base, scaling, factor, original_length), dtype=t.float64)
    size = 0.1 * math.log(factor) + 1 if scaling == "yarn" else 1.0
    z = t.polar(t.full((), size, dtype=t.float64), at[..., None] * w)
    return z.real.to(getattr(t, dtype)), z.imag.to(getattr(t, dtype))


def half_turned(t: Any, x: Any, z: tuple[Any, Any]) -> Any:
    """Return x·cos + rotate_half(x)·sin, with cosines and sines for both halves."""
    cos, sin = (t.cat([a, a], -1).to(x.dtype) for a in z)
    if cos.ndim == 3:
        cos, sin = cos[:, None], sin[:, None]
    part, rest = x.split([cos.shape[-1], x.shape[-1] - cos.shape[-1]], -1)
    first, second = part.chunk(2, -1)
    return t.cat([part * cos + t.cat([-second, first], -1) * sin, rest], -1)


def exact(t: Any, x: Any, at: Any, dim: int, **attrs: Any) -> Any:
    kind = "float64" if x.dtype == t.float64 else "float32"
    return angles(t, at, dim, dtype=kind, **attrs)


def roped(t: Any, q: Any, k: Any, at: Any, rotary_dim: int = 0, **attrs: Any) -> Any:
    z = exact(t, q, at, rotary_dim or q.shape[3], **attrs)
    return half_turned(t, q, z), half_turned(t, k, z)


def twice_roped(t: Any, x: Any, at: Any, global_base: float = 1e6, base: float = 1e4) -> Any:
    return tuple(
        half_turned(t, x, exact(t, x, at, x.shape[3], base=b)) for b in (base, global_base)
    )


def threefold(
    t: Any, q: Any, k: Any, at: Any, sections: Any, sections_interleaved: bool = True
) -> Any:
    """Return Qwen's rule: copy the frequencies of height and width over those of time."""
    parts = [exact(t, q, p, q.shape[3], base=5e6) for p in at]
    z = []
    for c in range(2):
        if sections_interleaved:
            mixed = parts[0][c].clone()
            for axis in (1, 2):
                own = slice(axis, sections[axis] * 3, 3)
                mixed[..., own] = parts[axis][c][..., own]
        else:
            split = [p[c].split(list(sections), -1) for p in parts]
            mixed = t.cat([split[i][i] for i in range(3)], -1)
        z.append(mixed)
    return half_turned(t, q, (z[0], z[1])), half_turned(t, k, (z[0], z[1]))


def slopes_of(n: int) -> list[float]:
    """Return ALiBi's slopes by the recursion of its authors."""
    if math.log2(n).is_integer():
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]
    near = 2 ** math.floor(math.log2(n))
    return slopes_of(near) + slopes_of(2 * near)[0::2][: n - near]


def alibi(t: Any, x: Any) -> Any:
    away = (t.arange(x.shape[-2]) + x.shape[-1] - x.shape[-2])[:, None] - t.arange(x.shape[-1])
    return x - t.tensor(slopes_of(x.shape[-3]), dtype=x.dtype)[:, None, None] * away.abs()


def t5_bias(
    t: Any, w: Any, scores: Any, bidirectional: bool = True, max_distance: int = 128
) -> Any:
    n_queries, n_keys = scores.shape[-2:]
    relative = t.arange(n_keys)[None] - (t.arange(n_queries)[:, None] + n_keys - n_queries)
    n, found = w.shape[0], t.zeros_like(relative)
    if bidirectional:
        n //= 2
        found = found + (relative > 0).long() * n
        relative = relative.abs()
    else:
        relative = -t.minimum(relative, t.zeros_like(relative))
    near = n // 2
    far = (
        near
        + (t.log(relative.float() / near) / math.log(max_distance / near) * (n - near))
        .clamp(min=-1e6)
        .long()
    )
    far = t.minimum(far, t.full_like(far, n - 1))
    return w[found + t.where(relative < near, relative, far)].permute(2, 0, 1)


SCALED = [
    {"scaling": s, "factor": f, "original_length": 64}
    for s, f in (("linear", 4.0), ("ntk", 4.0), ("yarn", 4.0), ("llama3", 8.0))
]
AT = ints(0, 500, 2, 3)
Q, K = normal(2, 4, 3, 8), normal(2, 1, 3, 8)

POSITIONS: dict[str, Row] = {
    "rotate_pairs": Row(
        turned,
        [(normal(2, 3, 6), normal(3, 3), normal(3, 3), {"interleaved": i}) for i in (False, True)]
        + [(normal(0, 4), normal(2), normal(2)), (normal(1, 1, 1, 2, 2), normal(1), normal(1))],
    ),
    "rope_cos_sin": Row(
        angles,
        [(AT, {"dim": 8, "dtype": "float64"}), (np.array(7), {"dim": 2}), (AT[:0], {"dim": 4})]
        + [(AT, {"dim": 16, "dtype": "float64", **attrs}) for attrs in SCALED],
    ),
    "rope": Row(
        onnx_rope,
        [
            (Q, normal(9, 4), normal(9, 4), ints(0, 9, 2, 3)),
            (Q, normal(2, 3, 4), normal(2, 3, 4), {"interleaved": True}),
            (Q, normal(2, 3, 2), normal(2, 3, 2), {"rotary_embedding_dim": 4}),
            (normal(2, 3, 8), normal(9, 2), normal(9, 2), ints(0, 9, 2, 3), {"num_heads": 2}),
        ],
    ),
    "fused_rope": Row(
        roped,
        [
            (Q, K, AT),
            (Q, K, np.arange(3), {"rotary_dim": 4}),
            (Q[:0], K[:0], np.arange(3)),
            *((Q, K, AT, attrs) for attrs in SCALED),
        ],
    ),
    "dual_rope": Row(twice_roped, [(Q, AT), (K, np.arange(3), {"base": 500.0})]),
    "fused_mrope": Row(
        threefold,
        [
            (Q, K, ints(0, 90, 3, 2, 3), {"sections": (2, 1, 1)}),
            (Q, K, ints(0, 90, 3, 3), {"sections": (1, 2, 1), "sections_interleaved": False}),
        ],
    ),
    "apply_alibi": Row(
        alibi, [(normal(2, n, 3, 5),) for n in (1, 2, 3, 6, 8, 12)] + [(normal(4, 0, 3),)]
    ),
    "relative_position_bias": Row(
        t5_bias,
        [(normal(32, 4), normal(1, 4, 150, 200), {"bidirectional": b}) for b in (True, False)]
        + [(normal(8, 2), normal(3, 7), {"max_distance": 20})],
    ),
}

# -- caches ----------------------------------------------------------------------------------------


def scattered(
    t: Any, cache: Any, new: Any, at: Any = None, axis: int = -2, mode: str = "linear"
) -> Any:
    y = cache.clone()
    starts = np.broadcast_to(0 if at is None else at.numpy(), (len(cache),))
    rows, values = y.movedim(axis, 1), new.movedim(axis, 1)
    for b, start in enumerate(starts):
        for i in range(values.shape[1]):
            rows[b, (int(start) + i) % rows.shape[1]] = values[b, i]
    return y


def both_scattered(
    t: Any, kc: Any, vc: Any, k: Any, v: Any, at: Any, circular: bool = False
) -> Any:
    return scattered(t, kc, k, at), scattered(t, vc, v, at)


def quantised(t: Any, x: Any, bits: int = 8, group_size: int = 0) -> Any:
    groups = x.detach().unflatten(-1, (-1, group_size or x.shape[-1]))
    scale = groups.abs().amax(-1) / (2 ** (bits - 1) - 1)
    codes = t.round(groups / t.where(scale == 0, 1.0, scale)[..., None])
    return codes.flatten(-2).to(t.int8), scale


LEVELS = {  # Max 1960, table I
    1: (0.7979,),
    2: (0.4528, 1.510),
    3: (0.2451, 0.7560, 1.344, 2.152),
    4: (0.1284, 0.3881, 0.6568, 0.9424, 1.256, 1.618, 2.069, 2.733),
}
TURN = np.linalg.qr(normal(8, 8))[0]


def nearest(t: Any, x: Any, turn: Any, bits: int = 4) -> Any:
    level = t.tensor([*(-a for a in LEVELS[bits][::-1]), *LEVELS[bits]], dtype=x.dtype)
    norm = x.detach().norm(dim=-1)
    unit = (x.detach() / norm[..., None]) @ turn.detach().T * math.sqrt(x.shape[-1])
    return (unit[..., None] - level).abs().argmin(-1).to(t.int8), norm


CODES = ints(0, 16, 2, 2, 5, 8, dtype="int8"), ints(0, 16, 2, 2, 5, 8, dtype="int8")
NORMS = uniform(0.5, 2, 2, 2, 5), uniform(0.5, 2, 2, 2, 5)
TURBO = normal(2, 4, 3, 8), CODES[0], NORMS[0], CODES[1], NORMS[1], TURN


def turbo(
    t: Any, q: Any, kc: Any, kn: Any, vc: Any, vn: Any, turn: Any, is_causal: bool = False
) -> Any:
    from gradwright.catalogue.attention.turbo import _levels  # themselves held by turbo_quantize

    level = t.tensor(_levels(4), dtype=q.dtype) / math.sqrt(q.shape[3])
    k, v = ((level[c.long()] * n[..., None]) @ turn for c, n in ((kc, kn), (vc, vn)))
    return attend(t, q, k, v, seen_by(t, q.shape[2], k.shape[2], latest(q, k), causal=is_causal))


CACHES: dict[str, Row] = {
    "kv_scatter": Row(
        scattered,
        [
            (normal(2, 3, 5, 2), normal(2, 3, 2, 2)),
            (normal(2, 3, 5, 2), normal(2, 3, 2, 2), np.array([3, 1])),
            (normal(2, 5, 3), normal(2, 4, 3), np.array([7, 2]), {"mode": "circular"}),
            (normal(2, 3, 5), normal(2, 3, 2), np.array(1), {"axis": -1}),
            (normal(2, 5, 3), normal(2, 0, 3)),
        ],
    ),
    "kv_cache_update": Row(
        both_scattered,
        [
            (normal(2, 1, 5, 2), normal(2, 1, 5, 3), normal(2, 1, 2, 2), normal(2, 1, 2, 3), at, c)
            for at, c in ((np.array(3), {}), (np.array([4, 0]), {"circular": True}))
        ],
    ),
    "kv_cache_quantize": Row(
        quantised,
        [
            (normal(2, 3, 8),),
            (normal(2, 3, 8), {"bits": 4, "group_size": 4}),
            (np.zeros((2, 4)), {"bits": 2}),
        ],
    ),
    "kv_cache_dequantize": Row(
        lambda t, c, s: (c.unflatten(-1, (s.shape[-1], -1)) * s[..., None]).flatten(-2),
        [(ints(-8, 8, 2, 3, 8, dtype="int8"), normal(2, 3, n)) for n in (1, 4, 8)],
    ),
    "turbo_quantize": Row(nearest, [(normal(5, 8), TURN, {"bits": b}) for b in (1, 2, 3, 4)]),
    "turbo_quant_attention": Row(turbo, [TURBO, (*TURBO, {"is_causal": True})]),
}

# -- states and choices ----------------------------------------------------------------------------


def stepwise(
    t: Any, q: Any, k: Any, v: Any, state: Any = None, decay: Any = None, beta: Any = None,
    q_num_heads: int = 1, kv_num_heads: int = 1, update_rule: str = "", scale: Any = None,
    chunk_size: int = 0,
) -> Any:  # fmt: skip
    """Return the recurrence, one position after the other."""
    q = q.unflatten(2, (q_num_heads, -1))
    k, v = (x.unflatten(2, (kv_num_heads, -1)) for x in (k, v))
    share = q_num_heads // kv_num_heads
    if state is None:
        state = k.new_zeros(k.shape[0], kv_num_heads, k.shape[3], v.shape[3])
    ys = []
    for i in range(q.shape[1]):
        if decay is not None:
            rate = decay[:, i].unflatten(1, (kv_num_heads, -1))
            state = state * rate.exp()[..., None]
        write = v[:, i]
        if beta is not None:
            write = beta[:, i, :, None] * (write - t.einsum("bhe,bhed->bhd", k[:, i], state))
        state = state + t.einsum("bhe,bhd->bhed", k[:, i], write)
        read = state.repeat_interleave(share, 1)
        ys.append(t.einsum("bhe,bhed->bhd", q[:, i], read).flatten(1))
    return t.stack(ys, 1) * (scale or 1 / math.sqrt(q.shape[3])), state


def one_step(
    t: Any, q: Any, k: Any, v: Any, state: Any, decay: Any = None, beta: Any = None
) -> Any:
    rest = [None if x is None else x.flatten(1)[:, None] for x in (decay, beta)]
    shape = {"q_num_heads": q.shape[1], "kv_num_heads": k.shape[1]}
    y, state = stepwise(t, *(x.flatten(1)[:, None] for x in (q, k, v)), state, *rest, **shape)
    return y[:, 0].unflatten(1, (q.shape[1], -1)), state


def lightning(
    t: Any, q: Any, k: Any, v: Any, rate: Any, state: Any = None, chunk_size: int = 0
) -> Any:
    n = q.shape[1]
    packed = (x.transpose(1, 2).flatten(2) for x in (q, k, v))
    decay = -rate.expand(q.shape[0], q.shape[2], n)
    y, state = stepwise(t, *packed, state, decay, q_num_heads=n, kv_num_heads=n, scale=1.0)
    return y.unflatten(2, (n, -1)).transpose(1, 2), state


def typical(t: Any, logits: Any, p: float = 0.95) -> Any:
    """Return Hugging Face's rule."""
    log = logits.detach().double().log_softmax(-1)
    away = ((-log) - -(log * log.exp()).nansum(-1, keepdim=True)).abs()
    ranked, order = away.sort(descending=False, stable=True)
    total = logits.detach().double().gather(-1, order)
    total = log.exp().gather(-1, order).cumsum(-1) + 0 * total
    last = (total < p).sum(-1, keepdim=True).clamp(max=log.shape[-1] - 1)
    struck = (ranked > ranked.gather(-1, last)).scatter(-1, order, ranked > ranked.gather(-1, last))
    return logits.masked_fill(struck, -math.inf)


def greedy(t: Any, logits: Any, n: Any = None, blank: int = 0) -> Any:
    t_max, b, _ = logits.shape
    ends = [t_max] * b if n is None else n.tolist()
    labels, counts, scores = t.full((b, t_max), -1), [], []
    for i, end in enumerate(ends):
        best, path = logits[:end, i].max(-1)
        path = t.unique_consecutive(path)
        path = path[path != blank]
        labels[i, : len(path)] = path
        counts.append(len(path))
        scores.append(best.sum())
    return labels, t.tensor(counts), t.stack(scores)


def remembered(rule: str, by_feature: bool = False) -> Case:
    q, k, v = normal(2, 7, 8), normal(2, 7, 6) / 3, normal(2, 7, 4)
    q = normal(2, 7, 12)
    more: list[Any] = [normal(2, 2, 3, 2)]
    if rule != "linear":
        more.append(-uniform(0, 1, 2, 7, 6 if by_feature else 2) if "gated" in rule else None)
    if "delta" in rule:
        more.append(uniform(0, 1, 2, 7, 2))
    heads = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule, "chunk_size": 3}
    return q, k, v, *more, heads


DELTA = remembered("delta")
STEP = normal(2, 4, 3), normal(2, 2, 3), normal(2, 2, 5), normal(2, 2, 3, 5)
LIGHT = normal(2, 3, 7, 4), normal(2, 3, 7, 4), normal(2, 3, 7, 2), uniform(0, 0.5, 3)

STATES: dict[str, Row] = {
    "linear_attention": Row(
        stepwise,
        [
            remembered("linear"),
            remembered("gated"),
            remembered("gated", by_feature=True),
            remembered("gated_delta"),
            remembered("gated_delta", by_feature=True),
        ],
    ),
    "linear_attention, that corrects": Row(
        lambda t, q, k, v, s, b, **attrs: stepwise(t, q, k, v, s, None, b, **attrs),
        [(*DELTA[:4], *DELTA[5:])],
        lambda q, k, v, s, b, **attrs: gw.nn.linear_attention(q, k, v, s, None, b, **attrs),
    ),
    "linear_attention_decode": Row(
        one_step,
        [
            STEP,
            (*STEP, -uniform(0, 1, 2, 2, 3)),
            (*STEP, -uniform(0, 1, 2, 2), uniform(0, 1, 2, 2)),
        ],
    ),
    "lightning_attention": Row(
        lightning, [(*LIGHT, {"chunk_size": 3}), (*LIGHT, normal(2, 3, 4, 2))]
    ),
    "typical_p_filter": Row(
        typical, [(normal(4, 9) * 2, {"p": p}) for p in (0.0, 0.2, 0.6, 0.95, 1.0)] + [(normal(1),)]
    ),
    "ctc_greedy_decoder": Row(
        greedy,
        [
            (normal(9, 3, 3),),
            (normal(9, 3, 3), np.array([9, 0, 4]), {"blank": 2}),
            (normal(1, 2, 2),),
        ],
    ),
}

ROWS = {**FORMS, **POSITIONS, **CACHES, **STATES}
