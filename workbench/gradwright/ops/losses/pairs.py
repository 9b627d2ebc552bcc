"""Losses of pairs and triples of embeddings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import GraphError, ShapeError
from ...op import ErrorSample, Sample, attr
from ...spec import TensorSpec, check_floats, promote, shapes_differ
from ..core.activation import Relu
from ..core.choice import Minimum, Where
from ..core.comparison import IsFinite, LogicalAnd, LogicalOr
from ..core.identity import StopGradient
from ..core.like import BroadcastLike, IotaLike
from ..core.movement import ExpandDims
from ..core.quantifiers import All
from ..core.statistics import Norm
from .cross_entropy import LabelCrossEntropy
from .loss import _Loss, check_floating


def unit(x: Any) -> Any:
    """Return the rows of a tensor at length 1, and rows of zeros as they are.

    They are divided by their largest component first, whose square neither overflows nor vanishes.
    """
    for ord in (math.inf, 2.0):
        size = Norm(ord=ord, axis=-1, keepdims=True)(x)
        size = StopGradient()(size) if ord == math.inf else size  # the result does not depend on it
        x = x / Where()(size == 0, 1, size)
    return x


class Contrastive(_Loss):
    """Symmetric InfoNCE: row i of either side picks row i of the other (van den Oord et al. 2018).

    l = ½(−log softmax(s)[i, i] − log softmax(sᵀ)[i, i]), s = a·bᵀ/temperature, with a = labels/‖·‖
    and b = predictions/‖·‖, both f32[B, D]; normalize=False takes them as they are

    The temperature is a number, or a tensor that may be learned, as in CLIP. A row without weight
    still is one that others must not pick, unless it is NaN or infinite on one side.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a = g.constant([[1.0, 0.0], [0.0, 1.0]])
    >>> loss = gw.loss.contrastive(a, a, temperature=0.1, name="l")
    >>> round(float(g.output({}, loss)["l"]), 6)
    4.5e-05
    """

    temperature: float | None = attr(None, doc="What similarities are divided by; None: 1.")
    normalize: bool = attr(True, doc="Whether rows are brought to length 1 first.")

    def infer(
        self,
        labels: TensorSpec,
        predictions: TensorSpec,
        weights: TensorSpec | None = None,
        temperature: TensorSpec | None = None,
    ) -> TensorSpec:
        check_floating(self, labels)
        if labels.rank != 2:
            raise ShapeError("embeddings are rows", need=f"f32[B, D], got {labels}")
        if temperature is not None:
            check_floating(self, temperature)
        if temperature is not None and temperature.rank:
            raise ShapeError(f"temperature is one number, got {temperature}", need="f32[]")
        if self.temperature is not None and not self.temperature > 0:
            raise GraphError(f"temperature={self.temperature} is not positive", need="> 0")
        y = super().infer(labels, predictions, weights)
        return y if temperature is None else y.with_dtype(promote(y.dtype, temperature.dtype))

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Any:
        return super().shape_of_each(labels, predictions)[:1]

    def expand(
        self, labels: Any, predictions: Any, weights: Any = None, temperature: Any = None
    ) -> Any:
        a, b, seen = labels, predictions, None
        if weights is not None:  # rows that are no numbers and have no weight are nobody's rivals
            rows = BroadcastLike()(weights, All(axis=-1)(IsFinite()(a))) != 0
            there = LogicalOr()(rows, All(axis=-1)(LogicalAnd()(IsFinite()(a), IsFinite()(b))))
            a, b = (Where()(ExpandDims(axis=-1)(there), x, 0.5) for x in (a, b))
            seen = LogicalAnd()(ExpandDims(axis=-1)(there), there)
        if self.normalize:
            a, b = (unit(x) for x in (a, b))
        t = self.temperature or 1.0 if temperature is None else temperature
        scores = (a @ b.mT) / t
        rows = IotaLike()(scores.sum(-1))
        if seen is not None:
            seen = LogicalOr()(seen, ExpandDims(axis=-1)(rows) == rows)
            scores = Where()(seen, scores, -math.inf)
        each = (LabelCrossEntropy()(rows, scores) + LabelCrossEntropy()(rows, scores.mT)) * 0.5
        return self.reduced(each, weights)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample(cls.pair(rng), {"normalize": False, "temperature": 0.5})
        yield Sample((*cls.pair(rng), None, np.array(0.3)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((3, 4))
        yield ErrorSample((x, TensorSpec((2, 4))), {}, "different shapes")
        yield ErrorSample((TensorSpec((3,)), TensorSpec((3,))), {}, "embeddings are rows")
        yield ErrorSample((x, x), {"temperature": 0.0}, "is not positive")
        yield ErrorSample((x, x, None, TensorSpec((3,))), {}, "is one number")


class TripletMargin(_Loss):
    """Distance to a positive, at least a margin below that to a negative (Schroff et al. 2015).

    l = max(0, ‖anchor − positive‖ₚ − ‖anchor − negative‖ₚ + margin), one per row of f32[…, D]

    Anchors stand where other losses have labels. With ``swap`` the distance to the negative is the
    smaller one of that from the anchor and that from the positive (Balntas et al. 2016).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, p, n = (g.constant([[v, 0.0]]) for v in (0.0, 1.0, -1.5))
    >>> round(float(g.output({}, gw.loss.triplet_margin(a, p, n, name="l"))["l"]), 3)
    0.5
    """

    margin: float = attr(1.0, doc="How much farther negatives have to be.")
    p: float = attr(2.0, doc="Order of the norm.")
    swap: bool = attr(False, doc="Whether the positive may stand for the anchor.")

    def infer(  # type: ignore[override]
        self,
        labels: TensorSpec,
        predictions: TensorSpec,
        negatives: TensorSpec,
        weights: TensorSpec | None = None,
    ) -> TensorSpec:
        check_floating(self, negatives)
        if not self.margin > 0:
            raise GraphError(f"margin={self.margin} is not positive", need="margin > 0")
        super().shape_of_each(predictions, negatives)
        y = super().infer(labels, predictions, weights)
        return y.with_dtype(promote(y.dtype, negatives.dtype))

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Any:
        if not predictions.rank:
            raise ShapeError("embeddings are rows", need="f32[…, D]")
        return super().shape_of_each(labels, predictions)[:-1]

    def distance(self, a: Any, b: Any) -> Any:
        """Return the distance of rows."""
        return Norm(ord=float(self.p), axis=-1)(a - b + 1e-6)  # torch's ε: no kink at 0

    def expand(  # type: ignore[override]
        self, labels: Any, predictions: Any, negatives: Any, weights: Any = None
    ) -> Any:
        labels, predictions, negatives = (
            self.settled(x, weights, 1) for x in (labels, predictions, negatives)
        )
        near, far = self.distance(labels, predictions), self.distance(labels, negatives)
        if self.swap:
            far = Minimum()(far, self.distance(predictions, negatives))
        return self.reduced(Relu()(near - far + self.margin), weights)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            labels, predictions, *weights = sample.inputs
            negatives = rng.standard_normal((3, 4))
            inputs = (labels, predictions, negatives, *weights)
            yield Sample(inputs, sample.attrs, differentiate=(0, 1, 2))
        yield Sample((labels, predictions, negatives), {"swap": True, "margin": 3.0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((3, 4))
        yield ErrorSample((x, x, TensorSpec((3, 5))), {}, "different shapes")
        yield ErrorSample((x, x, x), {"margin": 0.0}, "is not positive")
        yield ErrorSample((x, x, x.with_dtype("int32")), {}, "needs floating predictions")


class _OfTwo(_Loss):
    """A loss of labels −1 and 1 and two tensors."""

    margin: float = attr(0.0, doc="How far the two have to be apart.")

    def infer(  # type: ignore[override]
        self,
        labels: TensorSpec,
        a: TensorSpec,
        b: TensorSpec,
        weights: TensorSpec | None = None,
    ) -> TensorSpec:
        check_floats(self.name, a, b)
        if shapes_differ(a.shape, b.shape):
            raise ShapeError("the two tensors have different shapes", need="equal shapes")
        y = super().infer(labels, a, weights)
        return y.with_dtype(promote(y.dtype, b.dtype))

    def expand(  # type: ignore[override]
        self, labels: Any, a: Any, b: Any, weights: Any = None
    ) -> Any:
        summed = a.rank - labels.rank
        labels = self.settled(labels, weights, 0)
        a, b = (self.settled(x, weights, summed) for x in (a, b))
        return self.reduced(self.of_two(labels, a, b), weights)

    def of_two(self, labels: Any, a: Any, b: Any) -> Any:
        """Return the unreduced loss."""
        raise NotImplementedError

    @classmethod
    def labels(cls, rng: np.random.Generator) -> Any:
        """Return labels to test on, for two tensors f64[3, 4]."""
        return rng.choice([-1.0, 1.0], (3, 4))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        (a, b), y = rng.standard_normal((2, 3, 4)), cls.labels(rng)
        weights = rng.uniform(0.5, 2, y.shape[:1]).reshape(-1, *[1] * (y.ndim - 1))
        yield Sample((y, a, b), differentiate=(1, 2))
        for reduction in ("mean_by_weight", "none"):
            attrs = {"reduction": reduction, "margin": 0.3}
            yield Sample((y, a, b, weights), attrs, differentiate=(1, 2, 3))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, y = TensorSpec((3, 4)), TensorSpec((3, 4))
        yield ErrorSample((y, x, TensorSpec((3, 5))), {}, "different shapes")
        yield ErrorSample((TensorSpec((2,)), x, x), {}, "different shapes")
        yield ErrorSample((y, x, x.with_dtype("complex64")), {}, "does not take complex64")


class MarginRanking(_OfTwo):
    """Scores in the order that labels say: 1 for a above b, −1 for b above a.

    l = max(0, −label·(a − b) + margin)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, a, b = g.constant([1.0, -1.0]), g.constant([2.0, 2.0]), g.constant([1.0, 1.0])
    >>> g.output({}, gw.loss.margin_ranking(y, a, b, reduction="none", name="l"))["l"].tolist()
    [0.0, 1.0]
    """

    def of_two(self, labels: Any, a: Any, b: Any) -> Any:
        return Relu()(self.margin - labels * (a - b))


class CosineEmbedding(_OfTwo):
    """Angles made small where the label is 1, large where it is −1.

    l = 1 − cos(a, b) for label 1, max(0, cos(a, b) − margin) for label −1, per row of f32[…, D];
    the cosine with a row of zeros counts as 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, a = g.constant([1.0, -1.0]), g.constant([[2.0, 0.0], [2.0, 0.0]])
    >>> g.output({}, gw.loss.cosine_embedding(y, a, a, reduction="none", name="l"))["l"].tolist()
    [0.0, 1.0]
    """

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Any:
        if not predictions.rank:
            raise ShapeError("embeddings are rows", need="f32[…, D]")
        return super().shape_of_each(labels, predictions.with_shape(predictions.shape[:-1]))

    def of_two(self, labels: Any, a: Any, b: Any) -> Any:
        cosine = (unit(a) * unit(b)).sum(-1)
        return Where()(labels > 0, 1 - cosine, Relu()(cosine - self.margin))

    @classmethod
    def labels(cls, rng: np.random.Generator) -> Any:
        return np.array([1.0, -1.0, 1.0])
