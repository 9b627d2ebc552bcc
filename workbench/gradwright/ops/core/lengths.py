"""Lengths of vectors whose squares a dtype does not hold: √(Σ x²), over any axes."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...op import ROWS, Cotangent, Sample, attr
from ..numerics.standard import library
from ..numerics.summing import Array, add_up, column_sums, matrix, row_dots
from .choice import Where
from .like import SizeOf
from .reduce import _Reduction
from .special import finfo, widened

SEEN = 1e-12
"""From this ε on, squares that vanish in float32 are no part of what is added up."""


class RootSumSquares(_Reduction):
    """Length over axes, right wherever it is a number of the dtype; its gradient at 0 is 0.

    y = √(Σ x² + ε), or with ``mean`` √(Σ x²/n + ε);  ∂y/∂x = x/y, or x/(n·y)

    A square of 1e20 or of 1e-25 is no float32: kernels scale the few rows that need it by a power
    of two, and numpy divides them by their largest element.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = RootSumSquares()(g.constant([3e20, 4e20]), name="y")
    >>> float(g.output({}, y)["y"] / np.float32(5e20))
    1.0
    """

    namespace = "inner"  # of norms
    is_method = False
    dependence = ROWS
    accepts: ClassVar[str] = "f"
    array_api = True
    mean: bool = attr(False, doc="Divide the sum of squares by their number.")
    eps: float = attr(0.0, doc="Added under the root.", least=0.0)

    def forward(self, x: Any) -> Any:
        axes = self.axes(x.ndim)
        n = math.prod(x.shape[a] for a in axes)
        with np.errstate(all="ignore"):
            if library(x) is np:
                y = lengths(widened(x), axes, n if self.mean else 1, self.eps).astype(x.dtype)
            else:
                y = _by_largest(x, axes, n if self.mean else 1, self.eps)
        return y if self.keepdims or not axes else library(x).squeeze(y, axis=axes)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (y,), (x,) = gs, ys, xs
        g = g / SizeOf(axis=self.axis, dtype=x.dtype)(x) if self.mean else g
        y = self.kept(y, x.rank)
        return (x / Where()(y == 0.0, 1.0, y) * self.kept(g, x.rank),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            yield Sample(sample.inputs, sample.attrs, smooth=sample.inputs[0].ndim > 0)
        yield Sample((rng.standard_normal((3, 4)),), {"axis": 0, "mean": True, "eps": 0.1})
        yield Sample((rng.standard_normal((2, 3)) * 1e200,), {"axis": 1}, smooth=False)
        yield Sample((rng.standard_normal((3, 2)) * 1e-200,), {"axis": 0}, smooth=False)
        yield Sample((np.zeros((2, 3)),), {"axis": 1}, smooth=False)


def lengths(x: Array, axes: Sequence[int], count: int = 1, eps: float = 0.0) -> Array:
    """Return √(Σ x²/count + eps) of float32 or float64; the axes stay with size 1.

    >>> lengths(np.array([3e-25, 4e-25], np.float32), (0,)) / np.float32(5e-25)
    array([1.], dtype=float32)
    """
    first = x.ndim - len(axes)
    kept = tuple(1 if a in axes else d for a, d in enumerate(x.shape))
    n = math.prod(x.shape[a] for a in axes)
    if n and x.flags.c_contiguous and tuple(axes) == tuple(range(first, x.ndim)):
        rows = matrix(x, n)
        total = row_dots(rows, rows).reshape(kept)
    elif x.size and x.flags.c_contiguous and tuple(axes) == tuple(range(len(axes))):
        total = column_sums(matrix(np.square(x), x.size // n)).reshape(kept)
    else:
        total = np.asarray(add_up(np.square(x), axes, keepdims=True))
    least = 0.0 if eps >= SEEN else _least(x.dtype)
    right = (total >= least) & (total < np.inf)
    share = total if count == 1 else np.divide(total, count, dtype=x.dtype)
    y: Array = np.asarray(np.sqrt(share + x.dtype.type(eps) if eps else share))
    if n and not right.all():
        odd = ~right
        moved = np.moveaxis(x, axes, range(first, x.ndim))
        some = moved[odd.reshape(moved.shape[:first])].reshape(np.count_nonzero(odd), n)
        y[odd] = _by_largest(some, (1,), count, eps)[:, 0]
    return y


@functools.cache
def _least(dtype: np.dtype[Any]) -> float:
    """Return the least sum of squares that has lost no digits."""
    limits = finfo(dtype)
    return float(limits.tiny) / float(limits.eps) ** 2


def _by_largest(x: Any, axes: tuple[int, ...], count: int, eps: float) -> Any:
    """Return lengths of elements that are divided by the largest one first."""
    xp = library(x)
    if not math.prod(x.shape[a] for a in axes):  # 0/0 for a mean
        return xp.sqrt(xp.sum(x, axis=axes, keepdims=True) / count + eps)
    top = xp.max(xp.abs(x), axis=axes, keepdims=True)
    top = xp.where((top > 0) & xp.isfinite(top), top, xp.ones_like(top))
    total = xp.sum(xp.square(x / top), axis=axes, keepdims=True)
    y = top * xp.sqrt(total / count)
    return xp.hypot(y, xp.full_like(y, math.sqrt(eps))) if eps else y
