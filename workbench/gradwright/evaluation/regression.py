"""Regression: errors and correlation of predicted numbers, column by column."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import TrainingError
from ..words.tables import Table
from .base import Evaluation, State, text_of
from .inputs import Array, binned, column_rows

if TYPE_CHECKING:
    import plotly.graph_objects as go

NAN = float("nan")
_SIZES = 10.0 ** np.arange(-6.0, 6.25, 0.25)
RESIDUAL_EDGES: Array = np.concatenate([[-np.inf], -_SIZES[::-1], _SIZES, [np.inf]])
"""Edges of the bins of residuals: four a decade on both sides, from 1e-6 to 1e6 in size."""


@dataclass(eq=False, repr=False)
class Regression(Evaluation):
    """Errors and correlation of each column, and their means over columns.

    Labels and predictions are [..., columns], or [N]; a mask is f32[...] or f32[..., columns].

        MSE = Σ(p − t)²/n     MAE = Σ|p − t|/n     RMSE = √MSE     RSE = Σ(p − t)²/Σ(t − t̄)²
        PC = Pearson's correlation of p and t     R² = 1 − RSE

    Means and squares are merged so that digits are kept (Chan, Golub & LeVeque 1983). RSE, PC and
    R² of a column whose labels are all equal are NaN.

    Args:
        columns: their names.

    >>> import gradwright as gw
    >>> seen = gw.evaluation.Regression().add([1.0, 2.0, 3.0], [1.5, 2.0, 2.5])
    >>> round(seen.mae(), 4), seen.r2(), round(seen.pc(), 4)
    (0.3333, 0.75, 1.0)
    """

    columns: Sequence[str] | None = None

    numbers = ("mse", "mae", "rmse", "rse", "pc", "r2")

    def __post_init__(self) -> None:
        if self.columns is not None:
            self.columns = tuple(map(str, self.columns))

    def _measure(self, labels: Any, predictions: Any, mask: Any) -> State:
        t, p, keep, unusable = column_rows(labels, predictions, mask)
        if self.columns is not None and len(self.columns) != t.shape[1]:
            raise TrainingError(f"there are {len(self.columns)} names for {t.shape[1]} columns")
        t, p = np.where(keep, t, 0.0), np.where(keep, p, 0.0)  # what does not count may be NaN
        count = np.count_nonzero(keep, axis=0)
        n = np.maximum(count, 1)
        means = t.sum(0) / n, p.sum(0) / n
        dt, dp = ((x - m) * keep for x, m in zip((t, p), means, strict=True))
        bins = np.searchsorted(RESIDUAL_EDGES[1:-1], p - t, side="right")
        residuals = binned(bins, len(RESIDUAL_EDGES) - 1, keep).astype(np.int64)
        return {
            "count": count,
            "unusable": unusable,
            "means": np.stack(means),
            "moments": np.stack([(dt * dt).sum(0), (dp * dp).sum(0), (dt * dp).sum(0)]),
            "errors": np.stack([np.square(p - t).sum(0), np.abs(p - t).sum(0)]),
            "residuals": residuals,
        }

    def _sums(self, a: State, b: State) -> State:
        n = np.maximum(a["count"] + b["count"], 1)
        part = b["count"] / n
        dt, dp = b["means"] - a["means"]
        joined = super()._sums(a, b)
        joined["means"] = a["means"] + (b["means"] - a["means"]) * part
        joined["moments"] = joined["moments"] + np.stack([dt * dt, dp * dp, dt * dp]) * (
            a["count"] * part
        )
        return joined

    # -- numbers ---------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of the columns, their numbers if they have none."""
        n = len(self._state["count"]) if self._state else 0
        return list(map(str, range(n))) if self.columns is None else list(self.columns)

    def mse(self, column: int | None = None) -> float:
        """Return the mean squared error of a column, or the mean over all."""
        return self._of("mse", column)

    def mae(self, column: int | None = None) -> float:
        """Return the mean absolute error of a column, or the mean over all."""
        return self._of("mae", column)

    def rmse(self, column: int | None = None) -> float:
        """Return the root of the mean squared error of a column, or the mean over all."""
        return self._of("rmse", column)

    def rse(self, column: int | None = None) -> float:
        """Return the squared error relative to that of the mean, of a column or the mean."""
        return self._of("rse", column)

    def pc(self, column: int | None = None) -> float:
        """Return Pearson's correlation of a column, or the mean over all."""
        return self._of("pc", column)

    def r2(self, column: int | None = None) -> float:
        """Return the coefficient of determination of a column, or the mean over all."""
        return self._of("r2", column)

    def residuals(self, column: int = 0) -> tuple[Array, Array]:
        """Return counts and edges of prediction − label; bins are four a decade, by size."""
        held = (
            self._state["residuals"][column] if self._state else np.zeros(len(RESIDUAL_EDGES) - 1)
        )
        return held.copy(), RESIDUAL_EDGES.copy()

    def _of(self, number: str, column: int | None) -> float:
        each = self._each(number)
        if column is not None:
            return float(each[column])
        return float(each.mean()) if each.size else NAN

    def _each(self, number: str) -> Array:
        """Return a number of each column."""
        if not self._state:
            return np.zeros(0)
        s = self._state
        count = np.where(s["count"] > 0, s["count"], np.nan) * self._sound()
        squares, absolute = s["errors"]
        of_labels, of_predictions, together = s["moments"]
        spread = np.where(of_labels > 0, of_labels, np.nan) * self._sound()
        match number:
            case "mse":
                return np.asarray(squares / count)
            case "mae":
                return np.asarray(absolute / count)
            case "rmse":
                return np.asarray(np.sqrt(squares / count))
            case "rse":
                return np.asarray(squares / spread)
            case "r2":
                return np.asarray(1 - squares / spread)
        below = np.sqrt(spread) * np.sqrt(np.where(of_predictions > 0, of_predictions, np.nan))
        return np.asarray(np.clip(together / below, -1.0, 1.0))

    def _reason(self, name: str) -> str:
        if self.count and not self.unusable:
            without = [n for n, v in zip(self.names(), self._each(name), strict=True) if v != v]
            equal = "labels or predictions" if name == "pc" else "labels"
            return f"all {equal} are equal, or there are none, in column {', '.join(without)}"
        return super()._reason(name)

    # -- to be read ------------------------------------------------------------------------------

    def stats(self) -> Table:
        """Return a table of all columns and their means."""
        each = [self._each(number) for number in self.numbers]
        rows = (
            [
                [name, *(text_of(values[k]) for values in each)]
                for k, name in enumerate(self.names())
            ]
            if self._state
            else []
        )
        rows.append(["mean", *(text_of(value) for value in self.metrics().values())])
        head = ["column", "MSE", "MAE", "RMSE", "RSE", "PC", "R²"]
        return Table(head, rows, title=self._title(), notes=self._notes())

    def plot(self) -> go.Figure:
        """Return a figure: RMSE and R² of each column, and how large residuals are."""
        from plotly.subplots import make_subplots

        figure = make_subplots(rows=1, cols=3, subplot_titles=("RMSE", "R²", "residuals"))
        names = [html.escape(n, quote=False) for n in self.names()]
        for place, number in ((1, "rmse"), (2, "r2")):
            figure.add_bar(x=names, y=self._each(number), marker_color="#2171b5", row=1, col=place)
        figure.update_xaxes(type="category", row=1, col=1)
        figure.update_xaxes(type="category", row=1, col=2)
        ticks = [f"{e:.1e}" for e in RESIDUAL_EDGES[1:-1]]
        bins = [f"below {ticks[0]}", *(f"to {t}" for t in ticks[1:]), f"above {ticks[-1]}"]
        counts = [self.residuals(column)[0] for column in range(len(names))]
        held = np.flatnonzero(np.sum(counts, axis=0)) if counts else np.zeros(0, int)
        shown = slice(held[0], held[-1] + 1) if held.size else slice(0)
        for name, n in zip(names[:20], counts, strict=False):
            figure.add_bar(x=bins[shown], y=n[shown], name=name, row=1, col=3)
        figure.update_xaxes(type="category", title="prediction − label", row=1, col=3)
        figure.update_layout(
            template="plotly_white", barmode="stack", showlegend=False, title=self._title()
        )
        return figure
