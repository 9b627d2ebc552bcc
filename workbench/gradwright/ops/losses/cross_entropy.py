"""Cross entropies: of logits, in one piece, so that they neither overflow nor cancel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import ZERO, Autocast, Cotangent, Dependence, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import Shape, TensorSpec, differ, kind, normalize_axis, promote
from ..core.activation import Softplus
from ..core.choice import Minimum, Where
from ..core.comparison import IsFinite, LogicalOr
from ..core.index import Gather
from ..core.movement import Cast, ExpandDims, Transpose
from ..core.special import finfo, widened
from ..layers.nn import LogSoftmax, Softmax
from .labels import ClassNumbers, class_numbers
from .loss import _Loss, _OverClasses, check_floating


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise GraphError(f"{name}={value} is no share", need=f"0 <= {name} <= 1")


def _times(share: Any, loss: Any) -> Any:
    """Return the product, 0 where the share is: nothing of an infinite loss is nothing."""
    most = float(min(finfo(loss.dtype).max, finfo(np.dtype("float32")).max))
    return share * Where()(share == 0.0, Minimum()(loss, most), loss)


class SigmoidCrossEntropy(_Loss):
    """Cross entropy of independent yes/no labels; predictions are logits.

    l = −y·log σ(x) − (1 − y)·log(1 − σ(x)) = y·softplus(−x) + (1 − y)·softplus(x),
    y = (1 − s)·label + s/2 with label smoothing s

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([1.0, 0.0]), g.constant([0.0, -1000.0])
    >>> loss = gw.loss.sigmoid_cross_entropy(y, x, reduction="none", name="loss")
    >>> g.output({}, loss)["loss"].round(4)
    array([0.6931, 0.    ], dtype=float32)
    """

    labels_are = "bits"
    label_smoothing: float = attr(0.0, doc="Share of every label that is spread evenly.")

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Shape:
        _check_share("label_smoothing", self.label_smoothing)
        return super().shape_of_each(labels, predictions)

    def each(self, labels: Any, predictions: Any) -> Any:
        s = self.label_smoothing
        y = labels * (1 - s) + s / 2 if s else labels
        return _times(y, Softplus()(-predictions)) + _times(1 - y, Softplus()(predictions))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample(cls.pair(rng), {"label_smoothing": 0.1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        x = TensorSpec((3, 4))
        yield ErrorSample((x, x), {"label_smoothing": 1.5}, "label_smoothing=1.5 is no share")


class SoftmaxCrossEntropy(_OverClasses):
    """Cross entropy of class probabilities (one-hot or soft labels); predictions are logits.

    torch has the predictions first, and the classes on ``axis=1``.

    l = −Σ y·log softmax(x) over ``axis``, y = (1 − s)·label + s/C with label smoothing s over C
    classes (Szegedy et al. 2016)

    Where softmax(x) of the label nears 1, the loss and the slope p − 1 hold to a unit in the last
    place of 1: 6e-8 in float32, as in torch.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([[1.0, 0.0]]), g.constant([[0.0, 0.0]])
    >>> loss = gw.loss.softmax_cross_entropy(y, x, name="loss")
    >>> round(float(g.output({}, loss)["loss"]), 4)
    0.6931
    """

    labels_are = "shares"
    label_smoothing: float = attr(0.0, doc="Share of every label that is spread over classes.")

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Shape:
        _check_share("label_smoothing", self.label_smoothing)
        return super().shape_of_each(labels, predictions)

    def each(self, labels: Any, predictions: Any) -> Any:
        logs, s = LogSoftmax(axis=self.axis)(predictions), self.label_smoothing
        loss = -(labels * logs).sum(self.axis)
        return loss * (1 - s) - logs.mean(self.axis) * s if s else loss

    @classmethod
    def pair(cls, rng: np.random.Generator) -> tuple[Any, Any]:
        return rng.dirichlet(np.ones(4), 3), rng.standard_normal((3, 4))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample(cls.pair(rng), {"label_smoothing": 0.1})


class _OfLabels(_Loss):
    """A loss of class numbers; ``each`` gives it per example, for classes on the last axis."""

    axis: int = attr(-1, doc="Axis of classes; in ONNX it is 1.")
    ignore_index: int | None = attr(None, doc="Label of examples that do not count.")

    def infer(
        self,
        labels: TensorSpec,
        predictions: TensorSpec,
        weights: TensorSpec | None = None,
        class_weights: TensorSpec | None = None,
    ) -> TensorSpec:
        y = super().infer(labels, predictions, weights)
        if class_weights is None:
            return y
        n_classes = predictions.shape[normalize_axis(self.axis, predictions.rank)]
        if class_weights.rank != 1 or differ(class_weights.shape[0], n_classes):
            raise ShapeError("class_weights do not fit", need=f"one per class: {n_classes}")
        return y.with_dtype(promote(y.dtype, class_weights.dtype))

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Shape:
        if kind(labels.dtype) not in "iu":
            raise DTypeError(
                f"labels must be class numbers, got {labels.dtype}",
                hint="gw.cast(labels, 'int64'); softmax_cross_entropy takes probabilities",
            )
        axis = normalize_axis(self.axis, predictions.rank)
        examples = predictions.shape[:axis] + predictions.shape[axis + 1 :]
        if labels.rank != len(examples) or any(map(differ, labels.shape, examples)):
            raise ShapeError(
                "labels and predictions have different shapes", need="i64[…] and f32[…, classes]"
            )
        return labels.shape

    def expand(
        self, labels: Any, predictions: Any, weights: Any = None, class_weights: Any = None
    ) -> Any:
        given, predictions = weights, self.classes_last(predictions)
        of_example, weights = self.weighed(labels, predictions, weights, class_weights)
        logits = self.settled_logits(predictions, given, of_example, weights)
        each = self.each(labels, logits)
        weighted = each if weights is None else each * weights
        return self.total(self.smoothed(weighted, logits, of_example, class_weights), weights)

    def classes_last(self, predictions: Any) -> Any:
        """Return predictions with the classes on their last axis."""
        axis = normalize_axis(self.axis, predictions.rank)
        others = [i for i in range(predictions.rank) if i != axis]
        return predictions if axis == len(others) else Transpose(axes=(*others, axis))(predictions)

    def weighed(self, labels: Any, predictions: Any, weights: Any, of: Any) -> tuple[Any, Any]:
        """Return the weights of examples, and these times those ``of`` their classes."""
        if self.ignore_index is not None:
            kept = Cast(dtype=predictions.dtype)(labels != self.ignore_index)
            weights = kept if weights is None else kept * weights
        if of is None:
            return weights, weights
        of_class = Gather()(of, ClassNumbers(ignore_index=self.ignore_index)(labels, predictions))
        return weights, of_class if weights is None else of_class * weights

    def weights_of(self, labels: Any, predictions: Any, weights: Any = None, of: Any = None) -> Any:
        return self.weighed(labels, self.classes_last(predictions), weights, of)[1]

    def settled_logits(self, predictions: Any, given: Any, of_example: Any, weights: Any) -> Any:
        """Return predictions that are finite where their example has no weight, all told."""
        return self.settled(predictions, weights, 1)

    def smoothed(self, weighted: Any, predictions: Any, weights: Any, class_weights: Any) -> Any:
        """Return the weighted loss with labels smoothed, where a loss does so."""
        return weighted

    @classmethod
    def pair(cls, rng: np.random.Generator) -> tuple[Any, Any]:
        return rng.integers(0, 4, 3), rng.standard_normal((3, 4))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        labels, logits = rng.integers(0, 4, (2, 3)), rng.standard_normal((2, 3, 4))
        labels[0, 1] = 9
        yield Sample((labels, logits), {"ignore_index": 9})
        of_class, weights = rng.uniform(0.5, 2.0, 4), rng.uniform(0.5, 2.0, (2, 1))
        attrs = {"ignore_index": 9, "reduction": "mean_by_weight", "axis": 1}
        yield Sample((labels, logits.swapaxes(1, 2), weights, of_class), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, y = TensorSpec((3, 4)), TensorSpec((3,), "int64")
        yield ErrorSample((TensorSpec((3,)), x), {}, "must be class numbers")
        yield ErrorSample((TensorSpec((3, 4), "int64"), x), {}, "different shapes")
        yield ErrorSample((y, x, TensorSpec((3, 4))), {}, "weights do not fit")
        yield ErrorSample((y, x, None, TensorSpec((3,))), {}, "class_weights do not fit")


class SparseSoftmaxCrossEntropy(_OfLabels):
    """Cross entropy of class numbers; predictions are logits.

    torch has predictions first, classes on ``axis=1`` and ``ignore_index=-100``; its mean with
    class weights is ``reduction="mean_by_weight"``.

    l = −log softmax(x)[label], times class_weights[label] where they are given

    Labels are ``i64[…]``, predictions ``f32[…, C]``, or with the classes on another ``axis``. A
    label outside 0 … C − 1 is an error when it is run, but for ``ignore_index``: examples so
    labelled have weight 0. Label smoothing s takes (1 − s)·l − s·Σ log softmax(x)/C, its sum
    weighed by class. ONNX takes the mean of torch.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([1, -100]), g.constant([[0.0, 1000.0], [0.0, 0.0]])
    >>> loss = gw.loss.sparse_softmax_cross_entropy(y, x, ignore_index=-100, name="loss")
    >>> float(g.output({}, loss)["loss"])
    0.0
    """

    label_smoothing: float = attr(0.0, doc="Share of every label that is spread over classes.")
    onnx = OnnxRule("SoftmaxCrossEntropyLoss", since=12)

    def shape_of_each(self, labels: TensorSpec, predictions: TensorSpec) -> Shape:
        _check_share("label_smoothing", self.label_smoothing)
        return super().shape_of_each(labels, predictions)

    def each(self, labels: Any, predictions: Any) -> Any:
        return LabelCrossEntropy(ignore_index=self.ignore_index)(labels, predictions)

    def settled_logits(self, predictions: Any, given: Any, of_example: Any, weights: Any) -> Any:
        if self.label_smoothing:  # which counts, whatever the weight of the label's own class
            return self.settled(predictions, of_example, 1)
        if given is None and weights is of_example:  # ``each`` leaves out what is ignored
            return predictions
        return self.settled(predictions, weights, 1)

    def smoothed(self, weighted: Any, predictions: Any, weights: Any, class_weights: Any) -> Any:
        s = self.label_smoothing
        if not s:
            return weighted
        logs = LogSoftmax()(predictions)
        if class_weights is not None:  # a class without weight may be as unlikely as can be
            logs = Where()(LogicalOr()(class_weights != 0, IsFinite()(logs)), logs, 0)
            logs = logs * class_weights
        spread = logs.mean(-1)
        return weighted * (1 - s) - (spread if weights is None else spread * weights) * s

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((*cls.pair(rng), None, rng.uniform(0.5, 2.0, 4)), {"label_smoothing": 0.1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        y, x = TensorSpec((3,), "int64"), TensorSpec((3, 4))
        yield ErrorSample((y, x), {"label_smoothing": 1.5}, "label_smoothing=1.5 is no share")


class LabelCrossEntropy(Op):
    """Cross entropy per example of class numbers and logits, 0 where the label is ignored.

    y = −log softmax(x)[label] = log Σⱼ exp(xⱼ − max x) − (x[label] − max x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([0]), g.constant([[0.0, 0.0]])
    >>> g.output({}, LabelCrossEntropy()(y, x, name="y"))["y"].round(4)
    array([0.6931], dtype=float32)
    """

    namespace = "inner"  # of sparse_softmax_cross_entropy, which is the public one
    drawing = "math"
    autocast = Autocast.FREE
    dependence = Dependence("rows", -1)
    ignore_index: int | None = attr(None, doc="Label of examples that do not count.")

    def infer(self, labels: TensorSpec, logits: TensorSpec) -> TensorSpec:
        check_floating(self, logits)
        shape = SparseSoftmaxCrossEntropy().shape_of_each(labels, logits)
        return TensorSpec(shape, logits.dtype)

    def forward(self, labels: Any, logits: Any) -> Any:
        index, kept = class_numbers(labels, logits.shape[-1], self.ignore_index)
        w = widened(logits)
        x = w - w.max(-1, keepdims=True, initial=-np.inf)
        label = np.take_along_axis(x, index[..., None], -1)[..., 0]
        loss = np.log(np.exp(x).sum(-1)) - label
        return np.where(kept, loss, 0).astype(logits.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, LabelCrossEntropyGrad(ignore_index=self.ignore_index)(gs[0], *xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.integers(0, 4, 3), rng.standard_normal((3, 4))))
        yield Sample((rng.integers(0, 4, (2, 1)), rng.standard_normal((2, 1, 4)) * 3))
        yield Sample((np.array([-1, 3]), rng.standard_normal((2, 4))), {"ignore_index": -1})
        yield Sample((np.zeros(0, np.int64), np.zeros((0, 4))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)), TensorSpec((3, 4))), {}, "must be class numbers")


class LabelCrossEntropyGrad(Op):
    """Cotangent of the logits of class numbers.

    dxⱼ = g·(softmax(x)ⱼ − [j = label]), 0 where the label is ignored
    """

    namespace = "gradient"
    drawing = "math"
    autocast = Autocast.FREE
    ignore_index: int | None = attr(None, doc="Label of examples that do not count.")

    def infer(self, g: TensorSpec, labels: TensorSpec, logits: TensorSpec) -> TensorSpec:
        LabelCrossEntropy(ignore_index=self.ignore_index).infer(labels, logits)
        if g.rank != labels.rank or any(map(differ, g.shape, labels.shape)):
            raise ShapeError("the cotangent does not fit the labels", need=str(labels.shape))
        return logits.with_shape(logits.shape)

    def expand(self, g: Any, labels: Any, logits: Any) -> Any:
        slope = SoftmaxMinusOneHot(ignore_index=self.ignore_index)(labels, logits)
        return ExpandDims(axis=-1)(g) * slope

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in LabelCrossEntropy.samples(rng):
            g = rng.standard_normal(sample.inputs[0].shape)
            yield Sample((g, *sample.inputs), sample.attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        g, y, x = TensorSpec((2,)), TensorSpec((3,), "int64"), TensorSpec((3, 4))
        yield ErrorSample((g, y, x), {}, "does not fit the labels")


class SoftmaxMinusOneHot(LabelCrossEntropy):
    """Slope of the cross entropy of class numbers, 0 where the label is ignored.

    yⱼ = softmax(x)ⱼ − [j = label]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([0]), g.constant([[0.0, 0.0]])
    >>> g.output({}, SoftmaxMinusOneHot()(y, x, name="y"))["y"].tolist()
    [[-0.5, 0.5]]
    """

    namespace = "gradient"

    def infer(self, labels: TensorSpec, logits: TensorSpec) -> TensorSpec:
        super().infer(labels, logits)
        return logits

    def forward(self, labels: Any, logits: Any) -> Any:
        index, kept = class_numbers(labels, logits.shape[-1], self.ignore_index)
        y = Softmax().forward(widened(logits))
        at = index[..., None]
        np.put_along_axis(y, at, np.take_along_axis(y, at, -1) - 1, -1)
        y[~kept] = 0
        return y.astype(logits.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (labels, logits) = gs, xs
        p = Softmax()(logits)
        slope = (g - (g * p).sum(-1, keepdims=True)) * p
        if self.ignore_index is not None:
            slope = Where()(ExpandDims(axis=-1)(labels != self.ignore_index), slope, 0)
        return ZERO, slope
