"""Variance, norms and other reductions made of simpler ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import GraphError
from ...op import ROWS, Autocast, Cotangent, ErrorSample, OnnxRule, Sample, attr
from ...spec import TensorSpec
from ..numerics.summing import add_up
from .choice import Maximum, Where
from .comparison import IsFinite
from .elementwise import Abs
from .exponential import Exp, Sqrt
from .functions import Square
from .identity import StopGradient
from .lengths import RootSumSquares
from .like import SizeOf
from .movement import Cast, Squeeze
from .quantifiers import CountNonzero
from .reduce import Max, Mean, Min, Sum, _Reduction
from .special import widened


class _Composite(_Reduction):
    """A reduction of floats made of other ops, computed in float32 at least."""

    accepts: ClassVar[str] = "f"

    def reduced(self, x: Any) -> Any:
        """Return the result for a tensor of float32 or float64."""
        raise NotImplementedError

    def expand(self, x: Any) -> Any:
        if x.dtype.itemsize >= 4:
            return self.reduced(x)
        return Cast(dtype=x.dtype)(self.reduced(Cast(dtype="float32")(x)))


def root(x: Any, p: float = 2.0) -> Any:
    """Return the p-th root of x >= 0, whose gradient at 0 is taken to be 0."""
    zero = x == 0.0
    safe = Where()(zero, 1.0, x)
    return Where()(zero, 0.0, Sqrt()(safe) if p == 2.0 else safe ** (1 / p))


class Var(_Composite):
    """Variance: mean squared distance from the mean.

    torch divides by n − 1 unless told otherwise: ``ddof=1``; here it is n, as in numpy.

    y = Σ (x − mean x)² / max(0, n − ddof), which is infinite or NaN where ddof >= n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.var(g.constant([1.0, 3.0]), ddof=1))["var"])
    2.0
    """

    drawing = "reduce"
    autocast = Autocast.SUM
    ddof: int = attr(
        0, doc="What is taken off the number of elements; 1 gives the unbiased estimate."
    )

    def reduced(self, x: Any) -> Any:
        d = Square()(x - Mean(axis=self.axis, keepdims=True)(x))
        if not self.ddof:
            return Mean(axis=self.axis, keepdims=self.keepdims)(d)
        return Sum(axis=self.axis, keepdims=self.keepdims)(d) / self.freedom(x)

    def freedom(self, x: Any) -> Any:
        """Return by how much the sum of squares is divided."""
        return Maximum()(SizeOf(axis=self.axis, dtype=x.dtype)(x) - float(self.ddof), 0.0)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((rng.standard_normal((3, 4)),), {"axis": 0, "ddof": 1})


class Std(Var):
    """Standard deviation; its gradient where all elements are equal is taken to be 0.

    torch divides by n − 1 unless told otherwise: ``ddof=1``; here it is n, as in numpy.

    y = √(Σ (x − mean x)² / max(0, n − ddof))

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.std(g.constant([1.0, 3.0]))
    >>> g.output({}, y)["std"].tolist()
    1.0
    """

    def reduced(self, x: Any) -> Any:
        where = {"axis": self.axis, "keepdims": self.keepdims}
        d = x - Mean(axis=self.axis, keepdims=True)(x)
        if not self.ddof:
            return RootSumSquares(mean=True, **where)(d)
        return RootSumSquares(**where)(d) / Sqrt()(self.freedom(x))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            yield Sample(sample.inputs, sample.attrs, smooth=sample.inputs[0].ndim > 0)
        yield Sample((np.ones((2, 3)),), {"axis": 1}, smooth=False)


class Norm(_Composite):
    """Vector norm over axes; its gradient at 0 is taken to be 0.

    y = (Σ |x|ᵖ)^(1/p) for p = ord, max |x| for ord = ∞, min |x| for −∞, Σ [x ≠ 0] for 0

    Orders below 1 are no norms, but numpy and torch take them, too. There elements that are 0 get
    the gradient 0, as in torch, even where the true slope is infinite, and order 0 has none.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.norm(g.constant([3.0, 4.0])))["norm"])
    5.0
    """

    namespace = "linalg"
    drawing = "reduce"
    autocast = Autocast.SUM
    ord: float = attr(2.0, doc="Order p: any number, ∞ or −∞.")
    onnx = OnnxRule("ReduceL2", since=18)

    def infer(self, x: TensorSpec) -> TensorSpec:
        if math.isnan(self.ord):
            raise GraphError(f"norm: ord={self.ord} is no order", need="a number, inf or -inf")
        return super().infer(x)

    def reduced(self, x: Any) -> Any:
        axis, keep = self.axis, self.keepdims
        if self.ord == math.inf:
            return Max(axis=axis, keepdims=keep)(Abs()(x))
        if self.ord == -math.inf:
            return Min(axis=axis, keepdims=keep)(Abs()(x))
        if self.ord == 0.0:
            return Cast(dtype=x.dtype)(CountNonzero(axis=axis, keepdims=keep)(x))
        if self.ord == 1.0:
            return Sum(axis=axis, keepdims=keep)(Abs()(x))
        if self.ord == 2.0:
            return RootSumSquares(axis=axis, keepdims=keep)(x)
        size = Abs()(x)
        most = Max if self.ord > 0.0 else Min  # the largest of the powers, which may be no number
        top = StopGradient()(most(axis=axis, keepdims=True)(size))
        top = Where()((top > 0.0) & IsFinite()(top), top, 1.0)
        total = Sum(axis=axis, keepdims=True)(self.powers(size / top))
        y = (root(total, self.ord) if self.ord > 0.0 else total ** (1 / self.ord)) * top
        return y if keep else Squeeze(axis=self.axes(x.rank))(y)

    def powers(self, size: Any) -> Any:
        """Return sizes to the power p; those of order below 1 are without a slope at 0."""
        if self.ord >= 1.0:
            return size**self.ord
        zero = size == 0.0
        some = Where()(zero, 1.0, size) ** self.ord
        return Where()(zero, 0.0 if self.ord > 0.0 else math.inf, some)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        for ord in (-math.inf, -1.5, 0.5, 1.0, 3.0, math.inf):
            yield Sample((rng.standard_normal((2, 3)),), {"axis": 0, "ord": ord})
        yield Sample((np.zeros((2, 3)),), {"axis": 1}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((2,)),), {"ord": math.nan}, "is no order")


class Logsumexp(_Reduction):
    """Logarithm of the sum of exponentials, safe from overflow.

    y = ln Σ exp x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.logsumexp(g.constant([1000.0, -1000.0])))["logsumexp"])
    1000.0
    """

    drawing = "reduce"
    autocast = Autocast.POWER
    dependence = ROWS
    accepts: ClassVar[str] = "f"
    onnx = OnnxRule("ReduceLogSumExp", since=18)

    def forward(self, x: Any) -> Any:
        axes, wide = self.axes(x.ndim), widened(x)
        top = np.max(wide, axes, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0).astype(wide.dtype)
        with np.errstate(divide="ignore", over="ignore"):
            y = np.log(add_up(np.exp(wide - top), axes, keepdims=True)) + top
        return (y if self.keepdims else np.squeeze(y, axes)).astype(x.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (y,), (x,) = gs, ys, xs
        nothing = Where()(y == -math.inf, 0.0, y)  # exp(−∞ − 0) = 0, −∞ − (−∞) is NaN
        return (self.kept(g, x.rank) * Exp()(x - self.kept(nothing, x.rank)),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([[1000.0, 1000.5], [-1000.0, -999.0]]),), {"axis": 1})
        yield Sample((np.array([[-np.inf, -np.inf], [0.0, -np.inf]]),), {"axis": 1}, smooth=False)
