"""Losses of distillation: a student follows its teacher's outputs, features or attention."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import GraphError, ShapeError
from ...op import ErrorSample, Sample, attr
from ...spec import Shape, TensorSpec, differ, normalize_axis, promote
from ..arithmetic.pairs import Logaddexp
from ..core.elementwise import Abs
from ..core.exponential import Exp
from ..core.functions import Square
from ..layers.nn import LogSoftmax
from .cross_entropy import LabelCrossEntropy
from .loss import _Loss, _OverClasses, check_floating


class DistillationKl(_OverClasses):
    """Student's logits beside its teacher's, both softened (Hinton, Vinyals and Dean 2015).

    l = α·T²·KL(softmax(teacher/T) ‖ softmax(student/T)) + (1 − α)·CE(targets, student)

    Labels are the teacher's logits, predictions the student's, both f32[…, C]; ``targets``,
    i64[…], are the true classes. Without targets the second term is left out.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, s = g.constant([[1.0, 2.0]]), g.constant([[2.0, 3.0]])
    >>> float(g.output({}, gw.loss.distillation_kl(t, s, temperature=2.0, name="l"))["l"])
    0.0
    """

    temperature: float = attr(1.0, doc="T, by which both sides' logits are divided.")
    alpha: float = attr(0.5, doc="Share of the teacher; 1 without targets.")

    def infer(
        self,
        labels: TensorSpec,
        predictions: TensorSpec,
        weights: TensorSpec | None = None,
        targets: TensorSpec | None = None,
    ) -> TensorSpec:
        if not self.temperature > 0 or not 0 <= self.alpha <= 1:
            raise GraphError(
                f"temperature={self.temperature}, alpha={self.alpha} make no loss",
                need="temperature > 0, 0 <= alpha <= 1",
            )
        y = super().infer(labels, predictions, weights)
        if targets is not None:
            if normalize_axis(self.axis, predictions.rank) != predictions.rank - 1:
                raise ShapeError("with targets, classes are on the last axis", need="axis=-1")
            LabelCrossEntropy().infer(targets, predictions)
        return y

    def expand(
        self, labels: Any, predictions: Any, weights: Any = None, targets: Any = None
    ) -> Any:
        labels, predictions = (self.settled(x, weights) for x in (labels, predictions))
        t, softmax = self.temperature, LogSoftmax(axis=self.axis)
        teacher, student = softmax(labels / t), softmax(predictions / t)
        each = (Exp()(teacher) * (teacher - student)).sum(self.axis) * (t * t)
        if targets is not None:
            hard = LabelCrossEntropy()(targets, predictions)
            each = each * self.alpha + hard * (1 - self.alpha)
        return self.reduced(each, weights)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        pair, targets = cls.pair(rng), np.array([0, 3, 1])
        yield Sample((*pair, None, targets), {"temperature": 2.0, "alpha": 0.3})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        x = TensorSpec((3, 4))
        yield ErrorSample((x, x), {"temperature": 0.0}, "make no loss")
        yield ErrorSample((x, x, None, TensorSpec((2,), "int64")), {}, "different shapes")


class GeneralizedJsd(_OverClasses):
    """Divergence between a student's and its teacher's logits, from forward to reverse KL.

    l = β·KL(t ‖ m) + (1 − β)·KL(s ‖ m),  m = β·t + (1 − β)·s,  with softmax of logits/T on both
    sides;  β = 0: KL(t ‖ s),  β = 1: KL(s ‖ t)  (Agarwal et al. 2024, "GKD", arXiv:2306.13649)

    Labels are the teacher's logits, predictions the student's, both f32[…, C]. There is no factor
    T², as in the paper. Forward KL has the student cover all that its teacher does, reverse KL has
    it seek the teacher's mode; β = 0.5 is the Jensen-Shannon divergence, within 0 … log 2.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, s = g.constant([[0.0, 50.0]]), g.constant([[50.0, 0.0]])
    >>> round(float(g.output({}, gw.loss.generalized_jsd(t, s, name="l"))["l"]), 4)
    0.6931
    """

    beta: float = attr(0.5, doc="β: 0 forward KL, 1 reverse KL, between them a mixture.")
    temperature: float = attr(1.0, doc="T, by which both sides' logits are divided.")

    def infer(
        self, labels: TensorSpec, predictions: TensorSpec, weights: TensorSpec | None = None
    ) -> TensorSpec:
        if not self.temperature > 0 or not 0 <= self.beta <= 1:
            raise GraphError(
                f"temperature={self.temperature}, beta={self.beta} make no loss",
                need="temperature > 0, 0 <= beta <= 1",
            )
        return super().infer(labels, predictions, weights)

    def each(self, labels: Any, predictions: Any) -> Any:
        t, b, softmax = self.temperature, self.beta, LogSoftmax(axis=self.axis)
        teacher, student = softmax(labels / t), softmax(predictions / t)
        if b == 0:
            return (Exp()(teacher) * (teacher - student)).sum(self.axis)
        if b == 1:
            return (Exp()(student) * (student - teacher)).sum(self.axis)
        mixed = Logaddexp()(teacher + math.log(b), student + math.log(1 - b))
        forward = (Exp()(teacher) * (teacher - mixed)).sum(self.axis)
        return b * forward + (1 - b) * (Exp()(student) * (student - mixed)).sum(self.axis)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        for beta in (0.0, 0.3, 1.0):
            yield Sample(cls.pair(rng), {"beta": beta, "temperature": 2.0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        x = TensorSpec((3, 4))
        yield ErrorSample((x, x), {"beta": 1.5}, "make no loss")


class FeatureDistillation(_Loss):
    """Squared distance of a student's features to its teacher's (Romero et al. 2015, "FitNets").

    l = (prediction @ projection − label)², with labels f32[…, E], predictions f32[…, D] and
    projection f32[D, E]; without a projection both have the same shape

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, s, w = g.constant([[3.0]]), g.constant([[1.0, 1.0]]), g.constant([[1.0], [1.0]])
    >>> float(g.output({}, gw.loss.feature_distillation(t, s, None, w, name="l"))["l"])
    1.0
    """

    def infer(
        self,
        labels: TensorSpec,
        predictions: TensorSpec,
        weights: TensorSpec | None = None,
        projection: TensorSpec | None = None,
    ) -> TensorSpec:
        if projection is None:
            return super().infer(labels, predictions, weights)
        check_floating(self, projection)
        check_floating(self, predictions)
        fits = projection.rank == 2 and predictions.rank
        if not fits or differ(predictions.shape[-1], projection.shape[0]):
            raise ShapeError("the projection does not fit", need="f32[D, E] for f32[…, D]")
        joint = promote(predictions.dtype, projection.dtype)
        shape = (*predictions.shape[:-1], projection.shape[1])
        return super().infer(labels, TensorSpec(shape, joint), weights)

    def expand(
        self, labels: Any, predictions: Any, weights: Any = None, projection: Any = None
    ) -> Any:
        found = predictions
        if projection is not None:
            if weights is not None:  # what is no number would come to the projection's gradient
                rows = Abs()(weights).sum(-1) if weights.rank else weights
                predictions = self.settled(predictions, rows, 1)
            found = predictions @ projection
        labels, found = (self.settled(x, weights) for x in (labels, found))
        return self.reduced(Square()(found - labels), weights)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        labels, predictions = cls.pair(rng)
        yield Sample((labels, predictions, rng.uniform(0.5, 2, (3, 1))))
        w = rng.standard_normal((2, 4))
        yield Sample((labels, predictions[:, :2], None, w), {"reduction": "sum"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((3, 4))
        yield ErrorSample((x, x, None, TensorSpec((3, 4))), {}, "projection does not fit")
        yield ErrorSample((x, TensorSpec((3, 5))), {}, "different shapes")


class AttentionDistillation(_Loss):
    """Squared distance of a student's attention to its teacher's (Jiao et al. 2020, "TinyBERT").

    l = (mean over heads of prediction − mean over heads of label)², with labels f32[B, H, T, S]
    and predictions f32[B, G, T, S]; with as many heads on both sides, head by head

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, s = g.constant([[[[1.0]], [[3.0]]]]), g.constant([[[[4.0]]]])
    >>> float(g.output({}, gw.loss.attention_distillation(t, s, name="l"))["l"])
    4.0
    """

    def one_to_one(self, labels: Any, predictions: Any) -> bool:
        """Tell whether both sides have the same heads."""
        return not differ(labels.shape[1], predictions.shape[1])

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Shape:
        if labels.rank != 4 or predictions.rank != 4:
            raise ShapeError("attention has heads", need="f32[B, H, T, S]")
        if self.one_to_one(labels, predictions):
            return super().shape_of_each(labels, predictions)
        means = [x.with_shape((x.shape[0], 1, *x.shape[2:])) for x in (labels, predictions)]
        return super().shape_of_each(*means)

    def each(self, labels: Any, predictions: Any) -> Any:
        if not self.one_to_one(labels, predictions):
            labels, predictions = (x.mean(1, keepdims=True) for x in (labels, predictions))
        return Square()(predictions - labels)

    @classmethod
    def pair(cls, rng: np.random.Generator) -> tuple[Any, Any]:
        return rng.uniform(0, 1, (3, 2, 1, 2)), rng.uniform(0, 1, (3, 1, 1, 2))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 3, 4, 5))
        yield ErrorSample((x, TensorSpec((2, 3, 4, 6))), {}, "different shapes")
        yield ErrorSample((TensorSpec((3, 4)), TensorSpec((3, 4))), {}, "attention has heads")
