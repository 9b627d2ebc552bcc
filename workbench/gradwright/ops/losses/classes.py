"""Losses of classes: likelihoods, focal losses, overlaps, margins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import GraphError
from ...op import ErrorSample, OnnxRule, Sample, attr
from ...spec import Shape, TensorSpec
from ..core.activation import Relu, Sigmoid, Softplus
from ..core.choice import Where
from ..core.like import OnesLike
from ..core.movement import ExpandDims, Squeeze
from ..core.scatter import TakeAlongAxis
from .cross_entropy import _OfLabels
from .labels import ClassNumbers
from .loss import _Loss


class Nll(_OfLabels):
    """Negative log likelihood of class numbers; predictions are log probabilities.

    torch has predictions first and ``ignore_index=-100``; its mean with class weights is
    ``reduction="mean_by_weight"``.

    l = −prediction[label], times class_weights[label] where they are given

    Labels are ``i64[…]``, predictions ``f32[…, C]``, or with the classes on another ``axis``. A
    label outside 0 … C − 1 is an error when it is run, but for ``ignore_index``: examples so
    labelled have weight 0.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([1, 0]), g.constant([[-3.0, -1.0], [-2.0, 0.0]])
    >>> float(g.output({}, gw.loss.nll(y, p, name="l"))["l"])
    1.5
    """

    onnx = OnnxRule("NegativeLogLikelihoodLoss", since=12)

    def each(self, labels: Any, predictions: Any) -> Any:
        numbers = ClassNumbers(ignore_index=self.ignore_index)(labels, predictions)
        picked = TakeAlongAxis(axis=-1)(predictions, ExpandDims(axis=-1)(numbers))
        return -Squeeze(axis=-1)(picked)


class SigmoidFocal(_Loss):
    """Cross entropy that counts easy examples less (Lin et al. 2017); predictions are logits.

    l = aₜ·(1 − pₜ)^γ·(−log pₜ), pₜ = p for label 1 and 1 − p for label 0, p = σ(x);
    aₜ = α for label 1 and 1 − α for label 0, or 1 where α is None

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([1.0, 1.0]), g.constant([0.0, 1000.0])
    >>> loss = gw.loss.sigmoid_focal(y, x, alpha=None, reduction="none", name="l")
    >>> g.output({}, loss)["l"].round(4).tolist()
    [0.17329999804496765, 0.0]
    """

    labels_are = "bits"
    alpha: float | None = attr(0.25, doc="Weight of label 1; None weighs both the same.")
    gamma: float = attr(2.0, doc="How much less easy examples count; 0: not at all.")

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Shape:
        if not self.gamma >= 0:
            raise GraphError(f"gamma={self.gamma} is negative", need="gamma >= 0")
        return super().shape_of_each(labels, predictions)

    def each(self, labels: Any, predictions: Any) -> Any:
        y, x = labels, predictions
        loss = y * Softplus()(-x) + (1 - y) * Softplus()(x)
        if self.gamma:
            missed = y * Sigmoid()(-x) + (1 - y) * Sigmoid()(x)
            loss = loss * (missed * missed if self.gamma == 2.0 else self.power(missed))
        if self.alpha is not None:
            loss = loss * (y * self.alpha + (1 - y) * (1 - self.alpha))
        return loss

    def power(self, missed: Any) -> Any:
        """Return (1 − pₜ)^γ; where that is 0 so is its slope, which for γ < 1 would be ∞·0."""
        gone = missed == 0
        return Where()(gone, 0, Where()(gone, 1, missed) ** self.gamma)

    @classmethod
    def pair(cls, rng: np.random.Generator) -> tuple[Any, Any]:
        return rng.uniform(0.1, 0.9, (3, 4)), rng.standard_normal((3, 4))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample(cls.pair(rng), {"alpha": None, "gamma": 1.5})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((2,)),) * 2, {"gamma": -1.0}, "is negative")


class Dice(_Loss):
    """One minus the overlap of two masks (Milletari, Navab and Ahmadi 2016).

    l = 1 − (2·Σ label·p + s)/(Σ label + Σ p + s), over all axes but the first: one per example

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([[1.0, 1.0, 0.0]]), g.constant([[1.0, 0.0, 0.0]])
    >>> float(g.output({}, gw.loss.dice(y, p, smooth=0.0, name="l"))["l"])
    0.3333333134651184
    """

    smooth: float = attr(1.0, doc="Added above and below, so that empty masks overlap.")

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Shape:
        return super().shape_of_each(labels, predictions)[:1]

    def each(self, labels: Any, predictions: Any) -> Any:
        axes = tuple(range(1, predictions.rank))
        both = (labels * predictions).sum(axes)
        total = labels.sum(axes) + predictions.sum(axes)
        return 1 - (both * 2 + self.smooth) / (total + self.smooth)

    @classmethod
    def pair(cls, rng: np.random.Generator) -> tuple[Any, Any]:
        return rng.uniform(0, 1, (3, 4)), rng.uniform(0.1, 0.9, (3, 4))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3, 4)), TensorSpec((3, 5))), {}, "different shapes")


class MultiMargin(_OfLabels):
    """Hinge loss of class numbers: other classes' scores stay a margin below (Crammer 2001).

    l = Σ over j ≠ label of max(0, margin − x[label] + xⱼ)^p / C

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([0]), g.constant([[1.0, 0.5, -3.0, 1.0]])
    >>> float(g.output({}, gw.loss.multi_margin(y, x, name="l"))["l"])
    0.375
    """

    margin: float = attr(1.0, doc="How far other scores have to be below.")
    p: int = attr(1, doc="Power: 1 or 2.", choices=(1, 2))

    def each(self, labels: Any, predictions: Any) -> Any:
        numbers = ClassNumbers(ignore_index=self.ignore_index)(labels, predictions)
        at = ExpandDims(axis=-1)(numbers)
        above = Relu()(predictions - TakeAlongAxis(axis=-1)(predictions, at) + self.margin)
        above = above * above if self.p == 2 else above
        own = max(self.margin, 0.0) ** self.p  # what the label's own class adds to the sum
        return (above.sum(-1) - own) / OnesLike()(predictions).sum(-1)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample(cls.pair(rng), {"p": 2, "margin": 0.5})
