"""Counts: of numbers, in bins, and of pairs of classes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import LINEAR, ZERO, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import AnyDim, Dim, TensorSpec, differ, kind
from ..core.index import Gather, check_indices
from ..core.joining import Stack
from ..core.scatter import GatherNd


def _sums(at: Any, weights: Any, n: int) -> Any:
    """Return the sums of weights by number; those of integers are exact."""
    if weights is None or kind(weights.dtype) == "f":
        return np.bincount(at, weights, n)
    y = np.zeros(max(n, int(at.max(initial=-1)) + 1), weights.dtype)
    np.add.at(y, at, weights)
    return y


class Bincount(Op):
    """How often each number ≥ 0 occurs, or the sum of its weights.

    y[k] = Σᵢ [xᵢ = k]·weightsᵢ for k < max(max x + 1, minlength)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.bincount(g.constant([1, 3, 1]), minlength=5, name="y"))["y"].tolist()
    [0, 2, 0, 1, 0]
    """

    namespace = "base"
    dependence = LINEAR
    minlength: int = attr(0, doc="Least number of counts.")

    def infer(self, x: TensorSpec, weights: TensorSpec | None = None) -> TensorSpec:
        check_indices(x)
        if self.minlength < 0:
            raise ShapeError(f"minlength={self.minlength} is no length", need="minlength >= 0")
        if x.rank != 1:
            raise ShapeError("bincount takes a vector", need=f"rank 1, got {x}")
        if weights is not None and (weights.rank != 1 or differ(weights.shape[0], x.shape[0])):
            raise ShapeError("weights do not fit", need=f"one per element: {x.shape[0]}")
        if weights is not None and kind(weights.dtype) not in "uif":
            raise DTypeError(f"bincount does not take weights of {weights.dtype}")
        counted = "int64" if weights is None else weights.dtype
        return TensorSpec((Dim.fresh("bincount"),), counted)

    def forward(self, x: Any, weights: Any = None) -> Any:
        if x.size and x.min() < 0:
            raise IndexError(f"bincount takes numbers >= 0, got {x.min()}")
        y = _sums(x.astype(np.intp, copy=False), weights, self.minlength)
        return y.astype(np.int64 if weights is None else weights.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [ZERO, lambda: Gather()(gs[0], xs[0])][: len(xs)]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([1, 3, 1]),), {"minlength": 5})
        yield Sample((np.array([1, 3, 1], np.uint8), rng.standard_normal(3)))
        yield Sample((np.zeros(0, np.int64),), {"minlength": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 2), "int64"),), {}, "takes a vector")
        whole = TensorSpec((2,), "int64")
        yield ErrorSample((whole, TensorSpec((3,))), {}, "weights do not fit")
        yield ErrorSample((TensorSpec((2,)),), {}, "not integers")
        yield ErrorSample((whole,), {"minlength": -1}, "no length")


class Histogram(Op):
    """How many elements fall into bins of equal width, and the edges of the bins.

    counts[k] = |{i: edges[k] ≤ xᵢ < edges[k + 1]}|; the last bin holds its upper edge, too

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> counts, edges = gw.histogram(g.constant([0.0, 0.2, 1.0]), bins=2)
    >>> [y.tolist() for y in g.output({}, counts, edges).values()]
    [[2, 1], [0.0, 0.5, 1.0]]
    """

    namespace = "base"
    returns = "counts", "edges"
    bins: int = attr(10, doc="Number of bins.")
    range: tuple[float, ...] | None = attr(
        None, doc="Lowest and highest edge; None: those of the elements."
    )

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        if kind(x.dtype) != "f":
            raise DTypeError(f"histogram does not take {x.dtype}")
        ends = self.range
        if self.bins < 1 or (
            ends is not None and (len(ends) != 2 or not -math.inf < ends[0] < ends[1] < math.inf)
        ):
            raise ShapeError(
                f"{self.bins} bins over {ends}",
                need="bins >= 1 and range=(low, high), low < high, finite",
            )
        return TensorSpec((self.bins,), "int64"), TensorSpec((self.bins + 1,), x.dtype)

    def forward(self, x: Any) -> Any:
        counts, edges = np.histogram(x.astype(np.float64), self.bins, self.range)  # type: ignore[arg-type]
        return counts.astype(np.int64), edges.astype(x.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = np.array([[0.0, 0.2], [1.0, 0.7]])
        yield Sample((x,), {"bins": 2}, smooth=False)
        yield Sample((x[:0],), {"bins": 3, "range": (0.0, 1.0)}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"bins": 0}, "bins >= 1")
        yield ErrorSample((TensorSpec((2,)),), {"range": (1.0, 0.0)}, "low < high")
        yield ErrorSample((TensorSpec((2,)),), {"range": (0.0, math.inf)}, "low < high")
        yield ErrorSample((TensorSpec((2,), "int64"),), {}, "does not take int64")


class ConfusionMatrix(Op):
    """How often each class was taken for each class: rows are labels, columns predictions.

    y[a, b] = Σᵢ [labelsᵢ = a]·[predictionsᵢ = b]·weightsᵢ

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.confusion_matrix(g.constant([0, 1, 1]), g.constant([0, 0, 1]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[1, 0], [1, 1]]
    """

    namespace = "math"
    drawing = "math"
    dependence = LINEAR
    num_classes: AnyDim | None = attr(
        None, doc="Number of classes; None: the largest label or prediction and one."
    )
    dtype: np.dtype[Any] | None = attr(
        None, doc="Dtype of the result; None: that of the weights, int64 without."
    )

    def infer(
        self, labels: TensorSpec, predictions: TensorSpec, weights: TensorSpec | None = None
    ) -> TensorSpec:
        for s in (labels, predictions):
            check_indices(s)
        if weights is not None and kind(weights.dtype) not in "uif":
            raise DTypeError(f"confusion_matrix does not take weights of {weights.dtype}")
        given = [s for s in (labels, predictions, weights) if s is not None]
        if any(s.rank != 1 or differ(s.shape[0], labels.shape[0]) for s in given):
            raise ShapeError(
                "labels, predictions and weights differ in shape",
                need=f"vectors of one length, got {', '.join(map(str, given))}",
            )
        n = Dim.fresh("classes") if self.num_classes is None else self.num_classes
        if isinstance(n, int) and n < 0:
            raise ShapeError(f"{n} classes", need="num_classes >= 0")
        counted = "int64" if weights is None else weights.dtype
        return TensorSpec((n, n), self.dtype or counted)

    def forward(self, labels: Any, predictions: Any, weights: Any = None) -> Any:
        both = labels, predictions
        most = max(int(a.max(initial=0)) for a in both) if labels.size else -1
        n = most + 1 if self.num_classes is None else int(self.num_classes)
        if most >= n or any(a.min(initial=0) < 0 for a in both):
            raise IndexError(f"classes of confusion_matrix are not all in 0..{n - 1}")
        place = labels.astype(np.int64) * n
        place += predictions.astype(np.int64, copy=False)
        y = _sums(place, weights, n * n).reshape(n, n)
        return y.astype(self.dtype or (np.int64 if weights is None else weights.dtype))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        def of_weights() -> Any:
            return GatherNd()(gs[0], Stack(axis=-1)(*xs[:2]))

        return [ZERO, ZERO, of_weights][: len(xs)]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        labels, found = np.array([0, 1, 2, 2]), np.array([0, 0, 2, 2])
        yield Sample((labels, found))
        yield Sample((labels, found, rng.standard_normal(4)), {"num_classes": 4})
        yield Sample((labels[:0], found[:0]), {"num_classes": 2, "dtype": "float32"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        whole = TensorSpec((2,), "int64")
        yield ErrorSample((whole, TensorSpec((3,), "int64")), {}, "differ")
        yield ErrorSample((whole, TensorSpec((2,))), {}, "not integers")
        yield ErrorSample((whole, whole), {"num_classes": -1}, "-1 classes")
