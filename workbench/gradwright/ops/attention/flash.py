"""Attention tile by tile: no buffer has a place for each pair of query and key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...op import (
    LINEAR,
    OPAQUE,
    ZERO,
    Autocast,
    Cotangent,
    Dependence,
    ErrorSample,
    Sample,
    multiplied,
)
from ...spec import TensorSpec, kind
from ..core.joining import filled
from ..core.movement import Cast
from .flash_grad import FlashAttentionGrad, FlashAttentionMaskGrad
from .tiled import Tiled, flat, grouped, mask_of, of_run
from .weights import scale_of


class FlashAttention(Tiled):
    """Attention whose memory grows with the length, not its square (Dao 2023, FlashAttention-2).

    y = softmax(query @ keyᵀ·scale + attn_mask) @ value, summed tile by tile with a running maximum
    and total: of a tile's scores s, m′ = max(m, max s), l′ = l·eᵐ⁻ᵐ′ + Σ eˢ⁻ᵐ′,
    y′ = y·eᵐ⁻ᵐ′ + eˢ⁻ᵐ′ @ value.

    query: f32[B, Hq, T, E], key: f32[B, H, S, E], value: f32[B, H, S, D]; runs of Hq/H heads share
    one. A bool attn_mask says which keys are seen, a floating one is added, and −∞ hides; it
    broadcasts to [B, Hq, T, S] and is read tile by tile. Query i stands at position S − T + i for
    ``is_causal`` and the windows, or at ``offset`` + i; tiles that nobody sees are not computed. A
    query that sees no key gets zeros, or what ``unseen`` says. The gradient computes the weights
    again, tile by tile, from the residual m + ln l; that of order 2 holds whole score matrices.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, v = g.constant([[[[1.0], [1.0]]]]), g.constant([[[[2.0], [4.0]]]])
    >>> y = gw.nn.flash_attention(q, q, v, is_causal=True, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[[2.0], [3.0]]]]
    """

    namespace = "nn"
    drawing = "linear"
    autocast = Autocast.ATTENTION
    n_public = 1
    dependence = Dependence("rows", -1), OPAQUE, LINEAR, OPAQUE

    def infer(
        self,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        attn_mask: TensorSpec | None = None,
    ) -> tuple[TensorSpec, TensorSpec]:
        self.check(query, key, value, attn_mask)
        wide = "float64" if query.dtype == np.float64 else "float32"
        y = query.with_shape((*query.shape[:3], value.shape[3]))
        return y, TensorSpec(query.shape[:3], wide)

    def forward(self, query: Any, key: Any, value: Any, attn_mask: Any = None) -> Any:
        b, heads, n_queries, features = query.shape
        n, n_keys, width = b * heads, key.shape[2], value.shape[3]
        scale, share = scale_of(self.scale, features), heads // max(key.shape[1], 1)
        wide: Any = np.float64 if query.dtype == np.float64 else np.float32
        queries, keys, values = map(flat, (query, key, value))
        mask = mask_of(attn_mask, b, heads, n_queries, n_keys)
        nothing = wide(self.of_nothing(attn_mask))
        y = np.zeros((n, n_queries, width), query.dtype)
        lse = np.full((n, n_queries), nothing, wide)
        plan = list(self.tiles(n_queries, n_keys))
        for run in self.runs(n, share, n_queries, n_keys):
            k, v = (of_run(x, run, share).astype(wide, copy=False) for x in (keys, values))
            for rows, parts in plan:
                q = grouped(queries[run, rows] * wide(scale), len(k))
                total, size = np.zeros((*q.shape[:-1], width), wide), np.zeros(q.shape[:-1], wide)
                top = np.full(q.shape[:-1], np.finfo(wide).min, wide)
                for columns, hidden in parts:
                    s, _ = self.scores(q, k[:, columns], hidden, mask(run, rows, columns))
                    higher = np.maximum(top, s.max(-1))
                    s -= higher[..., None]
                    np.exp(s, out=s)
                    shrink = np.exp(top - higher)
                    size = size * shrink + s.sum(-1)
                    total *= shrink[..., None]
                    total += s @ v[:, columns]
                    top = higher
                # What saw no key is 0/∞ or 0/NaN; NaN stays.
                size[size == 0] = nothing
                total /= size[..., None]
                y[run, rows] = total.reshape(y[run, rows].shape)
                lse[run, rows] = (top + np.log(size)).reshape(lse[run, rows].shape)
        return y.reshape(b, heads, n_queries, width), lse.reshape(b, heads, n_queries)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g, h), (y, lse) = filled(gs, ys), ys
        wide = Cast(dtype=lse.dtype)
        delta = (wide(g) * wide(y)).sum(-1) - (0.0 if gs[1] is ZERO else h)
        given, attrs = (g, *xs[:3], lse, delta, *xs[3:]), self.attributes()
        made: list[Any] = list(FlashAttentionGrad(**attrs)(*given))
        if len(xs) > 3 and xs[3] is not None:
            is_bool = kind(xs[3].dtype) == "b"
            made.append(ZERO if is_bool else lambda: FlashAttentionMaskGrad(**attrs)(*given))
        return made + [ZERO] * (len(xs) - len(made))

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return multiplied(outs[1], ins[1].shape[2] * (ins[1].shape[3] + ins[2].shape[3]))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, k, v = draw((1, 2, 3, 2)), draw((1, 1, 5, 2)), draw((1, 1, 5, 3))
        yield Sample((q, k, v), {"tile": 2})
        yield Sample((q, k[:, :, :2], v[:, :, :2]), {"is_causal": True, "scale": 0.4})
        yield Sample((q[:, :, :0], k, v))
        window = {"is_causal": True, "left_window_size": 1, "offset": 1}
        yield Sample((q, k, v, draw((2, 1, 5))), {"tile": 2, **window})
        seen = np.array([[True, False, False], [True, True, False]]).T[..., None] & (
            v[0, 0, :, 0] < 9
        )
        yield Sample((q, k, v, seen[:, 1]), {"tile": 2, "unseen": "average"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, k, v = TensorSpec((1, 4, 3, 2)), TensorSpec((1, 2, 5, 2)), TensorSpec((1, 2, 5, 3))
        yield ErrorSample((TensorSpec((3, 2)), k, v), {}, "needs heads apart")
        yield ErrorSample((q, v, v), {}, "different features")
        yield ErrorSample((q, k, v), {"tile": 0}, "holds nothing")
        yield ErrorSample((q, k, v), {"left_window_size": -3}, "is no window")
        yield ErrorSample((q, k, v, TensorSpec((3, 4), "bool")), {}, "do not broadcast")
        yield ErrorSample((q, k, v, TensorSpec((3, 5), "int64")), {}, "cannot be int64")
