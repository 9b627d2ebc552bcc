"""ROC: how well scores tell yes from no, over all thresholds."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import TrainingError
from ..words.tables import Table
from .base import Evaluation, State, text_of
from .inputs import Array, class_rows, column_rows, zero_or_one
from .scores import (
    Parts,
    PrecisionRecallCurve,
    RocCurve,
    Scores,
    appended,
    counted,
    joined,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

NAN = float("nan")


@dataclass(eq=False, repr=False)
class _Curves(Evaluation, saved=False):
    """Curves of one or several columns of scores."""

    steps: int | None = None
    """None keeps every distinct score, exactly; else scores are rounded down to 1/steps."""

    numbers = ("auroc", "auprc")

    def __post_init__(self) -> None:
        if self.steps is not None and (not isinstance(self.steps, int) or self.steps < 1):
            raise TrainingError(f"steps={self.steps!r}", need="None or an int of at least 1")

    def _need(self) -> str:
        return f"in [0, 1], which steps={self.steps} divides" if self.steps else "finite"

    @property
    def _bounds(self) -> tuple[float, float] | None:
        return (0.0, 1.0) if self.steps else None

    def _counted_columns(self, truth: Array, scores: Array, keep: Array, unusable: Array) -> State:
        """Return the counts of the elements of each column that count."""
        if self.steps:
            levels = np.arange(self.steps + 1) / self.steps
            found = np.searchsorted(levels, scores, side="right") - 1
            scores = levels[np.clip(found, 0, self.steps)]  # what is outside does not count
        columns = [
            (counted(scores[keep[:, k], k], truth[keep[:, k], k]),) for k in range(scores.shape[1])
        ]
        return {"count": np.count_nonzero(keep, axis=0), "unusable": unusable, "columns": columns}

    def _join(self, a: State, b: State) -> State:
        if not a or not b:
            return a or b
        if len(a["columns"]) != len(b["columns"]):
            raise TrainingError(
                f"{type(self).__name__} has seen {len(a['columns'])} columns of scores and now "
                f"{len(b['columns'])}",
                need="as many as before",
            )
        pairs = zip(a["columns"], b["columns"], strict=True)
        sums = {name: a[name] + b[name] for name in ("count", "unusable")}
        return {**sums, "columns": [appended(x, y) for x, y in pairs]}

    def _arrays(self) -> dict[str, Array]:
        if not self._state:
            return {}
        found = {name: self._state[name] for name in ("count", "unusable")}
        for k, scores in enumerate(self._columns()):
            found |= {f"{name}/{k}": array for name, array in scores._asdict().items()}
        return found

    def _from_arrays(self, arrays: dict[str, Array]) -> State:
        n = len(arrays["count"])
        columns: list[Parts] = [
            (Scores(*(arrays[f"{name}/{k}"] for name in Scores._fields)),) for k in range(n)
        ]
        return {"count": arrays["count"], "unusable": arrays["unusable"], "columns": columns}

    def _columns(self) -> list[Scores]:
        """Return the counts of each column, and keep them joined."""
        if not self._state:
            return []
        whole = [joined(parts) for parts in self._state["columns"]]
        self._state = {**self._state, "columns": [(scores,) for scores in whole]}
        return whole

    def _lacks(self, scores: Scores, both: bool) -> str:
        """Say what a number misses that needs positives, and ``both`` negatives, too."""
        if not scores.positives.any():
            return "every label is 0" if len(scores.values) else "nothing has been seen"
        return "every label is 1" if both and not scores.negatives.any() else ""

    def _draw(self, curves: dict[str, Scores]) -> go.Figure:
        """Return a figure of both curves of each column."""
        from plotly.subplots import make_subplots

        figure = make_subplots(rows=1, cols=2, subplot_titles=("ROC", "precision and recall"))
        colors = ("#2171b5", "#d94801", "#238b45", "#6a51a3", "#cb181d", "#737373", "#dd3497")
        for number, (name, scores) in enumerate(curves.items()):
            roc, pr = _thin(scores.roc()), _thin(scores.precision_recall())
            said = html.escape(name, quote=False)
            style = {
                "mode": "lines",
                "legendgroup": str(number),
                "line": {"color": colors[number % len(colors)]},
            }
            area, average = text_of(scores.auroc()), text_of(scores.auprc())
            figure.add_scatter(x=roc[0], y=roc[1], name=f"{said} AUROC {area}", **style)
            style["line"] = {**style["line"], "shape": "hv"}  # type: ignore[dict-item]
            label = f"{said} AUPRC {average}"
            figure.add_scatter(x=pr[1], y=pr[0], name=label, row=1, col=2, **style)
        chance = {"dash": "dot", "color": "#bdbdbd"}
        figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line=chance, showlegend=False)
        figure.update_xaxes(title="false positive rate", range=[0, 1.01], row=1, col=1)
        figure.update_yaxes(title="true positive rate", range=[0, 1.01], row=1, col=1)
        figure.update_xaxes(title="recall", range=[0, 1.01], row=1, col=2)
        figure.update_yaxes(title="precision", range=[0, 1.01], row=1, col=2)
        figure.update_layout(template="plotly_white", title=self._title())
        return figure


@dataclass(eq=False, repr=False)
class ROC(_Curves):
    """How well one score tells yes from no, over all thresholds.

    Labels are 0 or 1; scores have their shape, any shape, with a mask of it or of its first axes.
    Scores of two classes, [..., 2], go with class numbers, [...]: that of class 1 counts. One-hot
    labels are for ``ROCMultiClass``; here their elements would all count.

    Args:
        steps: None is exact, and keeps each distinct score with two counts, 24 bytes. With a number
            scores must be in [0, 1] and are rounded down to multiples of 1/steps: the curve has
            these thresholds, and memory is bounded.

    Numbers are those of scikit-learn: AUROC by the trapezoidal rule, in which ties count half;
    AUPRC is the average precision.

    >>> import gradwright as gw
    >>> roc = gw.evaluation.ROC().add([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    >>> roc.auroc(), round(roc.auprc(), 4)
    (0.75, 0.8333)
    """

    def _measure(self, labels: Any, predictions: Any, mask: Any) -> State:
        p, t = np.asarray(predictions), np.asarray(labels)
        if p.ndim == t.ndim + 1 and p.shape[-1] <= 2:
            p = p[..., -1]
        if p.shape == t.shape and mask is not None:
            held = np.asarray(mask)
            fits = t.shape[: held.ndim] == held.shape
            if fits:
                mask = np.broadcast_to(
                    held.reshape(*held.shape, *(1,) * (t.ndim - held.ndim)), t.shape
                ).ravel()
        if p.shape == t.shape:
            p, t = p.ravel(), t.ravel()
        truth, scores, keep, unusable = column_rows(t, p, mask, self._bounds)
        return self._counted_columns(zero_or_one(truth, keep), scores, keep, unusable)

    def auroc(self) -> float:
        """Return the area under the ROC curve, the chance that a positive scores higher."""
        return self._sound() * self._scores().auroc()

    def auprc(self) -> float:
        """Return the average precision, the area under the stairs of precision over recall."""
        return self._sound() * self._scores().auprc()

    def roc_curve(self) -> RocCurve:
        """Return false and true positive rates at falling thresholds, f64[n + 1] each."""
        return self._scores().roc()

    def precision_recall_curve(self) -> PrecisionRecallCurve:
        """Return precision and recall at rising thresholds, f64[n + 1] each."""
        return self._scores().precision_recall()

    def _scores(self) -> Scores:
        return next(iter(self._columns()), counted([], []))

    def _reason(self, name: str) -> str:
        lacks = "" if self.unusable else self._lacks(self._scores(), both=name == "auroc")
        return lacks or super()._reason(name)

    def plot(self) -> go.Figure:
        """Return a figure of the ROC and the precision-recall curve."""
        return self._draw({"": self._scores()})


@dataclass(eq=False, repr=False)
class _Several(_Curves, saved=False):
    """Curves of several columns, and means over them."""

    outputs: Sequence[str] | None = None
    """Their names."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.outputs is not None:
            self.outputs = tuple(map(str, self.outputs))

    def names(self) -> list[str]:
        """Return the names of the columns, their numbers if they have none."""
        n = len(self._state["columns"]) if self._state else 0
        return list(map(str, range(n))) if self.outputs is None else list(self.outputs)

    def auroc(self, average: str | None = "macro") -> Any:
        """Return the mean of the columns' AUROC, or each of them for None.

        ``average`` is ``"macro"``, ``"weighted"`` by how many positives each has, or ``"micro"``,
        of all columns as one. Columns without positives or negatives are left out of means.
        """
        return self._averaged("auroc", average)

    def auprc(self, average: str | None = "macro") -> Any:
        """Return the mean of the columns' average precision, or each of them for None."""
        return self._averaged("auprc", average)

    def roc_curve(self, column: int) -> RocCurve:
        """Return false and true positive rates of a column at falling thresholds."""
        return self._columns()[column].roc()

    def precision_recall_curve(self, column: int) -> PrecisionRecallCurve:
        """Return precision and recall of a column at rising thresholds."""
        return self._columns()[column].precision_recall()

    def excluded(self, number: str = "auroc") -> list[str]:
        """Return the names of columns that means leave out, as they have no such number."""
        each = getattr(self, number)(None)
        return [n for n, v in zip(self.names(), each, strict=False) if v != v]

    def _averaged(self, number: str, average: str | None) -> Any:
        columns = self._columns()
        if average == "micro":
            return self._sound() * getattr(joined(columns), number)()
        each = np.array([getattr(c, number)() for c in columns], np.float64) * self._sound()
        if average is None:
            return each
        if average not in ("macro", "weighted"):
            raise TrainingError(
                f"average={average!r} is not known",
                need="'macro', 'micro', 'weighted', or None for each column",
            )
        weighted = average == "weighted"
        weights = np.array([c.positives.sum() if weighted else 1.0 for c in columns], np.float64)
        known = ~np.isnan(each)
        total = weights[known].sum()
        return float(each[known] @ weights[known] / total) if total else NAN

    def _reason(self, name: str) -> str:
        if self.count and not self.unusable:
            return "no column has both labels, 0 and 1"
        return super()._reason(name)

    def stats(self) -> Table:
        """Return a table of all columns and their means."""
        columns, n = self._columns(), self._sound()
        rows = [
            [name, str(c.positives.sum()), text_of(n * c.auroc()), text_of(n * c.auprc())]
            for name, c in zip(self.names(), columns, strict=False)
        ]
        for average in ("macro", "weighted", "micro"):
            values = text_of(self.auroc(average)), text_of(self.auprc(average))
            rows.append([f"{average} mean", str(sum(c.positives.sum() for c in columns)), *values])
        head = ["column", "positives", "AUROC", "AUPRC"]
        return Table(head, rows, title=self._title(), notes=self._notes())

    def _notes(self) -> list[str]:
        notes = super()._notes()
        if self.count and not self.unusable and (without := self.excluded()):
            notes.append(f"left out of means, without 0 or without 1: {', '.join(without)}")
        return notes

    def plot(self) -> go.Figure:
        """Return a figure of the curves of up to twenty columns."""
        return self._draw(dict(zip(self.names()[:20], self._columns(), strict=False)))


@dataclass(eq=False, repr=False)
class ROCBinary(_Several):
    """ROC of each of several outputs that say yes or no.

    Labels 0 or 1 and scores are [..., outputs]; a mask is f32[...] or f32[..., outputs].

    Args:
        steps: as in ``ROC``.
        outputs: names.

    >>> import gradwright as gw
    >>> roc = gw.evaluation.ROCBinary(outputs=["rain", "hail"])
    >>> _ = roc.add([[1, 0], [0, 1], [1, 1]], [[0.8, 0.7], [0.3, 0.9], [0.6, 0.2]])
    >>> roc.auroc(None).tolist(), roc.auroc()
    ([1.0, 0.5], 0.75)
    """

    def _measure(self, labels: Any, predictions: Any, mask: Any) -> State:
        truth, scores, keep, unusable = column_rows(labels, predictions, mask, self._bounds)
        _check_names(self.outputs, scores.shape[1])
        return self._counted_columns(zero_or_one(truth, keep), scores, keep, unusable)


@dataclass(eq=False, repr=False)
class ROCMultiClass(_Several):
    """ROC of each class against all others.

    Labels are class numbers, i64[...], or one-hot, [..., classes], for scores f32[..., classes].

    Args:
        steps: as in ``ROC``.
        outputs: names of the classes.

    >>> import gradwright as gw
    >>> roc = gw.evaluation.ROCMultiClass()
    >>> _ = roc.add([0, 1, 2], [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.6, 0.3]])
    >>> roc.auroc(None).tolist()
    [1.0, 0.5, 0.75]
    """

    def _measure(self, labels: Any, predictions: Any, mask: Any) -> State:
        rows = class_rows(labels, predictions, mask, self._bounds)
        n = rows.predictions.shape[1]
        _check_names(self.outputs, n)
        truth = rows.labels[:, None] == np.arange(n)
        keep = np.ones(truth.shape, bool)
        return self._counted_columns(truth, rows.predictions, keep, rows.unusable)


def _check_names(names: Sequence[str] | None, n: int) -> None:
    if names is not None and len(names) != n:
        raise TrainingError(f"there are {len(names)} names for {n} columns of scores")


def _thin(curve: tuple[Array, ...], most: int = 2000) -> list[Array]:
    """Return what a figure shows of a curve: with its ends, no more points than pixels."""
    n = len(curve[0])
    chosen = np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int))
    return [curve[0][chosen], curve[1][chosen]]
