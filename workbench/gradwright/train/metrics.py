"""Metrics: graph tensors that say how good predictions are, and what an epoch makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import GraphError, ShapeError
from ..graph import Tensor
from ..op import find_op
from ..spec import differ, kind

Array = np.ndarray[Any, Any]


class Metric:
    """What a trainer makes of the batches of an epoch: fetch, add up, conclude.

    A scalar tensor is averaged over examples, which is right for a mean such as accuracy. Derive
    from this class where the mean of batches is not the value of the whole, as with F1.

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

    m = Σ rows·value / Σ rows

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
        """Return sum and number of examples."""
        return 0.0, 0.0

    def add(self, total: Any, arrays: Sequence[Array], rows: int) -> Any:
        """Add a batch, weighted by its examples."""
        return float(total[0]) + rows * float(arrays[0]), float(total[1]) + rows

    def result(self, total: Any) -> float:
        """Return the mean."""
        return float(total[0]) / float(total[1]) if total[1] else float("nan")


class MacroF1(Metric):
    """F1 of each class, averaged over the classes that occur in labels or predictions.

    F1ₖ = 2·TPₖ / (2·TPₖ + FPₖ + FNₖ)

    Args:
        labels: class numbers, i64[B].
        predictions: scores or probabilities, f32[B, classes].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, p = g.placeholder("t", (None,), "int64"), g.placeholder("p", (None, 2))
    >>> loss = gw.mean(p * g.variable("w", ()))
    >>> trainer = gw.Trainer(g, loss, metrics={"f1": gw.metrics.MacroF1(t, p)})
    >>> data = {"t": [0, 0, 1], "p": [[2, 1], [1, 2], [1, 2]]}
    >>> round(trainer.evaluate(data, batch_size=2)["f1"], 4)
    0.6667
    """

    def __init__(self, labels: Tensor, predictions: Tensor) -> None:
        _check_classes(labels, predictions)
        classes = predictions.shape[-1]
        if not isinstance(classes, int):
            raise ShapeError(f"{predictions.name!r} has an unknown number of classes: {classes}")
        self._classes = classes
        self.fetches = labels, _op("argmax", predictions, axis=-1)

    def start(self) -> Any:
        """Return an empty confusion matrix, labels by predictions."""
        return np.zeros((self._classes, self._classes))

    def add(self, total: Any, arrays: Sequence[Array], rows: int) -> Any:
        """Count a batch."""
        counts = np.array(total, np.float64)
        np.add.at(counts, tuple(np.ravel(a) for a in arrays), 1.0)
        return counts

    def result(self, total: Any) -> float:
        """Return the mean of the classes' F1."""
        counts = np.asarray(total)
        ends = counts.sum(0) + counts.sum(1)
        met = ends > 0
        return float(np.mean(2 * np.diag(counts)[met] / ends[met])) if met.any() else float("nan")


def accuracy(labels: Tensor, predictions: Tensor, name: str = "accuracy") -> Tensor:
    """Return the share of examples whose highest score is the labelled class, f32[].

    y = mean(argmax p = t)

    Args:
        labels: class numbers, i64[B], or one-hot rows, [B, classes].
        predictions: scores, logits or probabilities, f32[B, classes].
        name: name of the scope that holds the nodes.

    Raises ShapeError if labels are neither.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, p = g.placeholder("t", (None,), "int64"), g.placeholder("p", (None, 3))
    >>> a = gw.metrics.accuracy(t, p)
    >>> g.output({"t": [0, 1], "p": [[3, 1, 2], [3, 1, 2]]}, a)[a.name].item()
    0.5
    """
    with _scope(predictions, name):
        if labels.rank == predictions.rank and labels.rank:
            labels = _op("argmax", labels, axis=-1)
        _check_classes(labels, predictions)
        return _share(_op("equal", _op("argmax", predictions, axis=-1), labels))


def binary_accuracy(
    labels: Tensor, predictions: Tensor, threshold: float = 0.5, name: str = "binary_accuracy"
) -> Tensor:
    """Return the share of elements on the labelled side of ``threshold``, f32[].

    y = mean((p > threshold) = (t > ½))

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, p = g.placeholder("t", (None,)), g.placeholder("p", (None,))
    >>> a = gw.metrics.binary_accuracy(t, p)
    >>> g.output({"t": [0, 1, 1, 1], "p": [0.2, 0.9, 0.4, 0.6]}, a)[a.name].item()
    0.75
    """
    with _scope(predictions, name):
        half = labels if labels.dtype.kind == "b" else _op("greater", labels, 0.5)
        return _share(_op("equal", _op("greater", predictions, threshold), half))


def top_k_accuracy(
    labels: Tensor, predictions: Tensor, k: int = 5, name: str = "top_k_accuracy"
) -> Tensor:
    """Return the share of examples whose labelled class is among the ``k`` highest scores, f32[].

    y = mean(t ∈ top-k p)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, p = g.placeholder("t", (None,), "int64"), g.placeholder("p", (None, 3))
    >>> a = gw.metrics.top_k_accuracy(t, p, k=2)
    >>> g.output({"t": [0, 1], "p": [[3, 1, 2], [3, 1, 2]]}, a)[a.name].item()
    0.5
    """
    _check_classes(labels, predictions)
    with _scope(predictions, name):
        _, best = _op("top_k", predictions, k=k)
        hits = _op("equal", best, _op("expand_dims", labels, axis=-1))
        return _share(_op("any", hits, axis=-1))


def _check_classes(labels: Tensor, predictions: Tensor) -> None:
    shape = predictions.shape[:-1]
    fits = labels.rank == predictions.rank - 1 and not any(map(differ, labels.shape, shape))
    if not fits or kind(labels.dtype) not in "iu":
        raise ShapeError(
            "labels do not fit the predictions",
            facts=[f"labels : {labels.spec}", f"predictions : {predictions.spec}"],
            need="class numbers i64[B], or one-hot rows, for scores f32[B, classes]",
        )


def _scope(tensor: Any, name: str) -> Any:
    if not isinstance(tensor, Tensor):
        raise GraphError(f"predictions are a {type(tensor).__name__}", need="a tensor of the graph")
    return tensor.graph.scope(name)


def _op(op_name: str, *inputs: Any, **attrs: Any) -> Any:
    return find_op(op_name)(**attrs)(*inputs)


def _share(hits: Tensor) -> Tensor:
    share: Tensor = _op("mean", _op("cast", hits, dtype="float32"))
    return share
