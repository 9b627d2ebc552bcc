"""What goes back through attention tile by tile, and through that once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import LINEAR, OPAQUE, ZERO, Cotangent, ErrorSample, Sample, multiplied
from ...spec import TensorSpec, check_floats, is_floating, kind, shapes_differ
from ..core.choice import Where
from ..core.exponential import Exp
from ..core.like import SumLike
from ..core.movement import Cast, ExpandDims
from ..core.pullback import Pullback
from ..core.special import widened
from .tiled import LOW, Tiled, blind, flat, grouped, mask_of, of_run, weights
from .weights import scale_of


class _Back(Tiled, abstract=True):
    """Cotangents of attention's inputs, of what came for its result and of its residuals."""

    namespace = "gradient"
    drawing = "math"

    def check_all(
        self, g: TensorSpec, query: TensorSpec, key: TensorSpec, value: TensorSpec,
        lse: TensorSpec, delta: TensorSpec, attn_mask: TensorSpec | None = None,
    ) -> None:  # fmt: skip
        """Refuse inputs that are not in step."""
        self.check(query, key, value, attn_mask)
        check_floats("attention", g, lse, delta)
        rows = query.shape[:3]
        for given, need in ((g, (*rows, value.shape[3])), (lse, rows), (delta, rows)):
            if shapes_differ(given.shape, need):
                raise ShapeError("a cotangent does not fit the attention", need=str(list(need)))

    def slopes(
        self, xs: Sequence[Any], take: Callable[..., None], ended: Callable[..., None]
    ) -> None:
        """Give ``take(run, rows, columns, q, k, gy, p, ds)`` the weights and slopes of each tile.

        After all tiles of some queries comes ``ended(run, rows)``.
        """
        g, query, key, value, lse, delta, *masks = xs
        (b, heads, n_queries, _), n_keys = query.shape, key.shape[2]
        share, wide = heads // max(key.shape[1], 1), self.wide(xs)
        scale = wide(scale_of(self.scale, query.shape[3]))
        of = [flat(x) for x in (g, query, key, value, lse[..., None], delta[..., None])]
        mask = mask_of(masks[0] if masks else None, b, heads, n_queries, n_keys)
        n_blind = n_keys if masks and self.may_be_blind(masks[0]) else 0
        plan = list(self.tiles(n_queries, n_keys))
        for run in self.runs(b * heads, share, n_queries, n_keys):
            k, v = (widened(of_run(x, run, share)) for x in of[2:4])
            for rows, parts in plan:
                gy, q, less, minus = (grouped(of[i][run, rows], len(k)) for i in (0, 1, 4, 5))
                gy, q, less = widened(gy), q * scale, widened(less)
                for columns, hidden in parts:
                    s, shut = self.scores(q, k[:, columns], hidden, mask(run, rows, columns))
                    p = weights(s, less, n_blind)
                    ds = gy @ v[:, columns].mT
                    ds -= minus
                    ds *= p
                    if shut is not None:
                        ds[shut] = 0
                    take(run, rows, columns, q, k[:, columns], gy, p, ds)
                ended(run, rows)

    def wide(self, xs: Sequence[Any]) -> Any:
        """Return the dtype of what is added up."""
        return np.result_type(*(widened(x) for x in xs if x is not None and x.dtype != bool)).type

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        q, k, v = draw((1, 2, 2, 2)), draw((1, 1, 3, 2)), draw((1, 1, 3, 1))
        g, lse, delta = draw((1, 2, 2, 1)), draw((1, 2, 2)) + 1, draw((1, 2, 2))
        mask = draw((2, 1, 3))
        yield Sample((g, q, k, v, lse, delta, mask), {"tile": 2, "is_causal": True})
        yield Sample((g, q, k, v, lse, delta, mask[0]), {"right_window_size": 0, "scale": 0.4})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, k = TensorSpec((1, 4, 3, 2)), TensorSpec((1, 2, 5, 2))
        lse = TensorSpec((1, 4, 3))
        mask = TensorSpec((3, 5))
        yield ErrorSample((k, q, k, k, lse, lse, mask), {}, "does not fit the attention")


class FlashAttentionGrad(_Back):
    """Cotangents of queries, keys and values, tile by tile (Dao 2023, algorithm 2).

    P = exp(query @ keyᵀ·scale + attn_mask − lse), dS = P·(g @ valueᵀ − delta);
    dquery = dS @ key·scale, dkey = dSᵀ @ query·scale, dvalue = Pᵀ @ g,
    with delta = Σ g·y less the cotangent of lse, over the last axis
    """

    returns = "dquery", "dkey", "dvalue"
    dependence = LINEAR, OPAQUE, OPAQUE, LINEAR, OPAQUE, LINEAR, OPAQUE

    def infer(self, *xs: TensorSpec) -> tuple[TensorSpec, ...]:
        self.check_all(*xs)
        return tuple(x.with_shape(x.shape) for x in xs[1:4])

    def forward(self, *xs: Any) -> Any:
        query, key, value = xs[1:4]
        share, wide = query.shape[1] // max(key.shape[1], 1), self.wide(xs)
        scale = wide(scale_of(self.scale, query.shape[3]))
        dq, dk, dv = (np.zeros(flat(x).shape, wide) for x in (query, key, value))

        def take(
            run: slice, rows: slice, columns: slice, q: Any, k: Any, gy: Any, p: Any, ds: Any
        ) -> None:
            of_k, of_v = (of_run(x, run, share) for x in (dk, dv))
            of_v[:, columns] += p.mT @ gy
            dq[run, rows] += (ds @ k).reshape(dq[run, rows].shape)
            of_k[:, columns] += ds.mT @ q

        def ended(run: slice, rows: slice) -> None:
            dq[run, rows] *= scale

        self.slopes(xs, take, ended)
        return tuple(
            d.astype(x.dtype, copy=False).reshape(x.shape)
            for d, x in zip((dq, dk, dv), (query, key, value), strict=True)
        )

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return _second(self, [*gs, ZERO], xs)

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return multiplied(ins[4], ins[2].shape[2] * (3 * ins[2].shape[3] + 2 * ins[3].shape[3]))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            yield sample
            yield Sample(sample.inputs[:6], sample.attrs)
        yield Sample((*sample.inputs[:6], np.array([[True, False, True]])), {"tile": 2})


class FlashAttentionMaskGrad(_Back):
    """Cotangent of what was added to the scores, tile by tile.

    dmask = Σ P·(g @ valueᵀ − delta) over the axes along which it was broadcast
    """

    dependence = LINEAR, OPAQUE, OPAQUE, LINEAR, OPAQUE, LINEAR, OPAQUE

    def infer(self, *xs: TensorSpec) -> TensorSpec:
        self.check_all(*xs)
        check_floats("the gradient of a mask", xs[6])
        return xs[6].with_shape(xs[6].shape)

    def forward(self, *xs: Any) -> Any:
        mask, wide = xs[6], self.wide(xs)
        heads, made = xs[1].shape[1], np.zeros((1,) * (4 - xs[6].ndim) + xs[6].shape, wide)
        along = [size > 1 for size in made.shape]

        def take(run: slice, rows: slice, columns: slice, *xs: Any) -> None:
            ds = xs[-1].reshape(run.stop - run.start, rows.stop - rows.start, -1)
            at = tuple(
                s if moves else slice(None)
                for s, moves in zip((rows, columns), along[2:], strict=True)
            )
            axes = tuple(i for i in (0, 1) if not along[2 + i])
            for n, slope in zip(range(run.start, run.stop), ds, strict=True):
                of = made[n // heads * along[0], n % heads * along[1]]
                of[at] += slope.sum(axes, keepdims=True)

        self.slopes(xs, take, lambda run, rows: None)
        return made.astype(mask.dtype, copy=False).reshape(mask.shape)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return _second(self, [ZERO, ZERO, ZERO, *gs], xs)

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return multiplied(ins[4], ins[2].shape[2] * (ins[2].shape[3] + ins[3].shape[3]))


class FlashAttentionGradWhole(_Back):
    """What flash attention's gradients are, with whole matrices of scores: for those of order 2.

    dquery, dkey and dvalue as in ``flash_attention_grad``; behind them, if there is a floating
    mask, what goes back to it
    """

    returns = "dquery", "dkey", "dvalue", "*dmask"

    def infer(self, *xs: TensorSpec) -> tuple[TensorSpec, ...]:
        self.check_all(*xs)
        masks = [x for x in xs[6:] if x is not None and kind(x.dtype) == "f"]
        return tuple(x.with_shape(x.shape) for x in (*xs[1:4], *masks))

    def expand(self, *xs: Any) -> Any:
        g, query, key, value, lse, delta = xs[:6]
        mask = xs[6] if len(xs) > 6 else None
        scale, n_keys = scale_of(self.scale, query.shape[3]), key.shape[2]
        heads, share = key.shape[1], query.shape[1] // max(key.shape[1], 1)

        def apart(x: Any) -> Any:  # heads of queries that share a head of keys get an axis
            return x.reshape(x.shape[0], heads, share, *x.shape[2:])

        def together(x: Any) -> Any:
            return x.reshape(x.shape[0], heads * share, *x.shape[3:])

        gy, q, less, minus = map(apart, (g, query, lse[..., None], delta[..., None]))
        k, v = (ExpandDims(axis=2)(x) for x in (key, value))
        scores, where, shut = together(q @ k.mT) * scale, Where(), None
        if mask is not None and kind(mask.dtype) == "b":
            shut = mask
            scores = where(mask, scores, LOW if self.unseen == "average" else -np.inf)
        elif mask is not None:
            scores = scores + mask
        scores = where(self.visible(query.shape[2], n_keys)(scores), scores, -np.inf)
        p = Exp()(scores - together(less))
        if self.may_be_blind(mask):
            alike = where(scores > -np.inf, 1 / n_keys, 0.0)
            p = where(together(less) < blind(lse.dtype), alike, p)
        ds = p * together(gy @ v.mT - minus)
        ds = ds if shut is None else where(shut, ds, 0.0)
        of_p, of_s = apart(p), apart(ds)
        found = [
            together(of_s @ k) * scale,
            (of_s.mT @ q).sum(2) * scale,
            (of_p.mT @ gy).sum(2),
        ]
        inputs = [query, key, value]
        if mask is not None and shut is None:
            found.append(SumLike()(ds, mask))
            inputs.append(mask)
        return tuple(
            Cast(dtype=x.dtype)(y.reshape(*x.shape)) for y, x in zip(found, inputs, strict=True)
        )


class FlashAttentionGradGrad(_Back):
    """Cotangents of what the gradient of flash attention read, without a mask: archives have it.

    With cotangents a, b, c of dquery, dkey, dvalue: what `FlashAttentionGradWhole` pulls back
    """

    returns = "dg", "dquery", "dkey", "dvalue", "dlse", "ddelta"

    def infer(self, *xs: TensorSpec) -> tuple[TensorSpec, ...]:
        cotangents, inputs = xs[:3], xs[3:]
        self.check_all(*inputs)
        check_floats("attention", *cotangents)
        for given, need in zip(cotangents, inputs[1:4], strict=True):
            if shapes_differ(given.shape, need.shape):
                raise ShapeError("a cotangent does not fit the gradient", need=str(need))
        return tuple(x.with_shape(x.shape) for x in inputs)

    def expand(self, *xs: Any) -> Any:
        whole = FlashAttentionGradWhole(**self.attributes())
        pull = Pullback(op=whole, n_inputs=6, wrt=tuple(range(6)), present=(True,) * 3)
        return pull(*xs[3:], *xs[:3])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            inputs = sample.inputs[:6]
            yield Sample(
                (*(rng.standard_normal(x.shape) for x in inputs[1:4]), *inputs), sample.attrs
            )

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, k = TensorSpec((1, 4, 3, 2)), TensorSpec((1, 2, 5, 2))
        lse = TensorSpec((1, 4, 3))
        yield ErrorSample((k, k, k, q, q, k, k, lse, lse), {}, "does not fit the gradient")


def _second(op: _Back, gs: Sequence[Any], xs: Sequence[Any]) -> Sequence[Cotangent]:
    """Return what goes back through dquery, dkey, dvalue and dmask, where that came for some."""
    has_slope = len(xs) > 6 and xs[6] is not None and kind(xs[6].dtype) == "f"
    gs = gs[: 3 + has_slope]
    wrt = tuple(i for i, x in enumerate(xs) if x is not None and is_floating(x.dtype))
    present = tuple(g is not ZERO for g in gs)
    whole = FlashAttentionGradWhole(**op.attributes())
    pull = Pullback(op=whole, n_inputs=len(xs), wrt=wrt, present=present)
    found = dict(zip(wrt, pull(*xs, *(g for g in gs if g is not ZERO)), strict=True))
    return [found.get(i, ZERO) for i in range(len(xs))]
