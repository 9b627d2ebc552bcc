"""Hits: how often a classifier that a trainer trains is right; a method of trainers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ShapeError, TrainingError
from ..evaluation.predict import predict
from ..graph import Tensor, ancestors
from ..graph.walk import placeholders
from ..ops.losses.classes import MultiMargin, Nll
from ..ops.losses.cross_entropy import SoftmaxCrossEntropy, SparseSoftmaxCrossEntropy
from ..spec import normalize_axis

if TYPE_CHECKING:
    from .trainer import Trainer

Array = np.ndarray[Any, Any]
OF_CLASSES = SparseSoftmaxCrossEntropy | SoftmaxCrossEntropy | Nll | MultiMargin
"""Losses of classifiers: labels first, then the scores of classes."""


def accuracy(
    trainer: Trainer,
    features: Any,
    labels: Any,
    *,
    scores: Tensor | str | None = None,
    batch_size: int = 256,
) -> float:
    """Return the share of labels that have the highest score, in eval mode: a number, 0 to 1.

    The scores are by default those that the loss is taken of, and labels that it ignores do not
    count. Where the graph takes batches of one size, the last one is padded, and what is computed
    of the padding left out. Averages of weights stand in as in ``evaluate``.

    Args:
        trainer: what trains the classifier.
        features: an array, several in the order of their placeholders, or arrays by name.
        labels: class numbers, or one-hot rows.
        scores: a tensor or a name, where the loss does not tell which.
        batch_size: examples at a time.

    Raises TrainingError where the loss is none of classes, or of several, and as ``gw.predict``.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x, t = g.placeholder("x", (None, 2)), g.placeholder("t", (None,), "int64")
    >>> loss = gw.loss.sparse_softmax_cross_entropy(t, x @ g.variable("w", init=np.eye(2)))
    >>> trainer = gw.Trainer(g, loss)
    >>> trainer.accuracy([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]], [0, 1, 1])
    0.6666666666666666
    """
    graph = trainer.graph
    found, axis, ignored = _scores(trainer)
    if scores is not None:
        found, axis = graph[scores] if isinstance(scores, str) else scores, -1
    if found is None:
        raise TrainingError(
            f"the loss {trainer.loss.name!r} does not tell the scores of classes",
            need="one loss of classes, such as sparse_softmax_cross_entropy",
            hint="scores=logits",
        )
    needed = placeholders([found])
    data, n, size = _whole(needed, _named(needed, features), batch_size)
    with trainer.parts.weights.seen(None):
        rows = predict(trainer, {"scores": found}, data, batch_size=size, progress=False)["scores"]
    best, given = rows[:n].argmax(axis), np.asarray(labels)
    if given.ndim == found.rank:
        given = given.argmax(axis)
    if given.shape != best.shape:
        raise ShapeError(
            f"labels of shape {list(given.shape)} for scores of {list(rows[:n].shape)}",
            need=f"class numbers {list(best.shape)}, or one-hot rows",
        )
    counted = np.ones(given.shape, bool) if ignored is None else given != ignored
    return float((best == given)[counted].mean()) if counted.any() else float("nan")


def _scores(trainer: Trainer) -> tuple[Tensor | None, int, int | None]:
    """Return what losses of classes are taken of, their axis of classes, and the ignored label."""
    nodes = [n for n in ancestors(trainer.losses) if isinstance(n.op, OF_CLASSES)]
    found = {n.inputs[1]: n.op for n in nodes}
    if len(found) != 1:
        return None, -1, None
    ((scores, op),) = found.items()
    assert scores is not None
    axis: int = op.attributes()["axis"]
    return scores, normalize_axis(axis, scores.rank), op.attributes().get("ignore_index")


def _named(needed: list[Tensor], features: Any) -> dict[str, Array]:
    """Return features by placeholder."""
    if isinstance(features, Mapping):
        return {str(getattr(k, "name", k)): np.asarray(v) for k, v in features.items()}
    parts = features if isinstance(features, tuple) else (features,)
    if len(parts) != len(needed):
        raise TrainingError(
            f"{len(parts)} arrays of features, and the scores are made of {len(needed)}",
            need=", ".join(t.name for t in needed),
            hint="arrays by name",
        )
    return {t.name: np.asarray(part) for t, part in zip(needed, parts, strict=True)}


def _whole(
    needed: list[Tensor], data: dict[str, Array], batch_size: int
) -> tuple[dict[str, Array], int, int]:
    """Return features padded to whole batches where these have one size, how many, and the size."""
    rows = {t.name: t.shape[0] for t in needed if t.rank and t.name in data}
    n = max((len(data[name]) for name in rows), default=1)
    fixed = [size for size in rows.values() if isinstance(size, int)]
    if not fixed:
        return data, n, batch_size
    size, padded = fixed[0], dict(data)
    for name in rows:
        a = data[name]
        padded[name] = np.concatenate([a, np.zeros((-n % size, *a.shape[1:]), a.dtype)])
    return padded, n, size
