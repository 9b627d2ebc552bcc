"""Rows brought to mean 0 and variance 1, block by block while they are in the cache."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import LINEAR, OPAQUE, ZERO, Cotangent, Dependence, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, normalize_axis
from ..core.lengths import lengths
from ..core.like import SizeOf
from ..core.movement import Cast
from ..core.special import widened
from .norm import check_floating

_BLOCK = 1 << 15
"""Elements at a time: of 512 rows of 1024 float32 this takes 0.6 ms, all at once 1.4 ms."""


class _OfRows(Op):
    """An op on rows: the axes from ``axis`` on, taken as one."""

    namespace = "inner"  # of the norms
    drawing = "math"
    axis: int = attr(-1, doc="First axis of a row.")

    def axes(self, rank: int) -> tuple[int, ...]:
        """Return the axes of a row."""
        return tuple(range(normalize_axis(self.axis, rank), rank))

    def kept(self, x: TensorSpec) -> TensorSpec:
        """Return the spec of one number per row."""
        axis = normalize_axis(self.axis, x.rank)
        return x.with_shape((*x.shape[:axis], *[1] * (x.rank - axis)))

    def rows(self, x: Any) -> Any:
        """Return an array as a matrix of rows."""
        lead = x.shape[: normalize_axis(self.axis, x.ndim)]
        return x.reshape(math.prod(lead), -1) if x.size else x.reshape(math.prod(lead), 0)

    def blocks(self, rows: Any) -> Iterator[slice]:
        """Yield the rows that are worked on together."""
        step = max(1, _BLOCK // max(1, rows.shape[1]))
        for start in range(0, rows.shape[0] if rows.shape[1] else 0, step):
            yield slice(start, start + step)


class StandardRows(_OfRows):
    """Rows with mean 0 and variance 1, their means, and one over their deviations.

    y = (x − μ)·r, μ = mean x, r = 1/√(mean (x − μ)² + ε); a row is all axes from ``axis`` on

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, mean, r = StandardRows(eps=0.0)(g.constant([[1.0, 5.0]]), name="y")
    >>> [v.tolist() for v in g.output({}, y, mean, r).values()]
    [[[-1.0, 1.0]], [[3.0]], [[0.5]]]
    """

    returns = "y", "mean", "inv_std"
    eps: float = attr(
        1e-5, doc="Added to the variance, so that constants do not divide by 0.", least=0.0
    )

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
        check_floating(self, x)
        return x.with_shape(x.shape), self.kept(x), self.kept(x)

    def depends(self, i: int) -> Dependence:
        return Dependence("rows", -1) if self.axis == -1 else OPAQUE

    def forward(self, x: Any) -> Any:
        w = self.rows(widened(x))
        y = np.empty_like(w, order="C")
        mean = np.zeros((w.shape[0], 1), w.dtype)
        inverse = np.full_like(mean, 1 / math.sqrt(self.eps) if self.eps else np.inf)
        for block in self.blocks(w):
            part = y[block]
            np.mean(w[block], 1, keepdims=True, out=mean[block])
            np.subtract(w[block], mean[block], out=part)
            np.reciprocal(lengths(part, (1,), part.shape[1], self.eps), out=inverse[block])
            part *= inverse[block]
        kept: Any = self.kept(TensorSpec(x.shape)).shape
        return tuple(
            z.astype(x.dtype, copy=False).reshape(shape)
            for z, shape in ((y, x.shape), (mean, kept), (inverse, kept))
        )

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g, g_mean, g_inverse), (y, _, r), (x,) = gs, ys, xs
        n = Cast(dtype=x.dtype)(SizeOf(axis=self.axes(x.rank))(x))
        found = [] if g is ZERO else [StandardRowsGrad(axis=self.axis)(g, y, r)]
        if g_mean is not ZERO:
            found.append(x * 0 + g_mean / n)
        if g_inverse is not ZERO:
            found.append(y * (g_inverse * r * r / -n))
        return (sum(found[1:], start=found[0]) if found else ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),))
        yield Sample((rng.standard_normal((2, 2, 2)),), {"axis": 1, "eps": 0.1})
        yield Sample((rng.standard_normal((0, 3)),))
        yield Sample((rng.standard_normal((2, 0)),), smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"axis": 2}, "axis 2 is out of range")
        yield ErrorSample((TensorSpec((2,), "int64"),), {}, "does not take int64")


class StandardRowsGrad(_OfRows):
    """Gradient of standardised rows.

    dx = r·(g − mean g − y·mean(g·y))
    """

    namespace = "gradient"

    def infer(self, g: TensorSpec, y: TensorSpec, r: TensorSpec) -> TensorSpec:
        check_floating(self, g)
        if g.rank != y.rank or r.rank != y.rank:
            raise ShapeError("g, y and r are of different ranks", need="g and y alike")
        return g.with_shape(g.shape)

    def depends(self, i: int) -> Dependence:
        if i != 1:
            return LINEAR
        return Dependence("rows", -1) if self.axis == -1 else OPAQUE

    def forward(self, g: Any, y: Any, r: Any) -> Any:
        gs, ys, rs = (self.rows(widened(x)) for x in (g, y, r))
        out = np.empty_like(gs, order="C")
        for block in self.blocks(gs):
            part = out[block]
            np.multiply(gs[block], ys[block], out=part)
            share = part.mean(1, keepdims=True)
            np.multiply(ys[block], share, out=part)
            np.subtract(gs[block], part, out=part)
            part -= gs[block].mean(1, keepdims=True)
            part *= rs[block]
        return out.astype(g.dtype, copy=False).reshape(g.shape)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (u,), (dx,), (g, y, r), axes = gs, ys, xs, self.axes(xs[0].rank)

        def of_y() -> Any:
            shares = u * (g * y).mean(axes, keepdims=True) + g * (u * y).mean(axes, keepdims=True)
            return -(shares * r)

        return (
            lambda: StandardRowsGrad(axis=self.axis)(u, y, r),
            of_y,
            lambda: (u * dx).sum(axes, keepdims=True) / r,
        )

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, axis in (((2, 3), -1), ((2, 2, 2), 1), ((0, 3), -1)):
            g, y = rng.standard_normal(shape), rng.standard_normal(shape)
            r = rng.uniform(0.5, 2, (shape[0], *[1] * (len(shape) - 1)))
            yield Sample((g, y, r), {"axis": axis})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),) * 2 + (TensorSpec((2,)),), {}, "different ranks")
