"""Metrics: graph tensors that say how good predictions are, and what an epoch makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import GraphError, ShapeError
from ..graph import Tensor
from ..ops.core.choice import Maximum
from ..ops.core.comparison import Equal
from ..ops.core.movement import Cast, ExpandDims
from ..ops.core.quantifiers import AnyTrue, Argmax
from ..ops.core.sorting import TopK
from ..spec import differ, kind

Array = np.ndarray[Any, Any]
_FLOAT = Cast(dtype="float32")


class Metric:
    """What a trainer makes of the batches of an epoch: fetch, add up, conclude.

    A scalar tensor is averaged over what it is a mean over, examples or the tokens that count,
    which is right for a mean such as accuracy. Derive from this class where the mean of batches is
    not the value of the whole, as with F1.

    >>> import gradwright as gw
    >>> class Largest(gw.train.Metric):
    ...     def __init__(self, tensor):
    ...         self.fetches = [tensor]
    ...     def start(self):
    ...         return float("-inf")
    ...     def add(self, total, arrays, rows):
    ...         return max(total, float(arrays[0].max()))
    ...     def result(self, total):
    ...         return total
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None,)) * g.variable("w", (), init=2.0)
    >>> trainer = gw.Trainer(g, gw.mean(y * y), metrics={"largest": Largest(y)})
    >>> trainer.evaluate({"x": [1.0, 5.0, 3.0]}, batch_size=2)["largest"]
    10.0
    """

    fetches: Sequence[Tensor] = ()
    """Tensors whose values ``add`` gets for each batch."""

    def start(self) -> Any:
        """Return the total of no batch at all: numbers or an array."""
        raise NotImplementedError

    def add(self, total: Any, arrays: Sequence[Array], rows: int) -> Any:
        """Return the total with one more batch of ``rows`` examples; ``total`` stays as it is."""
        raise NotImplementedError

    def result(self, total: Any) -> float:
        """Return the metric that a total stands for; NaN if it stands for nothing."""
        raise NotImplementedError


class Mean(Metric):
    """The mean of a scalar tensor over the examples of all batches.

    m = Σ rows·value / Σ rows; a trainer gives for rows what the scalar itself divides by

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> mean = gw.metrics.Mean(g.placeholder("loss", ()))
    >>> total = mean.add(mean.add(mean.start(), [3.0], rows=1), [6.0], rows=2)
    >>> mean.result(total)
    5.0
    """

    def __init__(self, tensor: Tensor) -> None:
        if tensor.rank or kind(tensor.dtype) == "c":
            raise ShapeError(
                f"{tensor.name!r} is {tensor.spec}, so it is no metric",
                need="a real scalar",
                hint=f"gw.mean({tensor.name.rpartition('/')[2].replace(':', '_')})",
            )
        self.fetches = (tensor,)

    def start(self) -> Any:
        """Return the sum, of which there is none yet, and what it weighs."""
        return float("nan"), 0.0

    def add(self, total: Any, arrays: Sequence[Array], rows: float) -> Any:
        """Add a batch, weighted by its examples, or by what ``rows`` says it weighs."""
        whole, weight = total if type(total) is tuple else map(float, total)
        value = float(arrays[0])
        if not rows:  # its value stands for nothing, unless there is nothing else
            return (whole if weight else value), weight
        return (whole if weight else 0.0) + rows * value, weight + rows

    def result(self, total: Any) -> float:
        """Return the mean."""
        return float(total[0]) / (float(total[1]) or 1.0)


class MacroF1(Metric):
    """F1 of each class, averaged over the classes that occur in labels or predictions.

    F1ₖ = 2·TPₖ / (2·TPₖ + FPₖ + FNₖ)

    Args:
        labels: class numbers, i64[B] or i64[B, T].
        predictions: scores or probabilities, f32[B, classes] or f32[B, T, classes].
        ignore_index: label of what does not count, such as the padding of sequences.
        mask: what counts, of the labels' shape: bool, or numbers that are not 0.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, p = g.placeholder("t", (None,), "int64"), g.placeholder("p", (None, 2))
    >>> loss = gw.mean(p * g.variable("w", ()))
    >>> f1 = gw.metrics.MacroF1(t, p, ignore_index=-1)
    >>> trainer = gw.Trainer(g, loss, metrics={"f1": f1})
    >>> data = {"t": [0, 0, 1, -1], "p": [[2, 1], [1, 2], [1, 2], [1, 2]]}
    >>> round(trainer.evaluate(data, batch_size=2)["f1"], 4)
    0.6667
    """

    def __init__(
        self,
        labels: Tensor,
        predictions: Tensor,
        *,
        ignore_index: int | None = None,
        mask: Tensor | None = None,
    ) -> None:
        _check_classes(labels, predictions)
        classes = predictions.shape[-1]
        if not isinstance(classes, int):
            raise ShapeError(f"{predictions.name!r} has an unknown number of classes: {classes}")
        self._classes = classes
        with _scope(predictions, "macro_f1"):
            counted = _counted(labels, ignore_index, mask)
            self.fetches = (
                labels,
                Argmax(axis=-1)(predictions),
                *(() if counted is None else (counted,)),
            )

    def start(self) -> Any:
        """Return an empty confusion matrix, labels by predictions."""
        return np.zeros((self._classes, self._classes))

    def add(self, total: Any, arrays: Sequence[Array], rows: int) -> Any:
        """Count a batch."""
        counts = np.array(total, np.float64)
        labels, predictions, *counted = (np.ravel(a) for a in arrays)
        shown = counted[0] if counted else slice(None)
        np.add.at(counts, (labels[shown], predictions[shown]), 1.0)
        return counts

    def result(self, total: Any) -> float:
        """Return the mean of the classes' F1."""
        counts = np.asarray(total)
        ends = counts.sum(0) + counts.sum(1)
        met = ends > 0
        return float(np.mean(2 * np.diag(counts)[met] / ends[met])) if met.any() else float("nan")


class Accuracy(Metric):
    """The share of all labels of an epoch that are met, whatever their number in each batch.

    m = Σ hits / Σ labels that count; NaN where none does

    Args:
        labels: class numbers, i64[B] or i64[B, T], or one-hot rows.
        predictions: scores, logits or probabilities, f32[B, classes] or f32[B, T, classes].
        ignore_index: label of what does not count, such as the padding of sequences.
        mask: what counts, of the labels' shape: bool, or numbers that are not 0.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, p = g.placeholder("t", (None, 2), "int64"), g.placeholder("p", (None, 2, 3))
    >>> loss = gw.mean(p * g.variable("w", ()))
    >>> accuracy = gw.metrics.Accuracy(t, p, ignore_index=-100)
    >>> trainer = gw.Trainer(g, loss, metrics={"accuracy": accuracy})
    >>> data = {"t": [[0, 0], [1, -100]], "p": [[[3, 1, 2], [3, 1, 2]], [[3, 1, 2], [3, 1, 2]]]}
    >>> round(trainer.evaluate(data, batch_size=1)["accuracy"], 4)
    0.6667
    """

    def __init__(
        self,
        labels: Tensor,
        predictions: Tensor,
        *,
        ignore_index: int | None = None,
        mask: Tensor | None = None,
    ) -> None:
        with _scope(predictions, "accuracy"):
            self.fetches = _counts(*_hits(labels, predictions, ignore_index, mask))

    def start(self) -> Any:
        """Return the numbers of hits and of labels."""
        return 0.0, 0.0

    def add(self, total: Any, arrays: Sequence[Array], rows: int) -> Any:
        """Count a batch."""
        return float(total[0]) + float(arrays[0]), float(total[1]) + float(arrays[1])

    def result(self, total: Any) -> float:
        """Return the share of hits."""
        return float(total[0]) / float(total[1]) if total[1] else float("nan")


def accuracy(
    labels: Tensor,
    predictions: Tensor,
    name: str = "accuracy",
    *,
    ignore_index: int | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the share of labels that have the highest score, f32[].

    y = mean(argmax p = t) over what counts; 0 where nothing does

    A trainer averages it over batches by the labels that count in each, as with all metrics that
    divide by what a mask shows.

    Args:
        labels: class numbers, i64[B] or i64[B, T], or one-hot rows, [B, classes].
        predictions: scores, logits or probabilities, f32[B, classes] or f32[B, T, classes].
        name: name of the scope that holds the nodes.
        ignore_index: label of what does not count, such as the padding of sequences.
        mask: what counts, of the labels' shape: bool, or numbers that are not 0.

    Raises ShapeError if labels are neither, or the mask does not fit them.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, p = g.placeholder("t", (None,), "int64"), g.placeholder("p", (None, 3))
    >>> a = gw.metrics.accuracy(t, p, ignore_index=-100)
    >>> g.output({"t": [0, 1, -100], "p": [[3, 1, 2], [3, 1, 2], [3, 1, 2]]}, a)[a.name].item()
    0.5
    """
    with _scope(predictions, name):
        return _share(*_hits(labels, predictions, ignore_index, mask))


def binary_accuracy(
    labels: Tensor,
    predictions: Tensor,
    threshold: float = 0.5,
    name: str = "binary_accuracy",
    *,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the share of elements on the labelled side of ``threshold``, f32[].

    y = mean((p > threshold) = (t > ½)) over what counts; 0 where nothing does

    ``mask`` says what counts, of the labels' shape: bool, or numbers that are not 0. Raises
    ShapeError for one that does not fit.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, p = g.placeholder("t", (None,)), g.placeholder("p", (None,))
    >>> a = gw.metrics.binary_accuracy(t, p)
    >>> g.output({"t": [0, 1, 1, 1], "p": [0.2, 0.9, 0.4, 0.6]}, a)[a.name].item()
    0.75
    """
    with _scope(predictions, name):
        half = labels if labels.dtype.kind == "b" else labels > 0.5
        return _share(Equal()(predictions > threshold, half), _counted(labels, None, mask))


def top_k_accuracy(
    labels: Tensor,
    predictions: Tensor,
    k: int = 5,
    name: str = "top_k_accuracy",
    *,
    ignore_index: int | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the share of examples whose labelled class is among the ``k`` highest scores, f32[].

    y = mean(t ∈ top-k p) over what counts; 0 where nothing does

    ``ignore_index`` and ``mask`` are those of `accuracy`.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, p = g.placeholder("t", (None,), "int64"), g.placeholder("p", (None, 3))
    >>> a = gw.metrics.top_k_accuracy(t, p, k=2)
    >>> g.output({"t": [0, 1], "p": [[3, 1, 2], [3, 1, 2]]}, a)[a.name].item()
    0.5
    """
    _check_classes(labels, predictions)
    with _scope(predictions, name):
        _, best = TopK(k=k)(predictions)
        hits = AnyTrue(axis=-1)(Equal()(best, ExpandDims(axis=-1)(labels)))
        return _share(hits, _counted(labels, ignore_index, mask))


def _check_classes(labels: Tensor, predictions: Tensor) -> None:
    shape = predictions.shape[:-1]
    fits = labels.rank == predictions.rank - 1 and not any(map(differ, labels.shape, shape))
    if not fits or kind(labels.dtype) not in "iu":
        raise ShapeError(
            "labels do not fit the predictions",
            facts=[f"labels : {labels.spec}", f"predictions : {predictions.spec}"],
            need="class numbers i64[B] or i64[B, T], or one-hot rows; scores f32[..., classes]",
        )


def _hits(
    labels: Tensor, predictions: Tensor, ignore_index: int | None, mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return where the highest score is the labelled one, and what counts; None: all."""
    if labels.rank == predictions.rank and labels.rank:
        labels = Argmax(axis=-1)(labels)
    _check_classes(labels, predictions)
    hits: Tensor = Equal()(Argmax(axis=-1)(predictions), labels)
    return hits, _counted(labels, ignore_index, mask)


def _counted(labels: Tensor, ignore_index: int | None, mask: Tensor | None) -> Tensor | None:
    """Return which labels count; None: all."""
    counted = None if ignore_index is None else labels != ignore_index
    if mask is None:
        return counted
    if mask.rank != labels.rank or any(map(differ, mask.shape, labels.shape)):
        raise ShapeError(
            "the mask does not fit the labels",
            facts=[f"labels : {labels.spec}", f"mask : {mask.spec}"],
            need="one element per label",
        )
    shown = mask if kind(mask.dtype) == "b" else mask != 0
    return shown if counted is None else counted & shown


def _counts(hits: Tensor, counted: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the numbers of hits and of labels among what counts, exactly."""
    counted = Equal()(hits, hits) if counted is None else counted
    both = hits & counted, counted
    met, all_of_them = (Cast(dtype="int64")(of).sum() for of in both)
    return met, all_of_them


def _scope(tensor: Any, name: str) -> Any:
    if not isinstance(tensor, Tensor):
        raise GraphError(f"predictions are a {type(tensor).__name__}", need="a tensor of the graph")
    return tensor.graph.scope(name)


def _share(hits: Tensor, counted: Tensor | None) -> Tensor:
    """Return the share of hits among what counts."""
    if counted is None:
        share: Tensor = _FLOAT(hits).mean()
        return share
    met, all_of_them = _counts(hits, counted)
    share = _FLOAT(met) / _FLOAT(Maximum()(all_of_them, 1))
    return share
