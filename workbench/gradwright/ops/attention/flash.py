"""Attention tile by tile: no buffer has a place for each pair of query and key."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError, ShapeError
from ...op import (
    LINEAR,
    OPAQUE,
    ZERO,
    Autocast,
    Cotangent,
    Dependence,
    ErrorSample,
    Op,
    Sample,
    attr,
    multiplied,
)
from ...spec import TensorSpec, check_floats, shapes_differ
from ..core.choice import Where
from ..core.exponential import Exp
from ..core.joining import filled
from ..core.movement import Cast, ExpandDims
from ..core.special import widened
from .weights import VisibleKeys, check_heads, check_windows, scale_of

Array = np.ndarray[Any, Any]


class _Tiled(Op):
    """What forward and backward share: settings, and which tiles there are."""

    is_causal: bool = attr(False, doc="Hide the keys behind each query.")
    scale: float | None = attr(None, doc="Factor of the scores; None is 1/√E.")
    left_window_size: int = attr(-1, doc="How many keys before a query it sees; -1 is all.")
    right_window_size: int = attr(-1, doc="How many keys behind a query it sees; -1 is all.")
    tile: int = attr(256, doc="Queries, and keys, of a tile.")

    def visible(self, n_queries: Any, n_keys: Any) -> VisibleKeys:
        """Return the rule for who sees whom: the last query stands at the last key."""
        return VisibleKeys(
            is_causal=self.is_causal,
            left_window_size=self.left_window_size,
            right_window_size=self.right_window_size,
            offset=n_keys - n_queries,
        )

    def tiles(self, n_queries: int, n_keys: int) -> Iterator[tuple[slice, list[Any]]]:
        """Yield runs of queries, each with the runs of keys it sees and the mask in each.

        A mask is None where all is seen; what nobody sees is left out.
        """
        offset, right = n_keys - n_queries, 0 if self.is_causal else self.right_window_size
        left = self.left_window_size
        for start in range(0, n_queries, self.tile):
            rows = slice(start, min(start + self.tile, n_queries))
            first, last = start + offset, rows.stop - 1 + offset
            low = max(first - left, 0) // self.tile * self.tile if left >= 0 else 0
            high = min(last + right + 1, n_keys) if right >= 0 else n_keys
            parts = []
            for at in range(low, high, self.tile):
                columns = slice(at, min(at + self.tile, high))
                whole = (right < 0 or columns.stop - 1 <= first + right) and (
                    left < 0 or at >= last - left
                )
                hidden = None
                if not whole:
                    back = np.arange(first, last + 1)[:, None] - np.arange(at, columns.stop)
                    hidden = np.zeros(back.shape, bool)
                    if right >= 0:
                        hidden |= back < -right
                    if left >= 0:
                        hidden |= back > left
                parts.append((columns, hidden))
            yield rows, parts

    def runs(self, n_heads: int, share: int, n_queries: int, n_keys: int) -> Iterator[slice]:
        """Yield runs of heads of queries that are computed together: as many as fill a tile.

        A run holds whole groups of heads that share keys, or stays inside one.
        """
        size = min(self.tile, n_queries) * min(self.tile, n_keys)
        most = max(self.tile**2 // max(size, 1), 1)
        step = most // share * share if most >= share else math.gcd(most, share)
        for start in range(0, n_heads, step):
            yield slice(start, min(start + step, n_heads))

    def check(self) -> None:
        """Refuse settings without meaning."""
        check_windows(self.left_window_size, self.right_window_size)
        if self.tile < 1:
            raise GraphError(f"a tile of {self.tile} holds nothing", need="tile >= 1")


class FlashAttention(_Tiled):
    """Attention whose memory grows with the length, not its square (Dao 2023, FlashAttention-2).

    y = softmax(query @ keyᵀ·scale) @ value, summed tile by tile with a running maximum and total:
    of a tile's scores s, m′ = max(m, max s), l′ = l·eᵐ⁻ᵐ′ + Σ eˢ⁻ᵐ′, y′ = y·eᵐ⁻ᵐ′ + eˢ⁻ᵐ′ @ value.

    query: f32[B, Hq, T, E], key: f32[B, H, S, E], value: f32[B, H, S, D]; runs of Hq/H heads share
    one. Query i stands at position S − T + i for ``is_causal`` and the windows; tiles that nobody
    sees are not computed. A query that sees no key gets zeros. The gradient computes the weights
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
    dependence = Dependence("rows", -1), OPAQUE, LINEAR

    def infer(
        self, query: TensorSpec, key: TensorSpec, value: TensorSpec
    ) -> tuple[TensorSpec, TensorSpec]:
        check_heads(query, key, value)
        self.check()
        wide = "float64" if query.dtype == np.float64 else "float32"
        y = query.with_shape((*query.shape[:3], value.shape[3]))
        return y, TensorSpec(query.shape[:3], wide)

    def forward(self, query: Any, key: Any, value: Any) -> Any:
        b, heads, n_queries, features = query.shape
        n, n_keys, width = b * heads, key.shape[2], value.shape[3]
        scale, share = scale_of(self.scale, features), heads // max(key.shape[1], 1)
        wide: Any = np.float64 if query.dtype == np.float64 else np.float32
        queries, keys, values = map(_flat, (query, key, value))
        y = np.zeros((n, n_queries, width), query.dtype)
        lse = np.full((n, n_queries), np.inf, wide)  # e to the score less this: 0 for no keys
        plan = list(self.tiles(n_queries, n_keys))
        for run in self.runs(n, share, n_queries, n_keys):
            k, v = (_of_run(x, run, share).astype(wide, copy=False) for x in (keys, values))
            for rows, parts in plan:
                q = _grouped(queries[run, rows] * wide(scale), len(k))
                total = np.zeros((*q.shape[:-1], width), wide)
                top, size = np.full(q.shape[:-1], -np.inf, wide), np.zeros(q.shape[:-1], wide)
                for columns, hidden in parts:
                    s = _scores(q, k[:, columns], hidden)
                    higher = np.maximum(top, s.max(-1))
                    base = np.where(np.isneginf(higher), wide(0), higher)
                    s -= base[..., None]
                    np.exp(s, out=s)
                    shrink = np.exp(top - base)
                    size = size * shrink + s.sum(-1)
                    total *= shrink[..., None]
                    total += s @ v[:, columns]
                    top = higher
                seen = size > 0
                total /= np.where(seen, size, wide(1))[..., None]
                y[run, rows] = total.reshape(y[run, rows].shape)
                top[seen] += np.log(size[seen])
                lse[run, rows] = np.where(seen, top, np.inf).reshape(lse[run, rows].shape)
        return y.reshape(b, heads, n_queries, width), lse.reshape(b, heads, n_queries)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g, h), (y, lse) = filled(gs, ys), ys
        wide = Cast(dtype=lse.dtype)
        delta = (wide(g) * wide(y)).sum(-1) - (0.0 if gs[1] is ZERO else h)
        made: Sequence[Cotangent] = FlashAttentionGrad(**self.attributes())(g, *xs, lse, delta)
        return made

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return multiplied(outs[1], ins[1].shape[2] * (ins[1].shape[3] + ins[2].shape[3]))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, k, v = draw((1, 2, 3, 2)), draw((1, 1, 5, 2)), draw((1, 1, 5, 3))
        yield Sample((q, k, v), {"tile": 2})
        yield Sample((q, k, v), {"tile": 2, "is_causal": True, "left_window_size": 1})
        yield Sample((q, k[:, :, :2], v[:, :, :2]), {"is_causal": True, "scale": 0.4})
        yield Sample((q[:, :, :0], k, v))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, k, v = TensorSpec((1, 4, 3, 2)), TensorSpec((1, 2, 5, 2)), TensorSpec((1, 2, 5, 3))
        yield ErrorSample((TensorSpec((3, 2)), k, v), {}, "needs heads apart")
        yield ErrorSample((q, v, v), {}, "different features")
        yield ErrorSample((q, k, v), {"tile": 0}, "holds nothing")
        yield ErrorSample((q, k, v), {"left_window_size": -3}, "is no window")


class FlashAttentionGrad(_Tiled):
    """Cotangents of queries, keys and values, tile by tile (Dao 2023, algorithm 2).

    P = exp(query @ keyᵀ·scale − lse), dS = P·(g @ valueᵀ − delta);
    dquery = dS @ key·scale, dkey = dSᵀ @ query·scale, dvalue = Pᵀ @ g,
    with delta = Σ g·y less the cotangent of lse, over the last axis
    """

    namespace = "gradient"
    returns = "dquery", "dkey", "dvalue"
    drawing = "math"
    dependence = LINEAR, OPAQUE, OPAQUE, LINEAR, OPAQUE, LINEAR

    def infer(
        self,
        g: TensorSpec,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        lse: TensorSpec,
        delta: TensorSpec,
    ) -> tuple[TensorSpec, ...]:
        y, like = FlashAttention(**self.attributes()).infer(query, key, value)
        check_floats("attention", g, lse, delta)
        for given, need in ((g, y), (lse, like), (delta, like)):
            if shapes_differ(given.shape, need.shape):
                raise ShapeError("a cotangent does not fit the attention", need=str(need))
        return tuple(x.with_shape(x.shape) for x in (query, key, value))

    def forward(self, g: Any, query: Any, key: Any, value: Any, lse: Any, delta: Any) -> Any:
        heads, share = query.shape[1], query.shape[1] // max(key.shape[1], 1)
        wide = np.result_type(*map(widened, (g, query, key, value, lse, delta))).type
        scale = wide(scale_of(self.scale, query.shape[3]))
        n_queries, n_keys = query.shape[2], key.shape[2]
        flat = [_flat(x) for x in (g, query, key, value, lse[..., None], delta[..., None])]
        dq, dk, dv = (np.zeros(x.shape, wide) for x in flat[1:4])
        plan = list(self.tiles(n_queries, n_keys))
        for run in self.runs(query.shape[0] * heads, share, n_queries, n_keys):
            k, v = (widened(_of_run(x, run, share)) for x in flat[2:4])
            of_k, of_v = (_of_run(x, run, share) for x in (dk, dv))
            for rows, parts in plan:
                gy, q, less, minus = (_grouped(flat[i][run, rows], len(k)) for i in (0, 1, 4, 5))
                gy, q = widened(gy), q * scale
                of_q = np.zeros(q.shape, wide)
                for columns, hidden in parts:
                    p = _scores(q, k[:, columns], hidden)
                    p -= less
                    np.exp(p, out=p)
                    of_v[:, columns] += p.mT @ gy
                    ds = gy @ v[:, columns].mT
                    ds -= minus
                    ds *= p
                    of_q += ds @ k[:, columns]
                    of_k[:, columns] += ds.mT @ q
                of_q *= scale
                dq[run, rows] = of_q.reshape(dq[run, rows].shape)
        return tuple(
            d.astype(x.dtype, copy=False).reshape(x.shape)
            for d, x in zip((dq, dk, dv), (query, key, value), strict=True)
        )

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        made: Sequence[Cotangent] = FlashAttentionGradGrad(**self.attributes())(
            *filled(gs, ys), *xs
        )
        return made

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return multiplied(ins[4], ins[2].shape[2] * (3 * ins[2].shape[3] + 2 * ins[3].shape[3]))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, k, v = draw((1, 2, 2, 2)), draw((1, 1, 3, 2)), draw((1, 1, 3, 1))
        lse, delta = draw((1, 2, 2)) + 1, draw((1, 2, 2))
        g = draw((1, 2, 2, 1))
        yield Sample((g, q, k, v, lse, delta), {"tile": 2, "is_causal": True})
        yield Sample((g, q, k, v, lse, delta), {"right_window_size": 0, "scale": 0.4})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, k = TensorSpec((1, 4, 3, 2)), TensorSpec((1, 2, 5, 2))
        lse = TensorSpec((1, 4, 3))
        yield ErrorSample((k, q, k, k, lse, lse), {}, "does not fit the attention")


class FlashAttentionGradGrad(_Tiled):
    """Cotangents of what the gradient of flash attention read: for gradients of order 2.

    With cotangents a, b, c of dquery, dkey, dvalue, and P, dP = g @ valueᵀ, dS as there:
    U = (a @ keyᵀ + query @ bᵀ)·scale, W = P·(g @ cᵀ + U·(dP − delta)), R = U·P;
    dg = P @ c + R @ value, dvalue = Rᵀ @ g, dquery = (W @ key + dS @ b)·scale,
    dkey = (Wᵀ @ query + dSᵀ @ a)·scale, dlse = −Σ W, ddelta = −Σ R
    """

    namespace = "gradient"
    returns = "dg", "dquery", "dkey", "dvalue", "dlse", "ddelta"
    drawing = "math"

    def infer(
        self,
        a: TensorSpec,
        b: TensorSpec,
        c: TensorSpec,
        g: TensorSpec,
        query: TensorSpec,
        key: TensorSpec,
        value: TensorSpec,
        lse: TensorSpec,
        delta: TensorSpec,
    ) -> tuple[TensorSpec, ...]:
        found = FlashAttentionGrad(**self.attributes()).infer(g, query, key, value, lse, delta)
        check_floats("attention", a, b, c)
        for given, need in zip((a, b, c), found, strict=True):
            if shapes_differ(given.shape, need.shape):
                raise ShapeError("a cotangent does not fit the gradient", need=str(need))
        return tuple(x.with_shape(x.shape) for x in (g, query, key, value, lse, delta))

    def expand(
        self, a: Any, b: Any, c: Any, g: Any, query: Any, key: Any, value: Any, lse: Any, delta: Any
    ) -> Any:
        scale = scale_of(self.scale, query.shape[3])
        inputs = (g, query, key, value, lse, delta)
        heads, share = key.shape[1], query.shape[1] // max(key.shape[1], 1)

        def apart(x: Any) -> Any:  # heads of queries that share a head of keys get an axis
            return x.reshape(x.shape[0], heads, share, *x.shape[2:])

        a, g, q, lse, delta = map(apart, (a, g, query, lse[..., None], delta[..., None]))
        b, c, k, v = (ExpandDims(axis=2)(x) for x in (b, c, key, value))
        scores = q @ k.mT * scale - lse
        seen = self.visible(query.shape[2], key.shape[2])(scores)
        p = Exp()(Where()(seen, scores, -np.inf))
        slope = g @ v.mT - delta
        u = (a @ k.mT + q @ b.mT) * scale
        w, r, ds = p * (g @ c.mT + u * slope), u * p, p * slope
        found = (
            p @ c + r @ v,
            (w @ k + ds @ b) * scale,
            (w.mT @ q + ds.mT @ a).sum(2) * scale,
            (r.mT @ g).sum(2),
            -w.sum(-1),
            -r.sum(-1),
        )
        return tuple(
            Cast(dtype=x.dtype)(y.reshape(*x.shape)) for y, x in zip(found, inputs, strict=True)
        )

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in FlashAttentionGrad.samples(rng):
            cotangents = [rng.standard_normal(x.shape) for x in sample.inputs[1:4]]
            yield Sample((*cotangents, *sample.inputs), sample.attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, k = TensorSpec((1, 4, 3, 2)), TensorSpec((1, 2, 5, 2))
        lse = TensorSpec((1, 4, 3))
        yield ErrorSample((k, k, k, q, q, k, k, lse, lse), {}, "does not fit the gradient")


def _flat(x: Array) -> Array:
    """Return the array with samples and heads on one axis."""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def _of_run(x: Array, run: slice, share: int) -> Array:
    """Return the heads of keys that a run of heads of queries sees, as a view."""
    return x[run.start // share : -(-run.stop // share)]


def _grouped(x: Array, n: int) -> Array:
    """Return [n, share·T, …] for [n·share, T, …]: what sees the same keys, below each other."""
    return x.reshape(n, len(x) // n * x.shape[1], x.shape[2])


def _scores(q: Array, k: Array, hidden: Array | None) -> Array:
    """Return the scores of a tile, −∞ where they are hidden."""
    s: Array = q @ k.mT
    if hidden is not None:
        parts = s.reshape(len(s), -1, *hidden.shape)
        np.copyto(parts, s.dtype.type(-np.inf), where=hidden)
    return s
