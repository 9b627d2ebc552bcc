"""Numbers made of true and false positives and negatives, per class and averaged."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import TrainingError

Array = np.ndarray[Any, Any]
Average = str | None


class Outcomes(NamedTuple):
    """How often each class was rightly and wrongly said to be there or not, f64[K]."""

    tp: Array
    fp: Array
    fn: Array
    tn: Array


class Rates:
    """Precision, recall and their like, of outcomes per class.

    ``average`` is ``"macro"``, the mean over classes, ``"weighted"``, weighted by how many labels
    each has, ``"micro"``, of all outcomes together, or None for one number per class. What is 0/0
    counts as ``zero_division``; with NaN it is left out of means.
    """

    zero_division: float

    def _outcomes(self) -> Outcomes:
        """Return the outcomes of each class."""
        raise NotImplementedError

    def _counted(self) -> Array:
        """Return which classes enter means, b[K]."""
        raise NotImplementedError

    def names(self) -> list[str]:
        """Return the names of classes or outputs."""
        raise NotImplementedError

    def precision(self, average: Average = "macro") -> Any:
        """Return the share of positives that are right: TP / (TP + FP)."""
        o = self._outcomes()
        return self._ratio(o.tp, o.tp + o.fp, average)

    def recall(self, average: Average = "macro") -> Any:
        """Return the share of what is there that is found: TP / (TP + FN)."""
        o = self._outcomes()
        return self._ratio(o.tp, o.tp + o.fn, average)

    def f1(self, average: Average = "macro") -> Any:
        """Return the harmonic mean of precision and recall: 2·TP / (2·TP + FP + FN)."""
        return self.f_beta(1.0, average)

    def f_beta(self, beta: float = 1.0, average: Average = "macro") -> Any:
        """Return F_β, in which recall counts β times as much as precision.

        (1 + β²)·TP / ((1 + β²)·TP + β²·FN + FP)
        """
        o, b = self._outcomes(), beta**2
        return self._ratio((1 + b) * o.tp, (1 + b) * o.tp + b * o.fn + o.fp, average)

    def g_measure(self, average: Average = "macro") -> Any:
        """Return the geometric mean of precision and recall (Fowlkes & Mallows 1983)."""
        if average == "micro":
            return (self.precision("micro") * self.recall("micro")) ** 0.5
        return self._mean(np.sqrt(self.precision(None) * self.recall(None)), average)

    def false_positive_rate(self, average: Average = "macro") -> Any:
        """Return the share of what is not there that is said to be: FP / (FP + TN)."""
        o = self._outcomes()
        return self._ratio(o.fp, o.fp + o.tn, average)

    def false_negative_rate(self, average: Average = "macro") -> Any:
        """Return the share of what is there that is missed: FN / (FN + TP)."""
        o = self._outcomes()
        return self._ratio(o.fn, o.fn + o.tp, average)

    def false_alarm_rate(self, average: Average = "macro") -> Any:
        """Return the mean of false positive and false negative rate."""
        return (self.false_positive_rate(average) + self.false_negative_rate(average)) / 2

    def mcc(self, average: Average = "macro") -> Any:
        """Return Matthews' correlation of each class with all others; 0 where it is 0/0.

        (TP·TN − FP·FN) / √((TP + FP)(TP + FN)(TN + FP)(TN + FN))
        """
        o = self._outcomes()
        if average == "micro":
            o = Outcomes(*(part[self._counted()].sum(keepdims=True) for part in o))
        tp, fp, fn, tn = o
        below = np.sqrt(tp + fp) * np.sqrt(tp + fn) * np.sqrt(tn + fp) * np.sqrt(tn + fn)
        with np.errstate(invalid="ignore", divide="ignore"):
            each = np.where(below == 0, 0.0, (tp * tn - fp * fn) / below)
        return float(each[0]) if average == "micro" else self._mean(self._shown(each), average)

    def excluded(self, number: str = "precision") -> list[str]:
        """Return the names of classes that the mean of a number leaves out.

        Those that occur neither in labels nor in predictions, where classes exclude each other,
        and those for which the number is 0/0, where ``zero_division`` is NaN.
        """
        return [n for n, v in zip(self.names(), getattr(self, number)(None), strict=True) if v != v]

    def undefined(self, number: str) -> list[str]:
        """Return the names of classes for which ``precision`` or ``recall`` is 0/0."""
        o = self._outcomes()
        below = o.tp + {"precision": o.fp, "recall": o.fn}[number]
        empty = (below == 0) & self._counted()
        return [n for n, e in zip(self.names(), empty, strict=True) if e]

    def _ratio(self, above: Array, below: Array, average: Average) -> Any:
        if average == "micro":
            counted = self._counted()
            above, below = above[counted].sum(keepdims=True), below[counted].sum(keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            each = np.where(below == 0, self.zero_division, above / below)
        return float(each[0]) if average == "micro" else self._mean(self._shown(each), average)

    def _shown(self, each: Array) -> Array:
        """Return numbers with NaN for the classes that do not count."""
        return np.where(self._counted(), each, np.nan)

    def _mean(self, each: Array, average: Average) -> Any:
        """Return the mean of what is no NaN, or each number for None."""
        if average is None:
            return each
        if average not in ("macro", "weighted"):
            raise TrainingError(
                f"average={average!r} is not known",
                need="'macro', 'micro', 'weighted', or None for each class",
            )
        o = self._outcomes()
        weights = o.tp + o.fn if average == "weighted" else np.ones(len(each))
        weights = np.where(np.isnan(each), 0.0, weights)
        total = weights.sum()
        return float(np.nansum(each * weights) / total) if total else float("nan")
