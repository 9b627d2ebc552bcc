"""Distances and similarities of two tensors, over some axes or all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError
from ...op import Autocast, ErrorSample, Sample, attr
from ...spec import TensorSpec, at_least_float32, broadcast, kind, promote
from ..core.choice import Maximum, Minimum, Where
from ..core.elementwise import Abs
from ..core.lengths import RootSumSquares
from ..core.like import BroadcastLike
from ..core.movement import Cast, Squeeze
from ..core.quantifiers import CountNonzero
from ..core.reduce import Sum, _Reduction


class _Distance(_Reduction):
    """A number for two tensors, which broadcast; computed in float32 at least."""

    namespace = "math"
    is_method = False
    accepts: ClassVar[str] = "f"

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:  # type: ignore[override]
        joint = promote(a.dtype, b.dtype)
        if kind(joint) not in self.accepts:
            raise DTypeError(f"{self.name} does not take {joint}")
        return super().infer(TensorSpec(broadcast(a.shape, b.shape), joint))

    def expand(self, a: Any, b: Any) -> Any:
        joint = promote(a.dtype, b.dtype)
        wide = at_least_float32(joint)
        return Cast(dtype=joint)(self.between(Cast(dtype=wide)(a), Cast(dtype=wide)(b)))

    def between(self, a: Any, b: Any) -> Any:
        """Return the result for tensors of one dtype, float32 or float64."""
        raise NotImplementedError

    def total(self, x: Any) -> Any:
        """Return the sum over the axes."""
        return Sum(axis=self.axis, keepdims=self.keepdims)(x)

    def length(self, x: Any) -> Any:
        """Return the length over the axes."""
        return RootSumSquares(axis=self.axis, keepdims=self.keepdims)(x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = rng.uniform(0.2, 2.0, (2, 2, 3))
        yield Sample((a, b))
        yield Sample((a, b[0]), {"axis": -1, "keepdims": True})
        yield Sample((a, b[:1, :1]), {"axis": (0, 1)})
        yield Sample((a[:0], b[:0]), {"axis": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        a, b = TensorSpec((2, 3)), TensorSpec((2, 4))
        yield ErrorSample((a, b), {}, "do not broadcast")
        yield ErrorSample((a, a), {"axis": 2}, "out of range")
        yield ErrorSample((a.with_dtype("bool"),) * 2, {}, "does not take bool")


class EuclideanDistance(_Distance):
    """Length of the difference; its gradient at 0 is taken to be 0.

    y = √(Σ (a − b)²)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.euclidean_distance(g.constant([3.0, 4.0]), 0.0, name="y")
    >>> float(g.output({}, y)["y"])
    5.0
    """

    def between(self, a: Any, b: Any) -> Any:
        return self.length(a - b)


class ManhattanDistance(_Distance):
    """Sum of absolute differences.

    y = Σ |a − b|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.manhattan_distance(g.constant([3.0, -4.0]), 0.0, name="y")
    >>> float(g.output({}, y)["y"])
    7.0
    """

    def between(self, a: Any, b: Any) -> Any:
        return self.total(Abs()(a - b))


class JaccardDistance(_Distance):
    """Share of two weighted sets, of numbers ≥ 0, that is not common to both; 0 if both are empty.

    y = 1 − Σ min(a, b) / Σ max(a, b)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.jaccard_distance(g.constant([1.0, 1.0]), g.constant([1.0, 0.0]), name="y")
    >>> float(g.output({}, y)["y"])
    0.5
    """

    def between(self, a: Any, b: Any) -> Any:
        common, whole = self.total(Minimum()(a, b)), self.total(Maximum()(a, b))
        empty = whole == 0.0
        return Where()(empty, 0.0, 1.0 - common / Where()(empty, 1.0, whole))


class CosineSimilarity(_Distance):
    """Cosine of the angle between two vectors; 0 where one of them is 0.

    Defaults of torch: ``axis=1, eps=1e-8``; here all axes are one vector.

    y = Σ a·b / max(‖a‖·‖b‖, eps), with 0/0 = 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cosine_similarity(g.constant([1.0, 0.0]), g.constant([3.0, 4.0]), name="y")
    >>> round(float(g.output({}, y)["y"]), 4)
    0.6
    """

    autocast = Autocast.STATISTIC
    eps: float = attr(0.0, doc="Least product of the norms; torch takes 1e-8.", least=0.0)

    def between(self, a: Any, b: Any) -> Any:
        a, b = BroadcastLike()(a, b + a), BroadcastLike()(b, a + b)
        (left, a), (right, b) = self.direction(a), self.direction(b)
        y = self.total(a * b)
        return y * Minimum()(left * (right / self.eps), 1.0) if self.eps else y

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = rng.uniform(0.2, 2.0, (2, 2, 3))
        yield Sample((a, b))
        yield Sample((a, b[0]), {"axis": -1, "keepdims": True})
        yield Sample((a, b[:1]), {"axis": (0, 1), "eps": 100.0})
        yield Sample((a[:0], b[:0]), {"axis": 1})

    def direction(self, x: Any) -> tuple[Any, Any]:
        """Return the length and x/‖x‖, 0 for 0: no square or product of elements overflows."""
        size = RootSumSquares(axis=self.axis, keepdims=True)(x)
        y = x / Where()(size == 0.0, 1.0, size)
        return size if self.keepdims else Squeeze(axis=self.axes(x.rank))(size), y


class CosineSeparation(CosineSimilarity):
    """One less the cosine of the angle between two vectors.

    y = 1 − Σ a·b / max(‖a‖·‖b‖, eps)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cosine_separation(g.constant([1.0, 0.0]), g.constant([0.0, 4.0]), name="y")
    >>> float(g.output({}, y)["y"])
    1.0
    """

    autocast = Autocast.FREE

    def between(self, a: Any, b: Any) -> Any:
        return 1.0 - super().between(a, b)


class HammingDistance(_Distance):
    """Number of elements in which two tensors differ.

    y = Σ [a ≠ b] : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.hamming_distance(g.constant([1, 2, 3]), g.constant([1, 5, 6]), name="y")
    >>> int(g.output({}, y)["y"])
    2
    """

    accepts: ClassVar[str] = "buifc"

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:  # type: ignore[override]
        return super().infer(a, b).with_dtype("int64")

    def expand(self, a: Any, b: Any) -> Any:
        return CountNonzero(axis=self.axis, keepdims=self.keepdims)(a != b)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = np.array([[1, 2], [3, 4]]), np.array([1, 4])
        yield Sample((a, b))
        yield Sample((a == 2, b == 4), {"axis": 0, "keepdims": True})
        yield Sample((np.zeros((0, 2)), np.ones((0, 2))), {"axis": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((3,))), {}, "do not broadcast")
