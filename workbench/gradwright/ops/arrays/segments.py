"""Sums, means, products and extremes of the slices that share a number: segments of a tensor.

``segment_*`` takes numbers that never fall, ``unsorted_segment_*`` any; there a negative number
leaves a slice out. A segment without slices holds 0, a product 1, an extreme the lowest or highest
value of the dtype.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import LINEAR, ZERO, Autocast, Cotangent, ErrorSample, Op, Sample, attr, find_op
from ...spec import AnyDim, Dim, TensorSpec, differ, kind
from ..core.choice import Maximum, Where
from ..core.elementwise import conj
from ..core.exponential import Sqrt
from ..core.index import Array, Gather, add_rows, check_indices
from ..core.like import OnesLike, ReshapeLike
from ..core.movement import Cast, ExpandDims
from ..core.reshape import Flatten
from ..core.sorting import Argsort
from ..core.special import finfo, widened
from .recurrence import LinearScan, Shift


class _Segments(Op):
    """A reduction of slices by their segment number."""

    namespace = "base"
    accepts: ClassVar[str] = "uifc"
    awkward: ClassVar[tuple[tuple[float, ...], tuple[int, ...]] | None] = None
    """Elements, and their segments among the first two, that a sample is made of besides."""
    smooth: ClassVar[bool] = True
    """Whether finite differences are taken there, and where a segment is empty."""

    def n_segments(self) -> AnyDim:
        """Return the number of segments for infer."""
        raise NotImplementedError

    def counted(self, ids: Array) -> int:
        """Return the number of segments, once the numbers are known and found right."""
        raise NotImplementedError

    def totals(self, x: Any, ids: Any) -> Any:
        """Return the sum of each segment, as a tensor."""
        raise NotImplementedError

    def infer(self, x: TensorSpec, segment_ids: TensorSpec) -> TensorSpec:
        check_indices(segment_ids)
        if kind(x.dtype) not in self.accepts:
            raise DTypeError(f"{self.name} does not take {x.dtype}")
        covered = x.shape[: segment_ids.rank]
        if len(covered) < max(segment_ids.rank, 1) or any(map(differ, covered, segment_ids.shape)):
            raise ShapeError(
                "segment_ids do not number slices of x",
                need=f"the first sizes of {x.shape}, got {segment_ids.shape}",
            )
        return x.with_shape((self.n_segments(), *x.shape[segment_ids.rank :]))

    def slices(self, x: Array, ids: Array) -> tuple[Array, Array, int, tuple[int, ...]]:
        """Return the slices as rows, their numbers, how many segments, and their shape."""
        flat = ids.reshape(-1).astype(np.intp, copy=False)
        n, rest = self.counted(flat), x.shape[ids.ndim :]
        rows = widened(x).reshape(flat.size, math.prod(rest))
        if flat.size and flat.min() < 0:
            rows, flat = rows[flat >= 0], flat[flat >= 0]
        return rows, flat, n, (n, *rest)

    def spread(self, g: Any, ids: Any, rank: int) -> Any:
        """Return for each slice what its segment has; 0 for those that are left out."""
        found = Gather()(g, Maximum()(ids, 0))
        inner = tuple(range(ids.rank, rank))
        within = ids >= 0
        return Where()(ExpandDims(axis=inner)(within) if inner else within, found, 0.0)


class _Sorted(_Segments):
    """Numbers never fall; the last one decides how many segments there are."""

    def n_segments(self) -> AnyDim:
        return Dim.fresh("segments")

    def counted(self, ids: Array) -> int:
        if ids.size and (ids[0] < 0 or np.any(ids[1:] < ids[:-1])):
            raise IndexError(
                f"{self.name} takes segment numbers from 0 up that never fall; "
                f"unsorted_{self.name} takes any"
            )
        return int(ids[-1]) + 1 if ids.size else 0

    def totals(self, x: Any, ids: Any) -> Any:
        return SegmentSum()(x, ids)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.uniform(0.5, 2.0, (5, 2))
        yield Sample((x, np.array([0, 0, 1, 1, 1])))
        yield Sample((x, np.array([1, 1, 1, 3, 3])), smooth=cls.smooth)
        yield Sample((rng.uniform(0.5, 2.0, 3), np.array([0, 0, 0], np.int32)))
        yield Sample((rng.standard_normal((0, 2)), np.zeros(0, np.int64)))
        if cls.awkward:
            yield Sample(tuple(map(np.array, cls.awkward)), smooth=cls.smooth)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3, 2)), TensorSpec((2,), "int64")), {}, "do not number")
        yield ErrorSample((TensorSpec((3,)), TensorSpec((3,))), {}, "not integers")


class _Unsorted(_Segments):
    """Numbers in any order; how many segments there are is stated."""

    num_segments: AnyDim = attr(doc="Number of segments.")

    def n_segments(self) -> AnyDim:
        if isinstance(self.num_segments, int) and self.num_segments < 0:
            raise ShapeError(f"{self.num_segments} segments", need="num_segments >= 0")
        return self.num_segments

    def counted(self, ids: Array) -> int:
        n = int(self.num_segments)
        if ids.size and ids.max() >= n:
            raise IndexError(f"segment number {ids.max()} is out of range for {n} segments")
        return n

    def totals(self, x: Any, ids: Any) -> Any:
        return find_op("unsorted_segment_sum")(num_segments=self.num_segments)(x, ids)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.uniform(0.5, 2.0, (4, 2))
        yield Sample((x, np.array([1, 0, -1, 1])), {"num_segments": 2})
        yield Sample((x, np.array([2, 0, -1, 2])), {"num_segments": 4}, smooth=cls.smooth)
        yield Sample((x, np.array([[1, 0], [1, 1], [0, -1], [0, 1]])), {"num_segments": 2})
        yield Sample((x[:0], np.zeros(0, np.int32)), {"num_segments": 1}, smooth=cls.smooth)
        if cls.awkward:
            some = tuple(map(np.array, cls.awkward))
            yield Sample(some, {"num_segments": 2}, smooth=cls.smooth)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        specs = TensorSpec((3,)), TensorSpec((3,), "int64")
        yield ErrorSample(specs, {"num_segments": -1}, "-1 segments")
        yield ErrorSample(
            (TensorSpec((3,)), TensorSpec((3, 1), "int64")), {"num_segments": 2}, "do not number"
        )


class _Sum(_Segments, abstract=True):
    autocast = Autocast.SUM
    dependence = LINEAR

    def forward(self, x: Any, segment_ids: Any) -> Any:
        rows, ids, n, shape = self.slices(x, segment_ids)
        return add_rows(n, ids, rows).reshape(shape).astype(x.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return self.spread(gs[0], xs[1], xs[0].rank), ZERO


class _Shared(_Segments, abstract=True):
    """A sum divided by a function of the number of slices."""

    accepts = "fc"

    @staticmethod
    def share(n: Any) -> Any:
        """Return what the sum of n slices is divided by."""
        return n

    def expand(self, x: Any, segment_ids: Any) -> Any:
        wide = Cast(dtype="float32")(x) if x.dtype.itemsize < 4 else x
        real = "float64" if wide.dtype.name in ("float64", "complex128") else "float32"
        one = Cast(dtype=real)(OnesLike()(segment_ids))
        n = self.share(Maximum()(self.totals(one, segment_ids), 1.0))
        inner = tuple(range(1, x.rank - segment_ids.rank + 1))
        y = self.totals(wide, segment_ids) / (ExpandDims(axis=inner)(n) if inner else n)
        return Cast(dtype=x.dtype)(y)


class _Root(_Shared, abstract=True):
    @staticmethod
    def share(n: Any) -> Any:
        return Sqrt()(n)


class _Extreme(_Segments, abstract=True):
    """The largest or smallest slice, element by element; equal ones share the gradient."""

    accepts = "uif"
    awkward = (1.0, 1.0, 0.0, 2.0), (0, 0, 0, 1)
    smooth = False
    chosen: ClassVar[np.ufunc]

    def forward(self, x: Any, segment_ids: Any) -> Any:
        rows, ids, n, shape = self.slices(x, segment_ids)
        return (
            by_segment(self.chosen, n, ids, rows, self.least(x.dtype))
            .reshape(shape)
            .astype(x.dtype, copy=False)
        )

    def least(self, d: np.dtype[Any]) -> Any:
        """Return the value of an empty segment."""
        sign = -1 if self.chosen is np.maximum else 1
        if kind(d) != "f":
            limits = np.iinfo(d)
            return limits.min if sign < 0 else limits.max
        return sign * (finfo(d).max if np.isnan(np.asarray(np.inf).astype(d)) else np.inf)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (y,), (x, ids) = gs, ys, xs
        hits = Cast(dtype=g.dtype)(x == self.spread(y, ids, x.rank))
        n = Maximum()(self.totals(hits, ids), 1.0)
        return hits * self.spread(g / n, ids, x.rank), ZERO


class _Max(_Extreme, abstract=True):
    chosen = np.maximum


class _Min(_Extreme, abstract=True):
    chosen = np.minimum


class _Prod(_Segments, abstract=True):
    """The product of the slices; its gradient is right at zeros, too.

    The gradient at a slice is the product of those before it in its segment and of those after it,
    and each of the two is a linear recurrence over the slices in order of their segments.
    """

    awkward = (0.0, 2.0, 0.0, 0.0, 3.0), (0, 0, 1, 1, 1)

    def forward(self, x: Any, segment_ids: Any) -> Any:
        rows, ids, n, shape = self.slices(x, segment_ids)
        return by_segment(np.multiply, n, ids, rows, 1).reshape(shape).astype(x.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x, ids) = gs, xs
        flat = Flatten()(ids)
        order = Argsort(axis=0)(flat)
        at = Gather()(flat, order)
        joined = Flatten(end_axis=ids.rank - 1)(x)
        sorted_x = Gather()(joined, order)
        inner = tuple(range(1, sorted_x.rank))
        number = at + 1

        def others(back: bool) -> Any:
            """Return the product of the slices before (or after) each one in its segment."""
            same = (number == Shift(back=back)(number)) & (at >= 0)
            same = ExpandDims(axis=inner)(same) if inner else same
            a = Where()(same, Shift(back=back)(sorted_x), 0.0)
            return LinearScan(reverse=back)(a, Where()(same, 0.0, OnesLike()(sorted_x)))

        slope = Gather()(others(False) * others(True), Argsort(axis=0)(order))
        return self.spread(g, ids, x.rank) * conj(ReshapeLike()(slope, x)), ZERO


def by_segment(ufunc: np.ufunc, n: int, ids: Array, rows: Array, empty: Any) -> Array:
    """Return ``n`` rows: each the reduction of the rows of a number, ``empty`` where none is."""
    y = np.full((n, rows.shape[1]), empty, rows.dtype)
    if ids.size:
        if np.any(ids[1:] < ids[:-1]):
            order = np.argsort(ids, kind="stable")
            ids, rows = ids[order], rows[order]
        starts = np.flatnonzero(np.diff(ids, prepend=-1))
        y[ids[starts]] = ufunc.reduceat(rows, starts, axis=0)
    return y


class SegmentSum(_Sorted, _Sum):
    """Sums of the slices of each segment; segment numbers never fall.

    y[s, …] = Σ₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.segment_sum(g.constant([1, 2, 3]), [0, 0, 2], name="y")
    >>> g.output({}, y)["y"].tolist()
    [3, 0, 3]
    """


class SegmentMean(_Sorted, _Shared):
    """Means of the slices of each segment; segment numbers never fall, empty segments give 0.

    y[s, …] = Σ₍ᵢ: segment_ids[i] = s₎ x[i, …] / n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.segment_mean(g.constant([1.0, 2.0, 3.0]), [0, 0, 2], name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.5, 0.0, 3.0]
    """

    autocast = Autocast.SUM


class SegmentMax(_Sorted, _Max):
    """Largest elements of each segment; segment numbers never fall, equal ones share the gradient.

    y[s, …] = max₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.segment_max(g.constant([1.0, 2.0, 3.0]), [0, 0, 1], name="y")
    >>> g.output({}, y)["y"].tolist()
    [2.0, 3.0]
    """


class SegmentMin(_Sorted, _Min):
    """Smallest elements of each segment; segment numbers never fall, equal ones share the gradient.

    y[s, …] = min₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.segment_min(g.constant([1.0, 2.0, 3.0]), [0, 0, 1], name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.0, 3.0]
    """


class SegmentProd(_Sorted, _Prod):
    """Products of the slices of each segment; segment numbers never fall.

    y[s, …] = Π₍ᵢ: segment_ids[i] = s₎ x[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.segment_prod(g.constant([2, 3, 4]), [0, 0, 2], name="y")
    >>> g.output({}, y)["y"].tolist()
    [6, 1, 4]
    """
