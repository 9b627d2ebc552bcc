"""Positions and caches of attention beside PyTorch, or beside the papers' own formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.oracle.rows import Row, ints, normal, uniform
from tests.oracle.rows_attention import attend, latest, seen_by


def turned(t: Any, x: Any, cos: Any, sin: Any, interleaved: bool = False) -> Any:
    """Return products of complex numbers."""
    first, second = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    z = t.complex(first, second) * t.complex(cos, sin)
    return t.stack([z.real, z.imag], -1).flatten(-2) if interleaved else t.cat([z.real, z.imag], -1)


def onnx_rope(
    t: Any, x: Any, cos: Any, sin: Any, at: Any = None, interleaved: bool = False,
    num_heads: int = 0, rotary_dim: int = 0,
) -> Any:  # fmt: skip
    if at is not None:
        cos, sin = cos[at], sin[at]
    packed = x.ndim == 3
    x = x.unflatten(2, (num_heads, -1)).transpose(1, 2) if packed else x
    n = rotary_dim or x.shape[3]
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
            (Q, normal(2, 3, 2), normal(2, 3, 2), {"rotary_dim": 4}),
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


def quantised(t: Any, x: Any, bits: int = 8, block_size: int = 0) -> Any:
    groups = x.unflatten(-1, (-1, block_size or x.shape[-1]))
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
    norm = x.norm(dim=-1)
    unit = (x / norm[..., None]) @ turn.T * math.sqrt(x.shape[-1])
    return (unit[..., None] - level).abs().argmin(-1).to(t.int8), norm


CODES = ints(0, 16, 2, 2, 5, 8, dtype="int8"), ints(0, 16, 2, 2, 5, 8, dtype="int8")
NORMS = uniform(0.5, 2, 2, 2, 5), uniform(0.5, 2, 2, 2, 5)
TURBO = normal(2, 4, 3, 8), CODES[0], NORMS[0], CODES[1], NORMS[1], TURN


def turbo(
    t: Any, q: Any, kc: Any, kn: Any, vc: Any, vn: Any, turn: Any, is_causal: bool = False
) -> Any:
    from gradwright.ops.attention.turbo import levels  # themselves held by turbo_quantize

    level = t.tensor(levels(4), dtype=q.dtype) / math.sqrt(q.shape[3])
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
            (normal(2, 3, 8), {"bits": 4, "block_size": 4}),
            (np.array([[0.5, 1.0, -0.25, 0.75]]), {"bits": 2}),
        ],
    ),
    "kv_cache_dequantize": Row(
        lambda t, c, s: (c.unflatten(-1, (s.shape[-1], -1)) * s[..., None]).flatten(-2),
        [(ints(-8, 8, 2, 3, 8, dtype="int8"), normal(2, 3, n)) for n in (1, 4, 8)],
    ),
    "turbo_quantize": Row(nearest, [(normal(5, 8), TURN, {"bits": b}) for b in (1, 2, 3, 4)]),
    "turbo_quant_attention": Row(turbo, [TURBO, (*TURBO, {"is_causal": True})]),
}

ROWS = {**POSITIONS, **CACHES}
