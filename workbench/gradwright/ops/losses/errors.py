"""Losses of errors: how far predictions are from labels, or from what is likely; of weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import ErrorSample, Op, Sample, attr
from ...spec import Shape, TensorSpec, broadcast, differ, kind, promote
from ..arithmetic.trigonometry import Sinh
from ..core.activation import Relu, Softplus
from ..core.choice import Maximum, Where
from ..core.elementwise import Abs
from ..core.exponential import Log
from ..core.functions import Log1p, Square
from ..core.like import BroadcastLike
from .loss import _Loss


class SmoothL1(_Loss):
    """Absolute error, rounded off below β (Girshick 2015); huber divided by its delta.

    l = e²/(2β) for |e| < β, else |e| − β/2, with e = prediction − label

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([0.0, 0.0]), g.constant([1.0, 3.0])
    >>> g.output({}, gw.loss.smooth_l1(y, p, beta=2.0, reduction="none", name="l"))["l"].tolist()
    [0.25, 2.0]
    """

    beta: float = attr(1.0, doc="Error at which the loss turns linear; 0: absolute error.")

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Shape:
        if not self.beta >= 0:
            raise GraphError(f"beta={self.beta} is negative", need="beta >= 0")
        return super().shape_of_each(labels, predictions)

    def each(self, labels: Any, predictions: Any) -> Any:
        size = Abs()(predictions - labels)
        if not self.beta:
            return size
        near = Where()(size < self.beta, size, self.beta)
        return near * (size - near * 0.5) / self.beta

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample(cls.pair(rng), {"beta": 0.0})
        yield Sample(cls.pair(rng), {"beta": 0.5})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2,))), {"beta": -1.0}, "is negative")


class LogCosh(_Loss):
    """Logarithm of the hyperbolic cosine of the error: square near 0, absolute far away.

    l = log cosh e = |e| + log(1 + e^(−2|e|)) − log 2, with e = prediction − label

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([0.0, 0.0]), g.constant([0.0, 1000.0])
    >>> g.output({}, gw.loss.log_cosh(y, p, reduction="none", name="l"))["l"].round(3).tolist()
    [0.0, 999.3070068359375]
    """

    def each(self, labels: Any, predictions: Any) -> Any:
        e = predictions - labels
        size = Abs()(e)
        near = size < 1  # there the other form cancels, and cosh e − 1 = 2·sinh²(e/2)
        half = Sinh()(Where()(near, e, 0) * 0.5)
        return Where()(near, Log1p()(half * half * 2), size + Softplus()(size * -2) - math.log(2))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.zeros(3), np.array([0.0, 0.01, -30.0])))


class Pinball(_Loss):
    """Pinball loss, least where predictions are the q-quantile (Koenker and Bassett 1978).

    l = max(q·e, (q − 1)·e), with e = label − prediction

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([0.0, 2.0]), g.constant([1.0, 1.0])
    >>> g.output({}, gw.loss.pinball(y, p, q=0.75, reduction="none", name="l"))["l"].tolist()
    [0.25, 0.75]
    """

    q: float = attr(0.5, doc="Which quantile: 0.5 is the median.")

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Shape:
        if not 0 < self.q < 1:
            raise GraphError(f"q={self.q} is no quantile", need="0 < q < 1")
        return super().shape_of_each(labels, predictions)

    def each(self, labels: Any, predictions: Any) -> Any:
        e = labels - predictions
        return Maximum()(e * self.q, e * (self.q - 1))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample(cls.pair(rng), {"q": 0.9})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2,))), {"q": 1.0}, "is no quantile")


class MeanSquaredLogError(_Loss):
    """Squared error of logarithms, for what is not negative.

    l = (log(1 + prediction) − log(1 + label))²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([0.0]), g.constant([1.0])
    >>> round(float(g.output({}, gw.loss.mean_squared_log_error(y, p, name="l"))["l"]), 4)
    0.4805
    """

    def each(self, labels: Any, predictions: Any) -> Any:
        return Square()(Log1p()(predictions) - Log1p()(labels))

    @classmethod
    def pair(cls, rng: np.random.Generator) -> tuple[Any, Any]:
        return rng.uniform(0, 3, (3, 4)), rng.uniform(0, 3, (3, 4))


class PoissonNll(_Loss):
    """Negative log likelihood of counts; predictions are rates.

    l = p − label·log(p + ε); ``log_poisson`` takes logarithms of rates

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([1.0, 3.0]), g.constant([1.0, 1.0])
    >>> float(g.output({}, gw.loss.poisson_nll(y, p, name="l"))["l"])
    1.0
    """

    eps: float = attr(1e-8, doc="Added to rates, so that the loss stays finite.", least=0.0)

    def each(self, labels: Any, predictions: Any) -> Any:
        return predictions - labels * Log()(predictions + self.eps)

    @classmethod
    def pair(cls, rng: np.random.Generator) -> tuple[Any, Any]:
        return rng.uniform(0, 4, (3, 4)), rng.uniform(0.2, 4, (3, 4))


class GaussianNll(_Loss):
    """Negative log likelihood under a normal distribution of given variance (Nix, Weigend 1994).

    l = ½(log v + (prediction − label)²/v), v = max(variance, ε); ``full`` adds ½·log 2π

    The variance broadcasts to the predictions; below ε it has no gradient.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([0.0, 0.0]), g.constant([2.0, 0.0])
    >>> float(g.output({}, gw.loss.gaussian_nll(y, p, g.constant(1.0), name="l"))["l"])
    1.0
    """

    full: bool = attr(False, doc="Add the constant ½·log 2π.")
    eps: float = attr(1e-6, doc="Smallest variance.", least=0.0)

    def infer(  # type: ignore[override]
        self,
        labels: TensorSpec,
        predictions: TensorSpec,
        variance: TensorSpec,
        weights: TensorSpec | None = None,
    ) -> TensorSpec:
        y = super().infer(labels, predictions, weights)
        shape = broadcast(predictions.shape, variance.shape)
        if len(shape) != predictions.rank or any(map(differ, shape, predictions.shape)):
            raise ShapeError("variance does not fit", need=f"broadcastable to {predictions.shape}")
        return y.with_dtype(promote(y.dtype, variance.dtype))

    def expand(  # type: ignore[override]
        self, labels: Any, predictions: Any, variance: Any, weights: Any = None
    ) -> Any:
        if weights is not None:
            variance = BroadcastLike()(variance, predictions)
        labels, predictions, variance = (
            self.settled(x, weights, 0) for x in (labels, predictions, variance)
        )
        v = Where()(variance < self.eps, self.eps, variance)
        each = (Log()(v) + Square()(predictions - labels) / v) * 0.5
        return self.reduced(each + 0.5 * math.log(2 * math.pi) if self.full else each, weights)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample, full in zip(super().samples(rng), (True, *[False] * 6), strict=True):
            y, p, *weights = sample.inputs
            inputs = (y, p, rng.uniform(0.5, 2, (3, 1)), *weights)
            attrs = {**sample.attrs, "full": full}
            yield Sample(inputs, attrs, differentiate=(0, 1, 2))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, v = TensorSpec((3, 4)), TensorSpec(())
        yield ErrorSample((x, x, TensorSpec((3,))), {}, "do not broadcast")
        yield ErrorSample((x, x, TensorSpec((2, 3, 4))), {}, "variance does not fit")
        yield ErrorSample((x, x, v, TensorSpec((2, 3, 4))), {}, "weights do not fit")


class SoftMargin(_Loss):
    """Logistic loss of labels −1 and 1.

    l = log(1 + exp(−label·prediction))

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([1.0, -1.0]), g.constant([1000.0, -1000.0])
    >>> float(g.output({}, gw.loss.soft_margin(y, p, name="l"))["l"])
    0.0
    """

    def each(self, labels: Any, predictions: Any) -> Any:
        return Softplus()(-(labels * predictions))

    @classmethod
    def pair(cls, rng: np.random.Generator) -> tuple[Any, Any]:
        return rng.choice([-1.0, 1.0], (3, 4)), rng.standard_normal((3, 4))


class HingeEmbedding(_Loss):
    """Distances made small where the label is 1, and at least a margin where it is −1.

    l = x for label 1, max(0, margin − x) for label −1

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([1.0, -1.0]), g.constant([0.5, 0.25])
    >>> g.output({}, gw.loss.hinge_embedding(y, x, reduction="none", name="l"))["l"].tolist()
    [0.5, 0.75]
    """

    margin: float = attr(1.0, doc="Distance at which unlike pairs are far enough.")

    def each(self, labels: Any, predictions: Any) -> Any:
        far = self.margin - predictions
        return Where()(labels > 0, predictions, Relu()(far))

    @classmethod
    def pair(cls, rng: np.random.Generator) -> tuple[Any, Any]:
        return rng.choice([-1.0, 1.0], (3, 4)), rng.uniform(0.1, 2, (3, 4))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):  # labels choose; they have no gradient
            yield Sample(sample.inputs, sample.attrs, differentiate=(1,))


class L2Loss(Op):
    """Half the sum of squares of a tensor, as a penalty on weights.

    y = ½·Σ x²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.loss.l2_loss(g.constant([3.0, 4.0]), name="loss"))["loss"])
    12.5
    """

    namespace = "loss"

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) != "f":
            raise DTypeError(f"l2_loss does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        return x.with_shape(())

    def expand(self, x: Any) -> Any:
        return (x * x).sum() * 0.5

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((3, 4), (), (0,)):
            yield Sample((rng.standard_normal(shape),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,), "int64"),), {}, "does not take int64")
