"""Classification: one class of many, counted in a confusion matrix."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import TrainingError
from ..words.tables import Table
from .base import Evaluation, State, text_of
from .inputs import Array, class_numbers, class_rows
from .rates import Average, Outcomes, Rates

if TYPE_CHECKING:
    import plotly.graph_objects as go

MATRIX = 1024
"""Up to so many classes a confusion matrix is kept: 8 MiB."""


@dataclass(eq=False, repr=False)
class Classification(Rates, Evaluation):
    """How often the highest score is that of the labelled class, and which are taken for which.

    Labels are class numbers, i64[...], or one-hot, [..., classes], for scores f32[..., classes];
    a mask f32[...] leaves out the steps of a sequence that are padding. With ``classes`` given,
    predictions may be class numbers themselves.

    Args:
        classes: how many there are, or their names; else learnt from the first batch.
        zero_division: what 0/0 counts as, such as the precision of a class that is never
            predicted; NaN leaves it out of means.

    Means are those of scikit-learn: a class that occurs neither in labels nor in predictions is
    left out, and ``excluded()`` names it.

    >>> import gradwright as gw
    >>> seen = gw.evaluation.Classification(classes=["cat", "dog", "owl"])
    >>> _ = seen.add([0, 1, 1, 0], [[3, 1, 0], [2, 4, 1], [5, 4, 1], [2, 1, 0]])
    >>> seen.accuracy(), seen.f1(), seen.excluded()
    (0.75, 0.7333333333333334, ['owl'])
    >>> seen.confusion()
    array([[2, 0, 0],
           [1, 1, 0],
           [0, 0, 0]])
    """

    classes: int | Sequence[str] | None = None
    zero_division: float = 0.0

    numbers = (
        *("accuracy", "top_2_accuracy", "top_5_accuracy", "precision", "recall", "f1"),
        *("g_measure", "mcc", "false_positive_rate", "false_negative_rate", "false_alarm_rate"),
    )

    def __post_init__(self) -> None:
        if isinstance(self.classes, Sequence):
            self.classes = tuple(map(str, self.classes))
        given = self.classes if isinstance(self.classes, int) else len(self.classes or "ab")
        if given < 2:
            raise TrainingError(f"classes={self.classes!r}", need="at least two classes")

    def _measure(self, labels: Any, predictions: Any, mask: Any) -> State:
        n = self._given()
        guess = np.asarray(predictions)
        if n and guess.dtype.kind in "iu" and guess.shape == np.shape(labels):
            first = np.arange(n) == class_numbers(guess.ravel(), n)[:, None]
            rows = class_rows(np.ravel(labels), first, None if mask is None else np.ravel(mask))
            ranks = np.zeros(n, np.int64)
        else:
            rows = class_rows(labels, predictions, mask)
            ranks = np.bincount(_ranks(rows.labels, rows.predictions), minlength=_width(rows))
        if n and _width(rows) != n:
            raise TrainingError(f"there are {n} classes, but scores of {_width(rows)}")
        n = _width(rows)
        chosen = rows.predictions.argmax(1)
        state = {
            "count": np.array([len(chosen)]),
            "unusable": rows.unusable,
            "right": np.bincount(chosen[chosen == rows.labels], minlength=n),
            "chosen": np.bincount(chosen, minlength=n),
            "labelled": np.bincount(rows.labels, minlength=n),
            "ranks": ranks,
        }
        if n <= MATRIX:
            pairs = np.bincount(rows.labels * n + chosen, minlength=n * n)
            state["confusion"] = pairs.reshape(n, n)
        return state

    def _given(self) -> int:
        """Return the number of classes, or 0 where it is not known."""
        if isinstance(self.classes, int):
            return self.classes
        return len(self.classes) if self.classes else len(self._state.get("right", ()))

    # -- numbers ---------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of the classes, their numbers if they have none."""
        held = self.classes
        return list(
            map(str, range(self._given()) if held is None or isinstance(held, int) else held)
        )

    def confusion(self) -> Array:
        """Return how often each class (row) was taken for each (column), i64[classes, classes].

        Raises TrainingError for more than 1,024 classes, of which none is kept.
        """
        n = self._given()
        if n > MATRIX:
            raise TrainingError(f"no confusion matrix is kept of {n} classes", need=f"<= {MATRIX}")
        held: Array = self._state.get("confusion", np.zeros((n, n), np.int64))
        return held.copy()

    def accuracy(self) -> float:
        """Return the share of examples whose highest score is the labelled class."""
        return self._share(self._state["right"].sum()) if self._state else float("nan")

    def top_n_accuracy(self, n: int) -> float:
        """Return the share of examples whose labelled class is among the ``n`` highest scores.

        Of equal scores that of the higher class number comes first, as in scikit-learn. NaN where
        predictions were class numbers.
        """
        if not self._state or self._state["ranks"].sum() != self.count:
            return float("nan")
        return self._share(self._state["ranks"][:n].sum())

    def top_2_accuracy(self) -> float:
        """Return ``top_n_accuracy(2)``."""
        return self.top_n_accuracy(2)

    def top_5_accuracy(self) -> float:
        """Return ``top_n_accuracy(5)``."""
        return self.top_n_accuracy(5)

    def mcc(self, average: Average = "all") -> Any:
        """Return Matthews' correlation of labels and predictions; 0 where it is 0/0.

        (c·s − Σₖ pₖtₖ) / √((s² − Σₖ pₖ²)(s² − Σₖ tₖ²)) over all classes (Gorodkin 2004), with c of
        s examples right, and tₖ labels and pₖ predictions of class k. With another ``average``, of
        each class with all others.
        """
        if average != "all":
            return super().mcc(average)
        if not self._state:
            return float("nan")
        p, t = (self._state[k].astype(np.float64) for k in ("chosen", "labelled"))
        c, s = float(self._state["right"].sum()), float(self.count)
        below = np.sqrt(s * s - p @ p) * np.sqrt(s * s - t @ t)
        return self._sound() * (float((c * s - p @ t) / below) if below else 0.0)

    def _outcomes(self) -> Outcomes:
        if not self._state:
            return Outcomes(*np.zeros((4, self._given())))
        names = ("right", "chosen", "labelled")
        tp, chosen, labelled = (self._state[k] * self._sound() for k in names)
        return Outcomes(tp, chosen - tp, labelled - tp, self.count - chosen - labelled + tp)

    def _counted(self) -> Array:
        if not self._state:
            return np.zeros(self._given(), bool)
        met: Array = self._state["chosen"] + self._state["labelled"] > 0
        return met

    def _share(self, hits: Any) -> float:
        return self._sound() * (float(hits) / self.count if self.count else 0.0)

    def _reason(self, name: str) -> str:
        if name.startswith("top") and self.count and not self.unusable:
            return "predictions were class numbers, not scores"
        return super()._reason(name)

    # -- to be read ------------------------------------------------------------------------------

    def stats(self) -> Table:
        """Return a table of all classes and means, with what is left out of them below."""
        columns = ("precision", "recall", "f1", "mcc", "false_positive_rate")
        per = [getattr(self, name)(None) for name in columns]
        labelled = self._state.get("labelled", np.zeros(self._given(), np.int64))
        rows = [
            [name, str(labelled[k]), *(text_of(values[k]) for values in per)]
            for k, name in enumerate(self.names())
        ]
        for average in ("macro", "weighted", "micro"):
            values = [text_of(getattr(self, name)(average)) for name in columns]
            rows.append([f"{average} mean", str(self.count), *values])
        head = ["class", "labels", *(c.replace("_", " ") for c in columns)]
        return Table(head, rows, title=self._title(), notes=self._notes())

    def _title(self) -> str:
        return f"{super()._title()}: accuracy {text_of(self.accuracy())}, MCC {text_of(self.mcc())}"

    def _notes(self) -> list[str]:
        notes = super()._notes()
        absent = [n for n, c in zip(self.names(), self._counted(), strict=True) if not c]
        if absent and self._state:
            notes.append(
                f"left out of means, in neither labels nor predictions: {', '.join(absent)}"
            )
        for number, why in (("precision", "never predicted"), ("recall", "never labelled")):
            if without := self.undefined(number):
                counts = "left out" if np.isnan(self.zero_division) else f"{self.zero_division:g}"
                notes.append(f"{number} is 0/0, {counts}; {why}: {', '.join(without)}")
        return notes

    def plot(self) -> go.Figure:
        """Return a figure of the confusion matrix: counts, coloured by the share of each row."""
        import plotly.graph_objects as go

        counts = self.confusion()
        shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        names = [html.escape(n, quote=False) for n in self.names()]
        few = len(names) <= 30
        figure = go.Figure(
            go.Heatmap(
                z=shares,
                customdata=counts,
                text=counts if few else None,
                texttemplate="%{text}" if few else None,
                colorscale="Blues",
                zmin=0,
                zmax=1,
                hovertemplate="%{y} taken for %{x}: %{customdata} (%{z:.1%})<extra></extra>",
            )
        )
        ticks = {"tickvals": list(range(len(names))), "ticktext": names} if few else {}
        figure.update_xaxes(title="predicted", constrain="domain", **ticks)
        figure.update_yaxes(title="labelled", autorange="reversed", scaleanchor="x", **ticks)
        figure.update_layout(template="plotly_white", title=self._title())
        return figure


def _width(rows: Any) -> int:
    return int(rows.predictions.shape[1])


def _ranks(labels: Array, scores: Array) -> Array:
    """Return how many classes come before the labelled one, i64[N]."""
    own = np.take_along_axis(scores, labels[:, None], 1)
    later = np.arange(scores.shape[1]) > labels[:, None]
    return np.asarray(np.count_nonzero((scores > own) | ((scores == own) & later), axis=1))
