"""Calibration: whether what is given a probability of 0.8 is there in 8 cases of 10."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import TrainingError
from .base import Evaluation, State
from .inputs import Array, binned, class_rows, column_rows, zero_or_one

if TYPE_CHECKING:
    import plotly.graph_objects as go


class Reliability(NamedTuple):
    """The bins of a reliability diagram that hold something."""

    predicted: Array
    """Mean probability of each bin."""
    observed: Array
    """Share of the examples in it for which it came true."""
    cases: Array
    """How many examples it holds."""


@dataclass(eq=False, repr=False)
class Calibration(Evaluation):
    """How far probabilities are from the shares of cases in which they come true.

    Labels are class numbers or one-hot for probabilities [..., classes]; or 0 and 1 for
    probabilities of yes, of the same shape [...]. A mask leaves out examples.

    Args:
        bins: of the reliability diagram; equally wide, closed on the right.
        histogram_bins: of the histograms of probabilities and residuals.

    >>> import gradwright as gw
    >>> seen = gw.evaluation.Calibration(bins=2)
    >>> _ = seen.add([0, 1, 1, 0], [0.1, 0.3, 0.9, 0.7])
    >>> seen.reliability().observed.tolist(), round(seen.ece(), 3)
    ([0.5, 0.5], 0.3)
    """

    bins: int = 10
    histogram_bins: int = 50

    numbers = ("ece", "mce", "brier")

    def __post_init__(self) -> None:
        for name in ("bins", "histogram_bins"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise TrainingError(f"{name}={value!r}", need="an int of at least 1")

    def _measure(self, labels: Any, predictions: Any, mask: Any) -> State:
        t, p = np.asarray(labels), np.asarray(predictions)
        one_hot = p.shape == t.shape and p.ndim > 1 and _rows_are_one_hot(t, mask)
        if p.ndim == t.ndim + 1 or one_hot:
            rows = class_rows(t, p, mask, (0.0, 1.0))
            scores = rows.predictions
            truth = rows.labels[:, None] == np.arange(scores.shape[1])
            best = scores.argmax(1)
            sure, right = scores[np.arange(len(best)), best], best == rows.labels
            n = len(best)
        else:
            if mask is not None:
                mask = np.broadcast_to(mask, t.shape).ravel()
            rows = column_rows(t.ravel(), p.ravel(), mask, (0.0, 1.0))
            keep = rows.keep[:, 0]
            scores = rows.predictions[keep]
            truth = zero_or_one(rows.labels, rows.keep)[keep]
            sure, right, n = scores[:, 0], truth[:, 0], len(scores)
        return {
            "count": np.array([n]),
            "unusable": rows.unusable,
            "bins": self._reliability(scores, truth),
            "surest": self._reliability(sure[:, None], right[:, None])[0],
            "histograms": self._histograms(scores, truth),
            "squares": np.square(scores - truth).sum(0),
        }

    def _need(self) -> str:
        return "probabilities, in [0, 1], as gw.nn.softmax or gw.nn.sigmoid makes of logits"

    def _reliability(self, scores: Array, truth: Array) -> Array:
        """Return count, sum of labels and sum of scores of each column's bins, f64[K, 3, bins]."""
        edges = np.linspace(0.0, 1.0, self.bins + 1)[1:-1]
        where = np.searchsorted(edges, scores)
        return np.stack([binned(where, self.bins, w) for w in (1.0, truth, scores)], axis=1)

    def _histograms(self, scores: Array, truth: Array) -> Array:
        """Return counts of probabilities, of those of what is there, and of residuals."""
        n = self.histogram_bins
        edges = np.linspace(0.0, 1.0, n + 1)[1:-1]
        where, off = (np.searchsorted(edges, x, "right") for x in (scores, abs(truth - scores)))
        parts = binned(where, n), binned(where, n, truth).astype(np.int64), binned(off, n)
        return np.stack(parts, axis=1)

    # -- numbers ---------------------------------------------------------------------------------

    def ece(self, column: int | None = None) -> float:
        """Return the expected calibration error: Σ_b n_b/N · |observed_b − predicted_b|.

        By default of the class with the highest probability (Guo et al. 2017, arXiv:1706.04599),
        or of the one output; else of the probabilities of class ``column``.
        """
        gaps, weights = self._gaps(column)
        return self._sound() * float(gaps @ weights / max(weights.sum(), 1.0))

    def mce(self, column: int | None = None) -> float:
        """Return the largest calibration error of a bin: max_b |observed_b − predicted_b|."""
        gaps, _ = self._gaps(column)
        return self._sound() * float(gaps.max(initial=0.0))

    def brier(self) -> float:
        """Return the mean over examples of Σₖ (pₖ − tₖ)² (Brier 1950)."""
        if not self._state:
            return float("nan")
        return self._sound() * float(self._state["squares"].sum() / max(self.count, 1))

    def reliability(self, column: int | None = None) -> Reliability:
        """Return mean probability, observed share and count of each bin that holds something.

        Of the class with the highest probability, or of class ``column``.
        """
        count, hits, total = self._bins(column)
        held = count > 0
        return Reliability(total[held] / count[held], hits[held] / count[held], count[held])

    def residuals(self, column: int = 0) -> tuple[Array, Array]:
        """Return counts and edges of |label − probability| of a class."""
        return self._histogram(column, 2)

    def probabilities(self, column: int = 0, labelled: bool = False) -> tuple[Array, Array]:
        """Return counts and edges of the probabilities of a class.

        With ``labelled`` only of the examples of that class.
        """
        return self._histogram(column, int(labelled))

    def _bins(self, column: int | None) -> Array:
        if not self._state:
            return np.zeros((3, self.bins))
        held: Array = self._state["surest"] if column is None else self._state["bins"][column]
        return held

    def _gaps(self, column: int | None) -> tuple[Array, Array]:
        predicted, observed, count = self.reliability(column)
        return np.abs(observed - predicted), count

    def _histogram(self, column: int, row: int) -> tuple[Array, Array]:
        n = self.histogram_bins
        held = self._state["histograms"][column, row] if self._state else np.zeros(n, np.int64)
        return held.copy(), np.linspace(0.0, 1.0, n + 1)

    # -- to be read ------------------------------------------------------------------------------

    def plot(self, column: int | None = None) -> go.Figure:
        """Return a figure: reliability diagram, and histograms of probabilities and residuals.

        Of all classes together, or of class ``column``.
        """
        from plotly.subplots import make_subplots

        titles = ("reliability", "probabilities", "residuals")
        figure = make_subplots(rows=1, cols=3, subplot_titles=titles)
        predicted, observed, count = self.reliability(column)
        figure.add_scatter(
            x=predicted,
            y=observed,
            customdata=count,
            mode="lines+markers",
            hovertemplate="said %{x:.3f}, came true %{y:.3f}, %{customdata} cases<extra></extra>",
        )
        chance = {"dash": "dot", "color": "#bdbdbd"}
        figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line=chance)
        n = self.histogram_bins
        held = self._state["histograms"] if self._state else np.zeros((1, 3, n), np.int64)
        sums = held.sum(0) if column is None else held[column]
        middles = (np.arange(n) + 0.5) / n
        for place, row in ((2, 0), (3, 2)):
            figure.add_bar(x=middles, y=sums[row], width=1 / n, row=1, col=place)
        figure.update_xaxes(title="probability", range=[0, 1])
        figure.update_xaxes(title="|label − probability|", row=1, col=3)
        figure.update_yaxes(title="share that came true", range=[0, 1], row=1, col=1)
        figure.update_layout(template="plotly_white", showlegend=False, title=self._title())
        return figure


def _rows_are_one_hot(labels: Array, mask: Any) -> bool:
    """Tell whether each row that counts has a single 1: then rows are classes, not outputs."""
    sums = (labels == 1).sum(-1)
    if mask is not None and np.shape(mask) == sums.shape:
        sums = sums[np.asarray(mask) != 0]
    return bool((sums == 1).all())
