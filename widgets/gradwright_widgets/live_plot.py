"""Curves that grow while a model trains."""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import traitlets

from gradwright.train import History, Record

from ._base import BaseWidget, Message, float64, handles
from ._pace import Pace
from ._still import curve_svg, html_table
from .follow import UNPLOTTED, Follow

_NO_CURVES = UNPLOTTED | {"step", "epoch", "seconds"}


class _Curve:
    def __init__(self, metric: str, name: str) -> None:
        self.metric, self.name = metric, name
        self.x, self.y = array("d"), array("d")
        self.sent = 0


class PlotPanel(BaseWidget):
    """Traits and messages of the curves; a widget that has them can show the plot panel."""

    status = traitlets.Unicode("", help="What the training is doing, in a few words.").tag(
        sync=True
    )

    def __init__(self, **options: Any) -> None:
        self._curves: dict[tuple[str, str], _Curve] = {}
        self._run = 0
        self._said = ""
        self._points = threading.Lock()
        self._pace = Pace(self._send_new)
        super().__init__(**options)

    # -- points ----------------------------------------------------------------------------------

    def append(self, step: float, metrics: Mapping[str, float], name: str = "train") -> None:
        """Add one point per metric to the curves called ``name``; every metric has its own chart.

        May be called from any thread and as often as you like: at most 20 messages a second leave.
        """
        for metric, value in metrics.items():
            self._extend(metric, name, (step,), (value,))
        self._pace.request()

    def extend(self, metric: str, name: str, steps: Iterable[float], values: Any) -> None:
        """Add many points to one curve."""
        self._extend(metric, name, steps, values)
        self._pace.request()

    def _extend(self, metric: str, name: str, steps: Iterable[float], values: Any) -> None:
        with self._points:
            curve = self._curves.get((metric, name))
            if curve is None:
                curve = self._curves[metric, name] = _Curve(metric, name)
            curve.x.extend(steps)
            curve.y.extend(values)

    def show(self, history: History) -> None:
        """Add the points of training that has been."""
        for metric in history.steps:
            if metric not in _NO_CURVES:
                self._extend(metric, "step", history.steps["step"], history.steps[metric])
        for metric in history.epochs:
            if metric not in _NO_CURVES:
                name = "validation" if metric.startswith("val_") else "train"
                values = history.epochs[metric]
                self._extend(metric.removeprefix("val_"), name, history.epochs["step"], values)
        self._pace.request()

    def reset(self) -> None:
        """Drop all points."""
        with self._points:
            self._curves.clear()
            self._run += 1
        self._pace.request()

    @property
    def curves(self) -> list[tuple[str, str]]:
        """Metric and name of every curve."""
        with self._points:
            return list(self._curves)

    def points(self, metric: str, name: str = "train") -> tuple[list[float], list[float]]:
        """Return the steps and values of one curve."""
        with self._points:
            curve = self._curves.get((metric, name))
            return ([], []) if curve is None else (list(curve.x), list(curve.y))

    # -- messages --------------------------------------------------------------------------------

    @handles("plot.sync")
    def _on_sync(self, _: Any) -> None:
        with self._points:
            self.send(*self._message(everything=True))

    def new_view_messages(self) -> list[Message]:
        """Return all points, as one message."""
        with self._points:
            return [*super().new_view_messages(), self._message(everything=True)]

    def _send_new(self) -> None:
        # Sent under the lock: messages of two threads must leave in the order of their points.
        with self._points:
            self.send(*self._message(everything=False))
        if self.status != self._said:
            self.status = self._said

    def _message(self, *, everything: bool) -> Message:
        parts, xs, ys = [], array("d"), array("d")
        for number, curve in enumerate(self._curves.values()):
            start = 0 if everything else curve.sent
            if len(curve.x) > start:
                parts.append({"series": number, "start": start, "count": len(curve.x) - start})
                xs += curve.x[start:]
                ys += curve.y[start:]
            curve.sent = len(curve.x)
        names = [{"panel": curve.metric, "name": curve.name} for curve in self._curves.values()]
        content = {"kind": "plot", "run": self._run, "series": names, "parts": parts}
        return content, [float64(xs), float64(ys)]

    def _say(self, text: str) -> None:
        self._said = text
        self._pace.request()

    # -- following a trainer ---------------------------------------------------------------------

    def training_restarted(self) -> None:
        """Begin new curves."""
        super().training_restarted()
        self.reset()

    def step_ended(self, record: Record) -> None:
        """Plot a step."""
        super().step_ended(record)
        self._said = f"training · epoch {record.epoch} · step {record.step:,}"
        self.append(record.step, _plotted(record.metrics), "step")

    def epoch_ended(self, record: Record) -> None:
        """Plot the means of an epoch, and of its validation."""
        super().epoch_ended(record)
        metrics = _plotted(record.metrics)
        measured = {k: v for k, v in metrics.items() if not k.startswith("val_")}
        self.append(record.step, measured, "train")
        validation = {k[4:]: v for k, v in metrics.items() if k.startswith("val_")}
        if validation:
            self.append(record.step, validation, "validation")

    def training_ended(self) -> None:
        """Send what is left."""
        super().training_ended()
        self._say(self._said.removeprefix("training · "))
        self._pace.flush()

    # -- views that last -------------------------------------------------------------------------

    def _snapshot(self) -> list[tuple[str, str, list[float], list[float]]]:
        with self._points:
            return [(c.metric, c.name, list(c.x), list(c.y)) for c in self._curves.values()]

    def to_svg(self) -> str:
        """Return the curves as a still picture."""
        return curve_svg(self._snapshot())

    def to_table(self) -> str:
        """Return the last value of every curve as an HTML table."""
        rows = [
            [metric, name, f"{x[-1]:g}", _text(y[-1])] for metric, name, x, y in self._snapshot()
        ]
        return html_table(["metric", "curve", "step", "value"], rows) if rows else ""


def _plotted(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if name not in UNPLOTTED}


def _text(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else str(value)


class LivePlot(PlotPanel):
    """Loss and metrics of a trainer as curves, training and validation together.

    With a ``trainer`` the curves follow it; without one, ``append`` adds the points.

    >>> plot = LivePlot(height=300)
    >>> for step in range(100):
    ...     plot.append(step, {"loss": 1 / (step + 1)})
    >>> plot.append(99, {"loss": 0.02}, name="validation")
    >>> plot.points("loss", "validation")
    ([99.0], [0.02])
    """

    module = "live_plot"

    def __init__(self, trainer: Any = None, **options: Any) -> None:
        super().__init__(**options)
        if trainer is not None:
            self.show(trainer.history)
            trainer.add_callback(Follow(self))
