"""Scores of yes and no, counted per distinct score: what all thresholds say is in these counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
NAN = float("nan")


class RocCurve(NamedTuple):
    """Rates at falling thresholds; a score counts as yes from the threshold on.

    >>> import gradwright as gw
    >>> roc = gw.evaluation.ROC().add([1, 0, 1, 0], [0.9, 0.6, 0.4, 0.1])
    >>> curve = roc.roc_curve()
    >>> curve.true_positive_rate.tolist(), curve.thresholds.tolist()
    ([0.0, 0.5, 0.5, 1.0, 1.0], [inf, 0.9, 0.6, 0.4, 0.1])
    """

    false_positive_rate: Array
    true_positive_rate: Array
    thresholds: Array
    """The first is infinite: nothing is said to be there."""


class PrecisionRecallCurve(NamedTuple):
    """Precision and recall at rising thresholds, and at last (1, 0), which has none.

    >>> import gradwright as gw
    >>> roc = gw.evaluation.ROC().add([1, 0, 1, 0], [0.9, 0.6, 0.4, 0.1])
    >>> curve = roc.precision_recall_curve()
    >>> curve.recall.tolist(), curve.thresholds.tolist()
    ([1.0, 1.0, 0.5, 0.5, 0.0], [0.1, 0.4, 0.6, 0.9])
    """

    precision: Array
    recall: Array
    thresholds: Array


class Scores(NamedTuple):
    """How many positives and negatives have each score; scores rise.

    Whatever order examples come in, what is counted of them is the same.
    """

    values: Array
    positives: Array
    negatives: Array

    def auroc(self) -> float:
        """Return the chance that a positive scores higher than a negative; ties count half.

        Σᵢ nᵢ·(P_{>i} + pᵢ/2) / (P·N), the area under the ROC curve (Hanley & McNeil 1982).

        >>> counted([0.1, 0.4, 0.35, 0.8], [False, False, True, True]).auroc()
        0.75
        """
        p, n = self.positives.astype(np.float64), self.negatives.astype(np.float64)
        above = p.sum() - np.cumsum(p)
        pairs = p.sum() * n.sum()
        return float(n @ (above + p / 2) / pairs) if pairs else NAN

    def auprc(self) -> float:
        """Return the average precision: Σᵢ (Rᵢ − Rᵢ₋₁)·Pᵢ over falling thresholds.

        >>> round(counted([0.1, 0.4, 0.35, 0.8], [False, False, True, True]).auprc(), 4)
        0.8333
        """
        precision, recall, _ = self.precision_recall()
        return float(-np.sum(np.diff(recall) * precision[:-1]))

    def roc(self) -> RocCurve:
        """Return the ROC curve; NaN where there are no positives, or no negatives.

        >>> counted([0.1, 0.8], [False, True]).roc().thresholds.tolist()
        [inf, 0.8, 0.1]
        """
        hits, alarms = (
            np.concatenate([[0.0], np.cumsum(c[::-1], dtype=np.float64)])
            for c in (self.positives, self.negatives)
        )
        with np.errstate(invalid="ignore"):
            rates = alarms / alarms[-1], hits / hits[-1]
        return RocCurve(*rates, np.concatenate([[np.inf], self.values[::-1]]))

    def precision_recall(self) -> PrecisionRecallCurve:
        """Return the precision-recall curve; NaN where there are no positives.

        >>> counted([0.1, 0.8], [False, True]).precision_recall().precision.tolist()
        [0.5, 1.0, 1.0]
        """
        hits = np.cumsum(self.positives[::-1], dtype=np.float64)[::-1]
        said = hits + np.cumsum(self.negatives[::-1], dtype=np.float64)[::-1]
        with np.errstate(invalid="ignore"):
            recall = hits / self.positives.sum()
        ends = [1.0], [0.0 if self.positives.any() else NAN]
        return PrecisionRecallCurve(
            np.concatenate([hits / said, ends[0]]), np.concatenate([recall, ends[1]]), self.values
        )


def counted(values: Any, positive: Any) -> Scores:
    """Return scores and their labels as counts per distinct score.

    >>> counted([0.5, 0.25, 0.5], [True, False, False]).positives.tolist()
    [0, 1]
    """
    found, where = np.unique(np.asarray(values, np.float64) + 0.0, return_inverse=True)  # no -0.0
    truth, where, n = np.asarray(positive, bool), where.ravel(), len(found)
    hits = np.bincount(where[truth], minlength=n)
    return Scores(found, hits, np.bincount(where, minlength=n) - hits)


Parts = tuple[Scores, ...]
"""Counts that are to be added up, large before small."""


def joined(parts: Sequence[Scores]) -> Scores:
    """Return the counts of all parts together.

    >>> a, b = counted([0.5], [True]), counted([0.5, 0.75], [False, True])
    >>> joined([a, b]).negatives.tolist()
    [1, 0]
    """
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return counted([], [])
    values = np.concatenate([part.values for part in parts])
    found, where = np.unique(values, return_inverse=True)
    order = where.ravel()
    sums = []
    for k in (1, 2):
        total = np.zeros(len(found), np.int64)
        np.add.at(total, order, np.concatenate([part[k] for part in parts]))
        sums.append(total)
    return Scores(found, *sums)


def appended(parts: Parts, more: Parts) -> Parts:
    """Return parts with more of them; those that are not smaller than what follows are joined.

    So there are as many parts as the number of scores has bits, and adding n scores one by one
    costs n·log n.

    >>> parts = ()
    >>> for i in range(100):
    ...     parts = appended(parts, (counted([i], [True]),))
    >>> [len(part.values) for part in parts]
    [64, 32, 4]
    """
    held = list(parts)
    for part in more:
        while held and len(held[-1].values) <= len(part.values):
            part = joined([held.pop(), part])
        held.append(part)
    return tuple(held)
