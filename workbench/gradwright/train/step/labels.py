"""Labels: whether the first batch holds labels that a loss can be meant for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ...data.batches import Feeds
from ...errors import TrainingError
from ...graph import Node, Tensor
from ...graph.walk import ancestors
from ...ops.losses.loss import _Loss
from ...ops.losses.swapped import source


def refuse_labels(losses: Iterable[Tensor], feeds: Feeds) -> None:
    """Raise TrainingError where a loss of yes and no is fed whole numbers beside 0 and 1.

    Those are class numbers, or -1 and 1: the loss would have no least value. Shares, those that are
    smoothed beyond 0 and 1 too, and labels that have weights say nothing.
    """
    for node, labels in _yes_or_no(losses):
        given = feeds.get(labels)
        if given is None:
            continue
        array = np.asarray(given)
        beyond = array[(array < 0) | (array > 1)]
        if not len(beyond) or (array != np.round(array)).any():
            continue
        found = ", ".join(f"{v:g}" for v in np.unique(array)[:4])
        raise TrainingError(
            f"the labels of {node.name!r}, fed as {labels.name!r}, are {found}",
            need="0 and 1, or shares between them",
            hint=f"({labels.name} + 1) / 2"
            if (np.abs(array) == 1).all()
            else "gw.loss.sparse_softmax_cross_entropy(labels, logits) takes class numbers",
        )


def _yes_or_no(losses: Iterable[Tensor]) -> Iterator[tuple[Node, Tensor]]:
    """Yield the losses of labels 0 and 1 that have no weights, with what is fed as labels."""
    for node in ancestors(losses):
        if isinstance(node.op, _Loss) and node.op.labels_are == "bits" and len(node.inputs) == 2:
            labels: Any = source(node.inputs[0])
            if labels.kind == "placeholder":
                yield node, labels
