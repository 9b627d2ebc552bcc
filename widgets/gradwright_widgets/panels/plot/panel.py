"""Curves that grow while a model trains."""

from __future__ import annotations

import csv
import io
import math
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traitlets

from gradwright.errors import GradwrightError
from gradwright.files.whole import write_text
from gradwright.train import History, Record

from ...host.desk import Desk
from ...host.host import Host
from ...host.panel import Panel
from ...host.part import handles, shared, watches
from ...host.wire import Finite, Message
from ...still.tables import curve_svg, html_table
from .curves import ON_DEMAND, Curve, Run, smoothed, unsent

if TYPE_CHECKING:
    import plotly.graph_objects as go

FRAMES_PER_SECOND = 10
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#b0569b", "#b58900", "#2f8fd0")
_DASHES = ("solid", "dash", "dot", "longdash")


class PlotPanel(Panel):
    """The curves.

    A curve keeps at most 200,000 points: when it has more, it goes on with half of them or fewer,
    of each four in a row the lowest and the highest.
    """

    name = "plot"

    metrics = shared(
        traitlets.List(
            traitlets.Unicode(),
            help="Metrics that are shown; none: all but grad_norm, learning_rate and loss_scale.",
        )
    )
    smoothing = shared(
        Finite(0.0, min=0.0, max=0.999, help="Weight of what was, in a moving average; 0 for none.")
    )
    log_scale = shared(traitlets.Bool(False, help="Whether values are on a logarithmic scale."))
    x_axis = shared(
        traitlets.Enum(("step", "epoch", "seconds"), "step", help="What the curves are drawn over.")
    )
    keep = shared(
        traitlets.Int(1, min=0, max=5, help="How many earlier runs stay, faded, after a reset.")
    )

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._run, self._past = Run(), deque[Run](maxlen=5)
        self._history: History | None = None
        self._generation = self._sent = self._rewritten = 0
        self._points = threading.Lock()
        self._pace = self.widget.paced(self._send_new, FRAMES_PER_SECOND)

    def begin(self) -> None:
        """Show what the trainer has recorded so far."""
        if self.desk.trainer is not None:
            self.show(self.desk.trainer.history)

    # -- points ----------------------------------------------------------------------------------

    def append(self, step: float, metrics: Mapping[str, float], name: str = "train") -> None:
        """Add one point per metric to the curves called ``name``; every metric has its own chart.

        May be called from any thread and as often as you like: at most 10 messages a second leave.

        Raises GradwrightError for what is no number, before it adds anything.
        """
        try:
            at, values = float(step), [float(value) for value in metrics.values()]
        except (TypeError, ValueError, OverflowError) as error:
            raise GradwrightError(f"a point of a curve is a number: {error}") from None
        with self._points:
            for metric, number in zip(metrics, values, strict=True):
                self._run.curve(metric, name).append(at, number)
        self.when_shown(self._pace.request)

    def extend(self, metric: str, name: str, steps: Iterable[float], values: Any) -> None:
        """Add many points to one curve; raises GradwrightError if the lengths differ."""
        with self._points:
            self._run.curve(metric, name).extend(steps, values)
        self.when_shown(self._pace.request)

    def show(self, history: History) -> None:
        """Show the points of a history, and from now on those that are added to it.

        After another history this begins a new run.
        """
        with self._points:
            self._take(history)
        self.when_shown(self._pace.request)

    def reset(self) -> None:
        """Begin a new run: earlier ones stay, faded, as far as ``keep`` says.

        A history that was shown is not read any further.
        """
        with self._points:
            self._history = None
            self._begin()
        self.when_shown(self._pace.request)

    def _take(self, history: History) -> None:
        if self._history is history:
            return
        if self._history is not None:
            self._begin()
        self._history = history

    def _begin(self) -> None:
        if self._run.curves:
            self._past.appendleft(self._run)
            self._generation += 1
        self._run = Run()

    def _runs(self) -> list[Run]:
        """Return the present run and those before it that are shown."""
        return [self._run, *list(self._past)[: self.keep]]

    def _catch_up(self) -> None:
        """Read what the history has more than before: per frame, which costs a step nothing."""
        if self.widget.comm is None:  # closed
            return
        trainer = self.desk.trainer
        if trainer is not None and self._history is not None:
            self._take(trainer.history)  # loading a state gives a trainer another one
        if self._history is not None:
            self._run.read(self._history, self.metrics)
        if trainer is not None and trainer.progress is not None:
            self._run.per_epoch = trainer.progress.per_epoch or 0
        rewritten = sum(curve.rewritten for curve in self._run.all())
        self._generation += rewritten != self._rewritten
        self._rewritten = rewritten

    @watches("metrics")
    def _on_metrics(self) -> None:
        self.when_shown(self._pace.request)

    @watches("keep")
    def _on_keep(self) -> None:
        with self._points:
            self._generation += 1
        self.when_shown(self._pace.request)

    @property
    def curves(self) -> list[tuple[str, str]]:
        """Metric and name of every curve of the present run."""
        with self._points:
            self._catch_up()
            return list(self._run.curves)

    def points(self, metric: str, name: str = "train") -> tuple[list[float], list[float]]:
        """Return the steps and values of one curve of the present run."""
        with self._points:
            self._catch_up()
            curve = self._run.curves.get((metric, name))
            return ([], []) if curve is None else (list(curve.x), list(curve.y))

    @property
    def status(self) -> str:
        """How far the training is, in a few words."""
        last = {} if self._history is None else self._history.steps.last()
        if not last:
            return ""
        return f"epoch {last['epoch']:.0f} · step {last['step']:,.0f}"

    # -- messages --------------------------------------------------------------------------------

    @handles("sync")
    def _on_sync(self, _: Any) -> None:
        with self._points:
            self.widget.send(*self._message(everything=True))

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return all points, as one message."""
        with self._points:
            return [self._message(everything=True)]

    def _send_new(self) -> None:
        # Sent under the lock: messages of two threads must leave in the order of their points.
        with self._points:
            self.widget.send(*self._message(everything=False))

    def _message(self, *, everything: bool) -> Message:
        self._catch_up()
        everything |= self._sent != self._generation
        self._sent = self._generation
        runs = self._runs()
        series = [(curve, {"age": age}) for age, run in enumerate(runs) for curve in run.all()]
        points, buffers = unsent(series, everything=everything)
        content = {
            "kind": "plot.points",
            "run": self._generation,
            **points,
            "onDemand": self._on_demand(),
            "perEpoch": [run.per_epoch for run in runs],
            "status": self.status,
        }
        return content, buffers

    def _on_demand(self) -> list[str]:
        return sorted(ON_DEMAND & {*(() if self._history is None else self._history.steps)})

    # -- following a trainer ---------------------------------------------------------------------

    def step_ended(self, record: Record) -> None:
        """Have the step plotted with the next frame."""
        self.when_shown(self._pace.request)

    def epoch_ended(self, record: Record) -> None:
        """Have the epoch plotted with the next frame."""
        self.when_shown(self._pace.request)

    def training_ended(self) -> None:
        """Send what is left."""
        self.when_shown(self._pace.request)
        self._pace.flush()

    # -- as data, and views that last ------------------------------------------------------------

    def _visible(self) -> Iterator[tuple[int, Run, Curve]]:
        """Yield the curves of the metrics that are shown, those of the present run first."""
        self._catch_up()
        for age, run in enumerate(self._runs()):
            for curve in run.curves.values():
                chosen = self.metrics or set(run.metrics()) - ON_DEMAND
                if curve.metric in chosen and curve.x:
                    yield age, run, curve

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return what is shown as CSV, one line per point; also write it to ``path``.

        Run 0 is the present one, 1 the one before it.
        """
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["run", "metric", "curve", "step", "epoch", "seconds", "value"])
        with self._points:
            for age, run, curve in self._visible():
                head = [age, curve.metric, curve.name]
                epochs, seconds = (run.on_axis(axis, curve.x) for axis in ("epoch", "seconds"))
                known = [bool(run.axes[axis].x) for axis in ("epoch", "seconds")]
                for step, epoch, second, value in zip(
                    curve.x, epochs, seconds, curve.y, strict=True
                ):
                    times = [
                        f"{t:.6g}" if k else "" for t, k in zip((epoch, second), known, strict=True)
                    ]
                    writer.writerow([*head, f"{step:.15g}", *times, repr(value)])
        if path is not None:
            write_text(path, out.getvalue())
        return out.getvalue()

    def to_plotly(self) -> go.Figure:
        """Return what is shown as a plotly figure, with its axis, scale and smoothing."""
        from plotly.subplots import make_subplots

        with self._points:
            shown = list(self._visible())
            metrics = list(dict.fromkeys(curve.metric for _, _, curve in shown))
            names = list(dict.fromkeys(curve.name for _, _, curve in shown))
            figure = make_subplots(
                rows=max(1, len(metrics)), cols=1, shared_xaxes=True, vertical_spacing=0.04
            )
            for age, run, curve in shown:
                k = look(curve.name, names)
                for values, opacity in self._lines(run, curve):
                    raw = opacity < 1 or (curve.name == "step" and "train" in names)
                    figure.add_scatter(
                        x=run.on_axis(self.x_axis, curve.x),
                        y=values,
                        name=curve.name + (f", {age} before" if age else ""),
                        legendgroup=f"{curve.name} {age}",
                        showlegend=opacity == 1 and curve.metric == metrics[0],
                        opacity=(0.45 if raw else 1.0) * opacity * 0.5**age,
                        mode="lines" if len(values) > 24 else "lines+markers",
                        line={"color": _COLORS[k % 6], "dash": _DASHES[k % 4], "width": 1.5},
                        row=metrics.index(curve.metric) + 1,
                        col=1,
                    )
        for row, metric in enumerate(metrics, 1):
            scale = "log" if self.log_scale else "linear"
            figure.update_yaxes(title_text=metric, type=scale, row=row, col=1)
        figure.update_xaxes(title_text=self.x_axis, row=max(1, len(metrics)), col=1)
        figure.update_layout(
            template="plotly_white",
            height=120 + 200 * max(1, len(metrics)),
            hovermode="x unified",
            margin={"t": 40},
        )
        return figure

    def _lines(self, run: Run, curve: Curve) -> Iterator[tuple[Any, float]]:
        """Yield values and opacity: when smoothed, the raw ones behind; means of epochs stay."""
        means = curve.name in ("train", "validation") and (curve.metric, "step") in run.curves
        if self.smoothing and not means and curve.metric != "learning_rate":
            yield list(curve.y), 0.25
            yield smoothed(curve.y, self.smoothing), 1.0
        else:
            yield list(curve.y), 1.0

    def to_svg(self) -> str:
        """Return the curves of the present run as a still picture."""
        with self._points:
            shown = [
                (c.metric, c.name, list(c.x), list(c.y)) for age, _, c in self._visible() if not age
            ]
        return curve_svg(shown)

    def to_table(self) -> str:
        """Return the last value of every curve as an HTML table."""
        with self._points:
            rows = [
                [c.metric, c.name, f"{c.x[-1]:g}", _text(c.y[-1])]
                for age, _, c in self._visible()
                if not age
            ]
        return html_table(["metric", "curve", "step", "value"], rows) if rows else ""


def look(name: str, names: Iterable[str]) -> int:
    """Return the number of a curve's colour and dash: those of one name agree between charts.

    >>> [look(name, ["step", "train", "validation", "mine"]) for name in ("step", "mine")]
    [0, 2]
    """
    known = {"step": 0, "train": 0, "validation": 1}
    return known[name] if name in known else 2 + [n for n in names if n not in known].index(name)


def _text(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else str(value)


class LivePlot(Host):
    """Loss and metrics of a trainer as curves, training and validation together.

    With a ``trainer`` the curves follow it; without one, ``append`` adds the points, and
    ``show(history)`` those of a training that was.

    >>> plot = LivePlot(height=300, smoothing=0.6, log_scale=True)
    >>> for step in range(100):
    ...     plot.append(step, {"loss": 1 / (step + 1)})
    >>> plot.append(99, {"loss": 0.02}, name="validation")
    >>> plot.points("loss", "validation")
    ([99.0], [0.02])
    """

    module = "live_plot"
    panels = (PlotPanel,)
    desk_type = Desk

    def __init__(self, trainer: Any = None, **options: Any) -> None:
        super().__init__(trainer, **options)
