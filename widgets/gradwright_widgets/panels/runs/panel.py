"""Recorded runs side by side: a table of all, curves and settings of those that are chosen."""

from __future__ import annotations

import contextlib
import threading
from array import array
from collections.abc import Mapping
from typing import Any

import traitlets

from gradwright import runs
from gradwright.errors import GradwrightError
from gradwright.recording.folder import RunSummary
from gradwright.train import Run, Runs, Store

from ...host.desk import Desk
from ...host.host import Host
from ...host.panel import Panel
from ...host.part import handles, shared
from ...host.wire import Finite, Message
from ...still.tables import curve_svg, html_table
from ..plot.curves import Curve, unsent
from .reader import RunReader
from .rows import MOST, differences, keyed, labels, row_of, shown

MOST_CHOSEN = 12
"""Runs whose curves can be told apart: six colours, each in two dashes."""
MOST_POINTS = 10_000
"""Points of a curve that a page has, 160 kB."""
EACH = "each step: "
"""What the name of a metric begins with if every step is drawn, and not the ends of epochs."""


class RunsPanel(Panel):
    """The recorded runs.

    A page asks for what is new while it shows them, and nothing is read otherwise.

    Args:
        desk: where the trainer is found.
        runs: a folder of run folders, or a ``Store``; default that of the trainer's ``gw.Run``, if
            there is one, else ``$GRADWRIGHT_RUNS`` or the folder among the user's data.
    """

    name = "runs"

    runs_chosen = shared(
        traitlets.List(
            traitlets.Unicode(), maxlen=MOST_CHOSEN, help="Ids of the runs that are compared."
        )
    )
    runs_metric = shared(
        traitlets.Unicode(
            "", help='The metric that is drawn, or "" for the usual: "val_loss", "each step: loss".'
        )
    )
    runs_filter = shared(
        traitlets.Unicode(
            "", help="Part of a name, graph, status or tag, a pattern, or a /regular expression/."
        )
    )
    runs_sort = shared(
        traitlets.Unicode(
            "-created", help='What the table is sorted by; "-loss" is the greatest first.'
        )
    )
    runs_x_axis = shared(
        traitlets.Enum(
            ("step", "epoch", "seconds"), "epoch", help="What the curves are drawn over."
        )
    )
    runs_smoothing = shared(Finite(0.0, min=0.0, max=0.999, help="As of LivePlot."))
    runs_log = shared(traitlets.Bool(False, help="Whether values are on a logarithmic scale."))

    def __init__(self, desk: Desk, *, runs: Any = None) -> None:
        super().__init__(desk)
        self._runs_store = runs if isinstance(runs, Store) or runs is None else Store(runs)
        self._runs_changed = False
        self._runs_known: dict[str, RunSummary] = {}
        self._runs_rows: dict[str, dict[str, Any]] = {}
        self._runs_rows_sent: dict[str, dict[str, Any]] = {}
        self._runs_seen: Any = None
        self._runs_readers: dict[str, RunReader] = {}
        self._runs_slots: dict[str, int] = {}
        self._run_curves: dict[str, Curve] = {}
        self._run_curves_of: Any = None
        self._run_curves_number, self._run_curves_sent = 0, -1
        self._runs_told: dict[str, Any] = {}
        self._runs_settings: tuple[Any, list[list[str]]] = None, []
        self._runs_lock = threading.RLock()
        self._runs_work = self.widget.background("reading the runs")

    def begin(self) -> None:
        """Read anew what is chosen from now on."""
        chosen = ["runs_chosen", "runs_metric", "runs_x_axis"]
        self.widget.observe(lambda _: self._look_at_runs(), chosen)

    # -- to use ----------------------------------------------------------------------------------

    def compare(self, *chosen: str | RunSummary) -> None:
        """Choose the runs to compare, by name or id; raises GradwrightError for what is none."""
        with self._runs_lock:
            self._read_run_table()
            table = Runs(self._runs_known.values())
            keys = {id(run): key for key, run in self._runs_known.items()}
            try:
                found = [
                    c if isinstance(c, str) and c in self._runs_known
                    else keys[id(table[c.id if isinstance(c, RunSummary) else c])]
                    for c in chosen
                ]  # fmt: skip
            except KeyError as error:
                raise GradwrightError(str(error.args[0])) from None
        self.runs_chosen = found

    def refresh_runs(self) -> None:
        """Read what is new of the runs, and show it."""
        with self._runs_lock:
            self._read_runs()
            self._send_runs(everything=False)

    def run_table(self) -> list[Mapping[str, Any]]:
        """Return the rows of the table as it is filtered and sorted."""
        with self._runs_lock:
            self._read_run_table()
            return shown(self._runs_rows.values(), self.runs_filter, self.runs_sort)

    def run_points(self, key: str) -> tuple[list[float], list[float]]:
        """Return the curve of a run that is compared, by id; empty lists for others."""
        with self._runs_lock:
            self._read_runs()
            curve = self._run_curves.get(key)
            return ([], []) if curve is None else (list(curve.x), list(curve.y))

    def run_differences(self) -> list[list[str]]:
        """Return the settings that differ: name, then the value of each run, as text."""
        with self._runs_lock:
            self._read_runs()
            return self._runs_settings[1]

    # -- reading ---------------------------------------------------------------------------------

    def _runs_where(self) -> Store:
        if self._runs_store is not None:
            return self._runs_store
        callbacks = getattr(self.desk.trainer, "callbacks", ())
        held = (c.store for c in callbacks if isinstance(c, Run) and c.store is not None)
        return next(held, None) or Store()

    def _read_runs(self) -> None:
        self._read_run_table()
        self._read_chosen_runs()
        self._read_run_curves()

    def _read_run_table(self) -> None:
        store = self._runs_where()
        seen = _stamp(store)
        alive = any(run.status == "running" for run in self._runs_known.values())
        if seen == self._runs_seen and not alive:
            return
        self._runs_seen = seen
        found = runs(store) if store.root.is_dir() else Runs([])
        self._runs_known = keyed(found)
        newest = list(self._runs_known.items())[:MOST]
        kept = [(key, run) for key, run in self._runs_known.items() if key in self.runs_chosen]
        self._runs_rows = {key: row_of(key, run) for key, run in [*newest, *kept]}

    def _runs_now(self) -> list[str]:
        return [key for key in dict.fromkeys(self.runs_chosen) if key in self._runs_known]

    def _read_chosen_runs(self) -> None:
        chosen = self._runs_now()
        self._runs_readers = {
            key: self._runs_readers.get(key) or RunReader(self._runs_known[key].folder)
            for key in chosen
        }
        for reader in self._runs_readers.values():
            while reader.read():
                pass
        self._runs_slots = {key: slot for key, slot in self._runs_slots.items() if key in chosen}
        for key in chosen:  # a run keeps its colour while it is compared
            if key not in self._runs_slots:
                self._runs_slots[key] = min({*range(MOST_CHOSEN)} - {*self._runs_slots.values()})
        of = [(key, self._runs_known[key].status) for key in chosen]
        if self._runs_settings[0] != of:
            self._runs_settings = of, differences([self._runs_known[key] for key in chosen])

    def _runs_metrics(self) -> list[str]:
        """Return what the chosen runs have measured, of epochs and then of steps."""
        readers = self._runs_readers.values()
        names = [name for reader in readers for name in reader.epochs.metrics]
        names += [EACH + name for reader in readers for name in reader.steps.metrics]
        return list(dict.fromkeys(names))

    def _runs_metric(self) -> str:
        known = self._runs_metrics()
        usual = (self.runs_metric, "val_loss", "loss", *known)
        return next((name for name in usual if name in known), "")

    def _read_run_curves(self) -> None:
        metric, names = self._runs_metric(), labels(self._runs_known, self._runs_now())
        of = [metric, self.runs_x_axis, names, [r.generation for r in self._runs_readers.values()]]
        if of != self._run_curves_of:
            self._run_curves_of, self._run_curves_number = of, self._run_curves_number + 1
            self._run_curves = {
                key: Curve(metric.removeprefix(EACH), name, MOST_POINTS)
                for key, name in names.items()
            }
        rewritten = 0
        for key, curve in self._run_curves.items():
            each = metric.startswith(EACH)
            x, y = self._runs_readers[key].points(curve.metric, self.runs_x_axis, each_step=each)
            before = curve.rewritten
            if each and self.runs_x_axis == "epoch" and curve.read < len(x):
                curve.x, curve.y, curve.read = array("d"), array("d"), 0  # shares have changed
                rewritten += 1
            curve.extend(x[curve.read :], y[curve.read :])
            curve.read = len(x)
            rewritten += curve.rewritten - before
        self._run_curves_number += rewritten > 0

    # -- messages --------------------------------------------------------------------------------

    @handles("look")
    def _on_runs_look(self, content: dict[str, Any]) -> None:
        """Read beside what runs, and answer: a page asks again a second and a half later."""
        if content.get("whole"):  # a page that has just been opened
            with self._runs_lock:
                self._runs_rows_sent = {}
        self._look_at_runs()

    @handles("sync")
    def _on_curves_sync(self, _: Any) -> None:
        with self._runs_lock:
            self.widget.send(*self._run_curves_message(everything=True))

    def _look_at_runs(self) -> None:
        """Show what is new, in a thread of its own; what changes meanwhile is shown after it."""

        def look(stop: threading.Event) -> None:
            while self._runs_changed and not stop.is_set():
                self._runs_changed = False
                try:
                    self.refresh_runs()
                finally:
                    self.widget.send({"kind": "runs.seen"})

        self._runs_changed = True
        if not self._runs_work.busy:
            self._runs_work.start(look)

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return the table and the curves, too, as they were read last."""
        with self._runs_lock:
            if self._runs_seen is None:  # nobody has looked
                return []
            curves = self._run_curves_message(everything=True)
            return [self._runs_message({}), curves]

    def _send_runs(self, *, everything: bool) -> None:
        content, buffers = self._runs_message(self._runs_rows_sent)
        told = {k: v for k, v in content.items() if k not in ("rows", "whole")}
        if content["rows"] or told != self._runs_told or not self._runs_rows_sent:
            self._runs_rows_sent, self._runs_told = self._runs_rows, told
            self.widget.send(content, buffers)
        curves = self._run_curves_message(everything=everything)
        if curves[0]["parts"] or curves[0]["run"] != self._run_curves_sent:
            self._run_curves_sent = curves[0]["run"]
            self.widget.send(*curves)

    def _runs_message(self, sent: Mapping[str, Any]) -> Message:
        chosen, metric = self._runs_now(), self._runs_metric()
        names = labels(self._runs_known, chosen)
        content = {
            "kind": "runs.table",
            "rows": [row for key, row in self._runs_rows.items() if sent.get(key) != row],
            "gone": [key for key in sent if key not in self._runs_rows],
            "whole": not sent,
            "more": len(self._runs_known) - len(self._runs_rows),
            "folder": str(self._runs_where().root),
            "chosen": [
                {"key": k, "label": names[k], "slot": self._runs_slots.get(k, 0),
                 "problem": self._runs_readers[k].problem if k in self._runs_readers else ""}
                for k in chosen
            ],
            "metrics": self._runs_metrics(),
            "metric": metric,
            "differences": self._runs_settings[1],
        }  # fmt: skip
        return content, []

    def _run_curves_message(self, *, everything: bool) -> Message:
        everything |= self._run_curves_number != self._run_curves_sent
        slots = self._runs_slots
        series = [(c, {"age": 0, "slot": slots[key]}) for key, c in self._run_curves.items()]
        points, buffers = unsent(series, everything=everything)
        content = {
            "kind": "runs.curves",
            "run": self._run_curves_number,
            **points,
            "onDemand": [],
            "perEpoch": [0],
            "status": "",
            "placed": True,
        }
        return content, buffers

    # -- views that last -------------------------------------------------------------------------

    def runs_svg(self) -> str:
        """Return the curves of the chosen runs as a still picture, "" without any."""
        with self._runs_lock:
            self._read_runs()
            held = [c for c in self._run_curves.values() if len(c.x)]
            return curve_svg([(c.metric, c.name, list(c.x), list(c.y)) for c in held])

    def runs_html(self) -> str:
        """Return the runs as an HTML table without script, "" without any."""
        rows = self.run_table()
        metrics = list(dict.fromkeys(name for row in rows for name in row["metrics"]))[:6]
        head = ["run", "status", "epochs", "steps", *metrics, "tags"]
        cells = [
            [row["name"], row["status"], f"{row['epochs']:,}", f"{row['steps']:,}",
             *(_text(row["metrics"].get(name)) for name in metrics), " ".join(row["tags"])]
            for row in rows
        ]  # fmt: skip
        return html_table(head, cells) if rows else ""


def _text(value: Any) -> str:
    return "" if value is None else f"{float(value):.4g}"


def _stamp(store: Store) -> Any:
    """Return what changes with the runs of a store; reading its index alone changes nothing."""
    found: list[Any] = []
    with contextlib.suppress(OSError):
        index = store.path.name
        names = (path.name for path in store.root.iterdir())
        found = sorted(name for name in names if not name.startswith(index))
    for path in (store.path, store.path.with_name(f"{store.path.name}-wal")):
        with contextlib.suppress(OSError):
            stat = path.stat()
            found += [(stat.st_mtime_ns, stat.st_size)] * (stat.st_size > 0)
    return found


class RunComparison(Host):
    """All recorded runs in a table; curves and settings of those that are chosen, side by side.

    It is live: runs that other notebooks and processes record appear, and their curves grow. A
    training is recorded by a ``gw.Run`` among its callbacks.

    Args:
        runs: a folder of run folders, or a ``Store``; default ``$GRADWRIGHT_RUNS``, else the folder
            among the user's data.

    >>> import gradwright as gw, tempfile
    >>> store = gw.train.Store(tempfile.mkdtemp())
    >>> for rate in (0.1, 0.25):
    ...     g = gw.Graph("parabola")
    ...     w = g.variable("w", (), init=2.0)
    ...     run = gw.Run(name=f"rate {rate}", store=store)
    ...     trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(rate), callbacks=[run])
    ...     history = trainer.fit([{}], epochs=3, progress=False)
    >>> comparison = RunComparison(store, runs_sort="loss")
    >>> [row["name"] for row in comparison.run_table()]
    ['rate 0.25', 'rate 0.1']
    >>> comparison.compare("rate 0.1", "rate 0.25")
    >>> comparison.run_differences()
    [['training.optimizer.learning_rate', '0.1', '0.25']]
    """

    module = "run_comparison"
    panels = (RunsPanel,)
    desk_type = Desk
    height = traitlets.Int(560, min=320, max=4000, help="Height in pixels.").tag(sync=True)

    def __init__(self, runs: Any = None, **options: Any) -> None:
        super().__init__(runs=runs, **options)

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return the table and the curves as they are now."""
        self.run_differences()  # reads what is new
        return super().new_view_messages(whole=whole)

    def to_svg(self) -> str:
        """Return the curves of the chosen runs as a still picture."""
        return self.part(RunsPanel).runs_svg()

    def to_table(self) -> str:
        """Return the runs as an HTML table."""
        return self.part(RunsPanel).runs_html()

    def _title(self) -> str:
        return "Runs"
