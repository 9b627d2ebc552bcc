"""Binary: yes or no, for each of several outputs, at a threshold."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import TrainingError
from ..words.tables import Table
from .base import Evaluation, State, text_of
from .inputs import Array, column_rows, zero_or_one
from .rates import Outcomes, Rates

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLUMNS = ("accuracy", "precision", "recall", "f1", "mcc", "false_alarm_rate")
"""What the table says of each output."""


@dataclass(eq=False, repr=False)
class Binary(Rates, Evaluation):
    """Whether each output is on the labelled side of its threshold.

    Labels 0 or 1 and predictions are [..., outputs], or [N] for one; a mask is f32[...], or
    [..., outputs] where outputs of one example differ.

    Args:
        threshold: above it a prediction says yes; one for all outputs, or one each.
        outputs: their names.
        zero_division: what 0/0 counts as; NaN leaves it out of means.

    >>> import gradwright as gw
    >>> seen = gw.evaluation.Binary(threshold=[0.5, 0.9], outputs=["rain", "hail"])
    >>> _ = seen.add([[1, 0], [1, 1], [0, 0]], [[0.8, 0.7], [0.3, 0.95], [0.1, 0.2]])
    >>> seen.recall(None).tolist(), seen.accuracy()
    ([0.5, 1.0], 0.8333333333333333)
    """

    threshold: float | Sequence[float] = 0.5
    outputs: Sequence[str] | None = None
    zero_division: float = 0.0

    numbers = (
        *("accuracy", "precision", "recall", "f1", "g_measure", "mcc"),
        *("false_positive_rate", "false_negative_rate", "false_alarm_rate"),
    )

    def __post_init__(self) -> None:
        if isinstance(self.threshold, Sequence | np.ndarray):
            self.threshold = tuple(map(float, self.threshold))
        if self.outputs is not None:
            self.outputs = tuple(map(str, self.outputs))

    def _measure(self, labels: Any, predictions: Any, mask: Any) -> State:
        t, p, keep, unusable = column_rows(labels, predictions, mask)
        for name, given in (("outputs", self.outputs), ("threshold", self.threshold)):
            if isinstance(given, tuple) and len(given) != p.shape[1]:
                raise TrainingError(
                    f"{name} are {len(given)}, but the predictions have {p.shape[1]} columns"
                )
        truth, said = zero_or_one(t, keep), p > np.asarray(self.threshold)
        parts = {
            "tp": truth & said,
            "fp": ~truth & said,
            "fn": truth & ~said,
            "tn": ~truth & ~said,
        }
        counts = {name: np.count_nonzero(hit & keep, axis=0) for name, hit in parts.items()}
        return {"count": np.count_nonzero(keep, axis=0), "unusable": unusable, **counts}

    # -- numbers ---------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of the outputs, their numbers if they have none."""
        n = len(self._state["tp"]) if self._state else 0
        return list(map(str, range(n))) if self.outputs is None else list(self.outputs)

    def accuracy(self, average: str | None = "macro") -> Any:
        """Return the share of right answers: (TP + TN) / all."""
        o = self._outcomes()
        return self._ratio(o.tp + o.tn, o.tp + o.fp + o.fn + o.tn, average)

    def _outcomes(self) -> Outcomes:
        if not self._state:
            return Outcomes(*np.zeros((4, len(self.names()))))
        return Outcomes(*(self._state[k] * self._sound() for k in Outcomes._fields))

    def _counted(self) -> Array:
        seen = self._state["count"] > 0 if self._state else np.zeros(len(self.names()), bool)
        return np.asarray(seen)

    # -- to be read ------------------------------------------------------------------------------

    def stats(self) -> Table:
        """Return a table of all outputs and their mean."""
        per = [getattr(self, name)(None) for name in COLUMNS]
        rows = [
            [name, *(text_of(values[k]) for values in per)] for k, name in enumerate(self.names())
        ]
        rows.append(["mean", *(text_of(getattr(self, name)()) for name in COLUMNS)])
        head = ["output", *(c.replace("_", " ") for c in COLUMNS)]
        return Table(head, rows, title=self._title(), notes=self._notes())

    def plot(self) -> go.Figure:
        """Return a figure of precision, recall, F1 and MCC of each output."""
        import plotly.graph_objects as go

        names = [html.escape(n, quote=False) for n in self.names()]
        figure = go.Figure()
        for number in ("precision", "recall", "f1", "mcc"):
            figure.add_bar(x=names, y=getattr(self, number)(None), name=number)
        figure.update_xaxes(type="category", title="output")
        figure.update_layout(template="plotly_white", barmode="group", title=self._title())
        return figure
