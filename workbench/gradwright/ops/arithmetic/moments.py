"""Moments, extremes, quantiles, and sums that pass over NaN, over some axes or all."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import Autocast, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, broadcast, kind, normalize_axes, normalize_axis, promote_all
from ..core.choice import Where
from ..core.comparison import IsFinite, IsNan, LogicalNot
from ..core.functions import Square
from ..core.identity import Identity
from ..core.joining import Stack
from ..core.movement import Cast, Transpose
from ..core.reduce import Axis, Max, Mean, Min, Sum, _Reduction
from ..core.reshape import Reshape
from ..core.sorting import Sort
from ..core.statistics import Std, Var, _Composite


class _Pair(_Reduction):
    """Two reductions of one tensor."""

    is_method = False
    accepts: ClassVar[str] = "f"

    def infer(self, x: TensorSpec) -> Any:
        y = super().infer(x)
        return y, y.with_shape(y.shape)


class MinMax(_Pair):
    """Smallest and largest element; equal ones share the gradients.

    y₀ = min x,  y₁ = max x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> low, high = gw.min_max(g.constant([3, 1, 2]))
    >>> [int(y) for y in g.output({}, low, high).values()]
    [1, 3]
    """

    namespace = "math"
    accepts: ClassVar[str] = "buif"
    needs_elements = True

    def expand(self, x: Any) -> Any:
        where = {"axis": self.axis, "keepdims": self.keepdims}
        return Min(**where)(x), Max(**where)(x)


class Moments(_Pair):
    """Mean and variance.

    mean = Σ x / n,  variance = Σ (x − mean)² / n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> mean, variance = gw.moments(g.constant([1.0, 3.0]))
    >>> [float(y) for y in g.output({}, mean, variance).values()]
    [2.0, 1.0]
    """

    namespace = "math"
    autocast = Autocast.SUM

    def expand(self, x: Any) -> Any:
        where = {"axis": self.axis, "keepdims": self.keepdims}
        return Mean(**where)(x), Var(**where)(x)


class NormalizeMoments(Op):
    """Mean and variance, from how many numbers there were and the sums of them and their squares.

    m = sums/counts,  mean = m + shift,  variance = squares/counts − m²; the sums are those of what
    exceeds ``shift``

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> ys = gw.normalize_moments(g.constant(2.0), g.constant(4.0), g.constant(10.0))
    >>> [float(y) for y in g.output({}, *ys).values()]  # of 1 and 3
    [2.0, 1.0]
    """

    namespace = "math"
    autocast = Autocast.STATISTIC

    def infer(
        self,
        counts: TensorSpec,
        sums: TensorSpec,
        squares: TensorSpec,
        shift: TensorSpec | None = None,
    ) -> Any:
        joint = promote_all(counts, sums, squares, *([shift] if shift else []))
        if kind(joint) != "f":
            raise DTypeError(f"normalize_moments does not take {joint}", hint="gw.cast")
        shape = broadcast(counts.shape, sums.shape)
        mean = broadcast(shape, shift.shape) if shift else shape
        return TensorSpec(mean, joint), TensorSpec(broadcast(shape, squares.shape), joint)

    def expand(self, counts: Any, sums: Any, squares: Any, shift: Any = None) -> Any:
        joint = promote_all(*(x.spec for x in (counts, sums, squares, shift) if x is not None))
        counts, sums, squares = (Cast(dtype=joint)(x) for x in (counts, sums, squares))
        m = sums / counts
        return m if shift is None else m + shift, squares / counts - Square()(m)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        sums, squares = rng.standard_normal((2, 3))
        yield Sample((np.array(4.0), sums, squares + 9))
        yield Sample((np.array([2.0, 3.0, 4.0]), sums, squares, np.array(0.5)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        whole = TensorSpec((2,), "int64")
        yield ErrorSample((whole, whole, whole), {}, "does not take int64")
        yield ErrorSample((TensorSpec((2,)), TensorSpec((3,)), TensorSpec(())), {}, "do not broad")


class Standardize(Op):
    """Bring elements to mean 0 and variance 1 over some axes or all; constants give 0.

    y = (x − mean x) / (√(var x) + eps)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.standardize(g.constant([1.0, 3.0]), name="y"))["y"].tolist()
    [-1.0, 1.0]
    """

    namespace = "math"
    autocast = Autocast.STATISTIC
    axis: Axis = attr(None, doc="Axis or axes of the statistics; None: all.")
    eps: float = attr(0.0, doc="Added to the standard deviation.", least=0.0)

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) != "f":
            raise DTypeError(f"standardize does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        normalize_axes(self.axis, x.rank)
        return x.with_shape(x.shape)

    def expand(self, x: Any) -> Any:
        wide = Cast(dtype="float32" if x.dtype.itemsize < 4 else x.dtype)(x)
        where = {"axis": self.axis, "keepdims": True}
        spread = Std(**where)(wide) + self.eps
        y = (wide - Mean(**where)(wide)) / Where()(spread == 0.0, 1.0, spread)
        return Cast(dtype=x.dtype)(y)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((3, 4)),))
        yield Sample((rng.standard_normal((2, 3, 2)),), {"axis": (0, -1), "eps": 0.1})
        yield Sample((np.ones((2, 3)),), {"axis": 1}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"axis": 1}, "out of range")
        yield ErrorSample((TensorSpec((2,), "int64"),), {}, "does not take int64")


class Nansum(_Composite):
    """Sum over axes that takes NaN for 0.

    y = Σ {x: x ≠ NaN}

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.nansum(g.constant([1.0, float("nan")]), name="y"))["y"])
    1.0
    """

    namespace = "math"
    is_method = False

    def reduced(self, x: Any) -> Any:
        return Sum(axis=self.axis, keepdims=self.keepdims)(Where()(IsNan()(x), 0.0, x))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[1.0, np.nan, 2.0], [3.0, 4.0, np.nan]]),), {"axis": 0})
        yield Sample((rng.standard_normal((2, 3)),), {"axis": (0, -1), "keepdims": True})
        yield Sample((rng.standard_normal(()),))


class Nanmean(Nansum):
    """Mean over axes of what is not NaN; NaN where nothing else is.

    y = Σ {x: x ≠ NaN} / |{x: x ≠ NaN}|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.nanmean(g.constant([1.0, float("nan")]), name="y"))["y"])
    1.0
    """

    def reduced(self, x: Any) -> Any:
        there = Cast(dtype=x.dtype)(LogicalNot()(IsNan()(x)))
        return super().reduced(x) / Sum(axis=self.axis, keepdims=self.keepdims)(there)


class Quantile(_Composite):
    """Numbers below which a share q of the elements lies; NaN where one of them is NaN.

    y = the element at place q·(n − 1) of those in order, between two of them by ``method``

    Several shares give a new first axis.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.quantile(g.constant([3.0, 1.0, 2.0]), (0.5, 0.75), name="y"))["y"].tolist()
    [2.0, 2.5]
    """

    namespace = "math"
    is_method = False
    needs_elements = True
    q: float | tuple[float, ...] = attr(doc="Share or shares, from 0 to 1.")
    method: str = attr(
        "linear",
        doc="What lies between two elements.",
        choices=("linear", "lower", "higher", "midpoint", "nearest"),
    )

    def shares(self) -> tuple[float, ...]:
        """Return the shares."""
        return self.q if isinstance(self.q, tuple) else (self.q,)

    def infer(self, x: TensorSpec) -> TensorSpec:
        if any(not 0 <= q <= 1 for q in self.shares()):
            raise GraphError(f"{self.name}: q={self.q} is no share", need="0 <= q <= 1")
        y = super().infer(x)
        return y.with_shape((len(self.q), *y.shape)) if isinstance(self.q, tuple) else y

    def reduced(self, x: Any) -> Any:
        axes = normalize_axes(self.axis, x.rank)
        rest = [a for a in range(x.rank) if a not in axes]
        n = math.prod(int(x.shape[a]) for a in axes)
        rows = Transpose(axes=(*rest, *axes))(x)
        rows = Sort()(Reshape(shape=(*(x.shape[a] for a in rest), n))(rows))
        last = rows[..., n - 1]  # NaN counts as largest
        found = []
        for q in self.shares():
            place = q * (n - 1)
            low, high = math.floor(place), math.ceil(place)
            share = {
                "linear": place - low,
                "lower": 0.0,
                "higher": 1.0,
                "midpoint": 0.5,
                "nearest": float(round(place) - low),
            }[self.method]
            y, top = rows[..., low], rows[..., high]
            if share == 1:
                y = top
            elif low < high and share:
                rise = top - y
                ends = y * (1 - share) + top * share  # ∞ − ∞ is NaN, but of two infinities one is
                y = Where()(IsFinite()(rise), y + rise * share, ends)
            y = Where()(IsNan()(last), last, y)
            shape = [1 if a in axes else d for a, d in enumerate(x.shape)]
            found.append(Reshape(shape=shape)(y) if self.keepdims else y)
        return Stack()(*found) if isinstance(self.q, tuple) else found[0]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((3, 4))
        yield Sample((x,), {"q": 0.3})
        yield Sample((x,), {"q": (0.0, 0.5, 1.0), "axis": 0, "keepdims": True})
        yield Sample((x,), {"q": 0.4, "axis": (-1, 0), "method": "nearest"})
        yield Sample((np.array([1.0, np.nan]),), {"q": 0.5, "method": "midpoint"}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"q": 1.5}, "is no share")
        yield ErrorSample((TensorSpec((2, 0)),), {"q": 0.5, "axis": 1}, "of no elements")


class Median(_Composite):
    """Middle element, or the mean of the two in the middle; NaN where one of them is NaN.

    torch takes the lower of two: ``quantile(x, 0.5, method="lower")``.

    y = quantile(x, 1/2)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.median(g.constant([3.0, 1.0, 2.0, 9.0]), name="y"))["y"])
    2.5
    """

    namespace = "math"
    is_method = False
    needs_elements = True

    def reduced(self, x: Any) -> Any:
        return Quantile(q=0.5, axis=self.axis, keepdims=self.keepdims)(x)


class Diff(Op):
    """Differences of neighbouring elements along an axis, n times over.

    y[…, i, …] = x[…, i + 1, …] − x[…, i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.diff(g.constant([1, 4, 9, 16]), n=2, name="y"))["y"].tolist()
    [2, 2]
    """

    namespace = "math"
    n: int = attr(1, doc="How often.")
    axis: int = attr(-1, doc="Axis to go along.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        axis = normalize_axis(self.axis, x.rank)
        if kind(x.dtype) not in "uifc":
            raise DTypeError(f"diff does not take {x.dtype}")
        d = x.shape[axis]
        if self.n < 0 or (isinstance(d, int) and d < self.n):
            raise ShapeError(f"no {self.n} differences of {d} elements", need="0 <= n <= size")
        return x.with_shape((*x.shape[:axis], d - self.n, *x.shape[axis + 1 :]))

    def expand(self, x: Any) -> Any:
        lead = (slice(None),) * normalize_axis(self.axis, x.rank)
        y = Identity()(x)
        for _ in range(self.n):
            y = y[(*lead, slice(1, None))] - y[(*lead, slice(0, -1))]
        return y

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 4)),))
        yield Sample((rng.standard_normal((4, 2)),), {"n": 2, "axis": 0})
        yield Sample((rng.standard_normal((2, 1)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"n": 3}, "no 3 differences")
        yield ErrorSample((TensorSpec((2,), "bool"),), {}, "does not take bool")
