"""Losses: labels first, then predictions, then optional weights, everywhere.

A loss is computed per element (per example, where it sums over classes), multiplied by the weights,
which broadcast, and reduced:

    none                          w·l
    sum                           Σ w·l
    mean_by_weight                Σ w·l / Σ w
    mean_by_nonzero_weight_count  Σ w·l / number of w ≠ 0     (the default; without weights: mean)

Where nothing has weight, the last two give 0. What has weight 0 counts for nothing, even where its
label or prediction is NaN or infinite, and neither do slopes come from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import ErrorSample, Op, Sample, attr
from ...spec import Shape, TensorSpec, differ, kind, normalize_axis, promote, shapes_differ
from ..core.activation import Relu
from ..core.choice import Clip, Maximum, Where
from ..core.comparison import IsFinite, LogicalOr
from ..core.elementwise import Abs
from ..core.exponential import Exp, Log
from ..core.like import BroadcastLike, OnesLike, SizeOf
from ..core.movement import Cast, ExpandDims
from .swapped import refuse_swapped

REDUCTIONS = ("mean_by_nonzero_weight_count", "mean_by_weight", "sum", "none")


class _Loss(Op):
    """A loss: ``each`` gives it per element, this class weighs and reduces."""

    namespace = "loss"
    labels_are: ClassVar[str] = "numbers"
    """``bits``: each is 0 or 1, or a share between; ``shares``: those of all classes are 1."""
    reduction: str = attr(
        "mean_by_nonzero_weight_count", doc="How many become one.", choices=REDUCTIONS
    )

    def __call__(self, *inputs: Any, name: str | None = None) -> Any:
        if self.labels_are != "numbers":
            refuse_swapped(self, *inputs[:2])
        return super().__call__(*inputs, name=name)

    def infer(
        self, labels: TensorSpec, predictions: TensorSpec, weights: TensorSpec | None = None
    ) -> TensorSpec:
        check_floating(self, predictions)
        for name, given in (("labels", labels), ("weights", weights)):
            if given is not None and kind(given.dtype) not in "biuf":
                raise DTypeError(f"{name} are real numbers, got {given.dtype}", need="f32[…]")
        shape = self.shape_of_each(labels, predictions)
        dtype = predictions.dtype
        if kind(labels.dtype) == "f":
            dtype = promote(dtype, labels.dtype)
        if weights is not None:
            dtype = promote(dtype, weights.dtype)
            pairs = zip(reversed(weights.shape), reversed(shape), strict=False)
            if weights.rank > len(shape) or any(w != 1 and differ(w, d) for w, d in pairs):
                raise ShapeError("weights do not fit", need=f"broadcastable to {shape}")
        return TensorSpec(shape if self.reduction == "none" else (), dtype)

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Shape:
        """Return the shape of the unreduced loss; refuse what does not fit."""
        if shapes_differ(labels.shape, predictions.shape):
            raise ShapeError("labels and predictions have different shapes", need="equal shapes")
        return predictions.shape

    def each(self, labels: Any, predictions: Any) -> Any:
        """Return the unreduced loss; both inputs are floating."""
        raise NotImplementedError

    def expand(self, labels: Any, predictions: Any, weights: Any = None) -> Any:
        labels, predictions = (self.settled(x, weights) for x in (labels, predictions))
        if kind(labels.dtype) != "f":
            labels = Cast(dtype=predictions.dtype)(labels)
        return self.reduced(self.each(labels, predictions), weights)

    def settled(self, x: Any, weights: Any, summed: int | None = None) -> Any:
        """Return labels or predictions with 0.5, good for all losses, where 0·NaN would come in.

        ``summed`` says how many last axes of x the weights lack, where ``per_class`` cannot tell.
        """
        if weights is None or kind(x.dtype) != "f":
            return x
        if summed is None:
            weights = self.per_class(weights, x)
        elif summed and weights.rank:
            weights = ExpandDims(axis=tuple(range(-summed, 0)))(weights)
        return Where()(LogicalOr()(weights != 0, IsFinite()(x)), x, 0.5)

    def per_class(self, weights: Any, x: Any) -> Any:
        """Return weights with the axes over which ``each`` sums, so that they broadcast to x."""
        summed = x.rank - len(self.shape_of_each(x.spec, x.spec))
        return ExpandDims(axis=tuple(range(-summed, 0)))(weights) if summed else weights

    def reduced(self, each: Any, weights: Any) -> Any:
        """Weigh the unreduced loss and reduce it."""
        return self.total(each if weights is None else each * weights, weights)

    def total(self, weighted: Any, weights: Any) -> Any:
        """Reduce the weighted loss."""
        if self.reduction == "none":
            return weighted
        if self.reduction == "sum":
            return weighted.sum()
        if weights is None:
            return weighted.mean()
        divisor = self.counted(weights, weighted)
        return weighted.sum() / Where()(divisor == 0, 1, divisor)

    def counted(self, weights: Any, weighted: Any) -> Any:
        """Return what the sum of the weighted loss is divided by."""
        spread = BroadcastLike()(weights, weighted)
        if self.reduction == "mean_by_nonzero_weight_count":
            spread = Cast(dtype=weighted.dtype)(spread != 0)
        return spread.sum()

    def divisor(self, *xs: Any) -> Any:
        if self.reduction in ("none", "sum"):
            return None
        each, weights = self.replace(reduction="none")(*xs), self.weights_of(*xs)
        return SizeOf()(each) if weights is None else self.counted(weights, each)

    def weights_of(self, *xs: Any) -> Any:
        """Return the weights among the inputs, with what else says how much an example counts."""
        return dict(zip([p.name for p in self.inputs], xs, strict=False)).get("weights")

    @classmethod
    def pair(cls, rng: np.random.Generator) -> tuple[Any, Any]:
        """Return labels and predictions to test on, ``f64[3, 4]``."""
        return rng.standard_normal((3, 4)), rng.standard_normal((3, 4))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        labels, predictions = cls.pair(rng)
        yield Sample((labels, predictions))
        per = cls().shape_of_each(_spec(labels), _spec(predictions))
        weights = rng.uniform(0.5, 2.0, (3, *(1 for _ in per[1:])))
        for reduction in REDUCTIONS:
            yield Sample((labels, predictions, weights), {"reduction": reduction})
        some = np.where(np.arange(3) == 1, 0.0, 2.0).reshape(weights.shape)
        yield Sample((labels, predictions, some), differentiate=(1,))
        yield Sample((labels, predictions, 0 * some), differentiate=(1,))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, y = TensorSpec((3, 4)), TensorSpec((3, 4))
        yield ErrorSample((y, TensorSpec((3, 5))), {}, "different shapes")
        yield ErrorSample((y, TensorSpec((3, 4), "int64")), {}, "needs floating predictions")
        yield ErrorSample((y, x, TensorSpec((2, 3, 4))), {}, "weights do not fit")
        yield ErrorSample((y, x, x.with_dtype("complex64")), {}, "weights are real numbers")
        yield ErrorSample((y, x), {"reduction": "mean"}, "reduction='mean' is not known")


def _spec(x: Any) -> TensorSpec:
    return TensorSpec(x.shape, x.dtype)


def check_floating(op: Op, predictions: TensorSpec) -> None:
    """Refuse predictions that are class numbers: most often they are the labels."""
    if kind(predictions.dtype) != "f":
        raise DTypeError(
            f"{op.name} needs floating predictions, got {predictions.dtype}",
            hint="the order is (labels, predictions)",
        )


class MeanSquaredError(_Loss):
    """Squared error.

    l = (prediction − label)²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([1.0, 2.0]), g.constant([1.0, 4.0])
    >>> float(g.output({}, gw.loss.mean_squared_error(y, p, name="loss"))["loss"])
    2.0
    """

    def each(self, labels: Any, predictions: Any) -> Any:
        error = predictions - labels
        return error * error


class AbsoluteDifference(_Loss):
    """Absolute error.

    l = |prediction − label|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([1.0, 2.0]), g.constant([1.0, 4.0])
    >>> float(g.output({}, gw.loss.absolute_difference(y, p, name="loss"))["loss"])
    1.0
    """

    def each(self, labels: Any, predictions: Any) -> Any:
        return Abs()(predictions - labels)


class Huber(_Loss):
    """Squared error for small errors, absolute for large ones (Huber 1964).

    l = e²/2 for |e| ≤ δ, else δ(|e| − δ/2), with e = prediction − label

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([0.0, 0.0]), g.constant([1.0, 3.0])
    >>> g.output({}, gw.loss.huber(y, p, reduction="none", name="loss"))["loss"].tolist()
    [0.5, 2.5]
    """

    delta: float = attr(1.0, doc="Error at which the loss turns linear.")

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Shape:
        if not self.delta > 0:
            raise GraphError(f"delta={self.delta} is not positive", need="delta > 0")
        return super().shape_of_each(labels, predictions)

    def each(self, labels: Any, predictions: Any) -> Any:
        error = predictions - labels
        near = Clip()(error, -self.delta, self.delta)
        return near * (error - near * 0.5)  # one piece: no 0·∞ in the slope of a branch not taken

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2,))), {"delta": 0.0}, "is not positive")


class Hinge(_Loss):
    """Margin loss; labels are 0 and 1, predictions any number (Cortes and Vapnik 1995).

    l = max(0, 1 − (2·label − 1)·prediction)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([0.0, 1.0]), g.constant([-2.0, 0.5])
    >>> g.output({}, gw.loss.hinge(y, p, reduction="none", name="loss"))["loss"].tolist()
    [0.0, 0.5]
    """

    labels_are = "bits"

    def each(self, labels: Any, predictions: Any) -> Any:
        return Relu()(1 - (labels * 2 - 1) * predictions)

    @classmethod
    def pair(cls, rng: np.random.Generator) -> tuple[Any, Any]:
        return rng.integers(0, 2, (3, 4)).astype(float), rng.standard_normal((3, 4))


class LogLoss(_Loss):
    """Cross entropy of probabilities; from logits, ``sigmoid_cross_entropy`` is more precise.

    torch adds no ε but takes logarithms from −100 on.

    l = −label·log(p + ε) − (1 − label)·log(1 − p + ε)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([1.0, 0.0]), g.constant([0.5, 0.5])
    >>> round(float(g.output({}, gw.loss.log_loss(y, p, name="loss"))["loss"]), 4)
    0.6931
    """

    labels_are = "bits"

    eps: float = attr(1e-7, doc="Added to probabilities, so that the loss stays finite.", least=0.0)

    def each(self, labels: Any, predictions: Any) -> Any:
        hit = labels * Log()(predictions + self.eps)
        miss = (1 - labels) * Log()(1 - predictions + self.eps)
        return -(hit + miss)

    @classmethod
    def pair(cls, rng: np.random.Generator) -> tuple[Any, Any]:
        return rng.uniform(0, 1, (3, 4)), rng.uniform(0.1, 0.9, (3, 4))


class LogPoisson(_Loss):
    """Negative log likelihood of counts; predictions are logarithms of rates.

    l = exp(prediction) − label·prediction; ``full`` adds Stirling's label·log label − label +
    ½·log(2π·label) for labels above 1

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([1.0, 3.0]), g.constant([0.0, 0.0])
    >>> float(g.output({}, gw.loss.log_poisson(y, p, name="loss"))["loss"])
    1.0
    """

    full: bool = attr(False, doc="Add Stirling's approximation of log(label!).")

    def each(self, labels: Any, predictions: Any) -> Any:
        loss = Exp()(predictions) - labels * predictions
        if not self.full:
            return loss
        large = labels > 1
        n = Where()(large, labels, 1)
        stirling = n * Log()(n) - n + Log()(n * (2 * math.pi)) * 0.5
        return loss + Where()(large, stirling, 0)

    @classmethod
    def pair(cls, rng: np.random.Generator) -> tuple[Any, Any]:
        return rng.uniform(0, 4, (3, 4)), rng.standard_normal((3, 4))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample(cls.pair(rng), {"full": True})


class _OverClasses(_Loss):
    """A loss that sums over one axis, so there is one value per example."""

    axis: int = attr(-1, doc="Axis of classes or features, summed over.")

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Shape:
        shape = super().shape_of_each(labels, predictions)
        axis = normalize_axis(self.axis, predictions.rank)
        return shape[:axis] + shape[axis + 1 :]

    def per_class(self, weights: Any, x: Any) -> Any:
        after = x.rank - 1 - normalize_axis(self.axis, x.rank)
        return ExpandDims(axis=-1 - after)(weights) if after <= weights.rank else weights

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        labels, predictions = cls.pair(rng)
        yield Sample((labels.T, predictions.T), {"axis": 0, "reduction": "none"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        x = TensorSpec((3, 4))
        yield ErrorSample((x, x), {"axis": 2}, "axis 2 is out of range")
        yield ErrorSample((x, x, TensorSpec((3, 4))), {}, "weights do not fit")


class CosineDistance(_OverClasses):
    """One minus the inner product; labels and predictions are taken to have norm 1 already.

    l = 1 − Σ label·prediction over ``axis``

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([[1.0, 0.0]]), g.constant([[0.6, 0.8]])
    >>> round(float(g.output({}, gw.loss.cosine_distance(y, p, name="loss"))["loss"]), 4)
    0.4
    """

    def each(self, labels: Any, predictions: Any) -> Any:
        return 1 - (labels * predictions).sum(self.axis)


class KlDivergence(_OverClasses):
    """Relative entropy of two distributions (Kullback and Leibler 1951).

    torch takes log prediction, and the mean over all elements; this is its "batchmean".

    l = Σ label·(log label − log prediction) over ``axis``, with 0·log 0 = 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([[1.0, 0.0]]), g.constant([[0.5, 0.5]])
    >>> round(float(g.output({}, gw.loss.kl_divergence(y, p, name="loss"))["loss"]), 4)
    0.6931
    """

    def each(self, labels: Any, predictions: Any) -> Any:
        present = labels > 0
        y, p = Where()(present, labels, 1), Where()(present, predictions, 1)
        return Where()(present, y * (Log()(y) - Log()(p)), 0).sum(self.axis)

    @classmethod
    def pair(cls, rng: np.random.Generator) -> tuple[Any, Any]:
        return rng.dirichlet(np.full(4, 3.0), 3), rng.dirichlet(np.full(4, 3.0), 3)


class MeanPairwiseSquaredError(_Loss):
    """Squared error of differences: how far pairs of outputs are apart, not where they are.

    l = Σ_{i<j} (dᵢ − dⱼ)² / (n(n − 1)/2) per example, with d = prediction − label over the n
    elements of the example; computed as 2·Σ (dᵢ − mean d)²/(n − 1)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([[1.0, 2.0]]), g.constant([[11.0, 15.0]])
    >>> float(g.output({}, gw.loss.mean_pairwise_squared_error(y, p, name="loss"))["loss"])
    9.0
    """

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Shape:
        if predictions.rank < 2:
            raise ShapeError("there are no pairs within an example", need="f32[batch, n, …]")
        return super().shape_of_each(labels, predictions)[:1]

    def each(self, labels: Any, predictions: Any) -> Any:
        d = predictions - labels
        axes = tuple(range(1, d.rank))
        centred = d - d.mean(axes, keepdims=True)
        n = OnesLike()(d).sum(axes)
        return (centred * centred).sum(axes) * 2 / Maximum()(n - 1, 1)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)), TensorSpec((3,))), {}, "no pairs")
        yield ErrorSample((TensorSpec((3, 4)), TensorSpec((3, 5))), {}, "different shapes")
