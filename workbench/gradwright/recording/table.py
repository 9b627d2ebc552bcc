"""Runs: the table of runs, to filter, sort, plot and compare."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ..errors import TrainingError
from ..train.direction import falls
from ..words.spelling import meant
from ..words.tables import Table, Tabular
from .folder import RunFolder, RunSummary, is_alive, when
from .store import Store

if TYPE_CHECKING:
    import plotly.graph_objects as go

SHOWN = 30
"""How many runs a table shows."""
METRICS = 6
"""And how many of their metrics."""
NAMED = 8
"""How many of them an error names."""


class Runs(Tabular, Sequence[RunSummary]):
    """Runs as a table; filters and sorts give tables again.

    >>> import gradwright as gw, tempfile
    >>> store = gw.train.Store(tempfile.mkdtemp())
    >>> for rate in (0.1, 0.25):
    ...     g = gw.Graph("parabola")
    ...     w = g.variable("w", (), init=2.0)
    ...     run = gw.Run(name=f"rate {rate}", tags=["demo"], store=store)
    ...     trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(rate), callbacks=[run])
    ...     history = trainer.fit([{}], epochs=3, progress=False)
    >>> table = gw.runs(store)
    >>> [run.name for run in table.filter(tag="demo").sort("loss")]
    ['rate 0.25', 'rate 0.1']
    >>> table.compare("rate 0.1", "rate 0.25").config
    [('training.optimizer.learning_rate', 0.1, 0.25)]
    """

    def __init__(self, rows: Iterable[RunSummary]) -> None:
        self._rows = list(rows)

    @overload
    def __getitem__(self, key: int | str) -> RunSummary: ...

    @overload
    def __getitem__(self, key: slice) -> Runs: ...

    def __getitem__(self, key: int | str | slice) -> RunSummary | Runs:
        """Return a run by its place, name or id.

        Raises IndexError for a place that there is not, KeyError where no run or several fit.
        """
        if isinstance(key, slice):
            return Runs(self._rows[key])
        if isinstance(key, int):
            if not -len(self) <= key < len(self):
                raise IndexError(f"there is no run {key}: {self._there()}")
            return self._rows[key]
        found = [r for r in self._rows if key in (r.id, r.name)]
        if len(found) != 1:
            if found:
                ids = " or ".join(repr(r.id) for r in found[:NAMED])
                raise KeyError(f"{len(found)} runs are called {key!r}: ask by place, or {ids}")
            close = meant(str(key), [r.name for r in self._rows])
            hint = f"; did you mean {close!r}?" if close else ""
            raise KeyError(f"0 runs are called {key!r}: {self._there()}{hint}")
        return found[0]

    def _there(self) -> str:
        """Say which runs there are: how many, and the names of the first."""
        names = list(dict.fromkeys(r.name for r in self._rows))
        shown = ", ".join(map(repr, names[:NAMED])) + ", ..." * (len(names) > NAMED)
        return f"{len(self)} run{'s' * (len(self) != 1)}{f', {shown}' if names else ''}"

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def metrics(self) -> list[str]:
        """Return the names of all metrics there are."""
        return list(dict.fromkeys(name for row in self._rows for name in row.metrics))

    def filter(
        self,
        where: Callable[[RunSummary], bool] | None = None,
        *,
        name: str | None = None,
        graph: str | None = None,
        status: str | None = None,
        tag: str | None = None,
    ) -> Runs:
        """Return the runs for which all hold; ``name`` and ``graph`` may be patterns."""

        def fits(row: RunSummary) -> bool:
            return (
                (name is None or fnmatchcase(row.name, name))
                and (graph is None or fnmatchcase(row.graph, graph))
                and status in (None, row.status)
                and (tag is None or tag in row.tags)
                and (where is None or where(row))
            )

        return Runs(filter(fits, self._rows))

    def sort(self, by: str, *, descending: bool | None = None) -> Runs:
        """Return the runs by a metric, the best first; by ``"created"`` and others, the latest.

        ``descending`` is needed for a metric whose name does not tell whether less is better, as
        ``"val_loss"`` does. Runs without it come last.
        """
        if by in ("created", "updated", "steps", "epochs", "seconds"):
            least, found = False, {id(r): float(getattr(r, by)) for r in self._rows}
        else:
            self._check(by)
            mode = None if descending is None else "max" if descending else "min"
            least = falls(by, mode, "descending=True or descending=False")
            found = {id(r): r.metrics[by] for r in self._with(by)}
        sign = -1.0 if (not least if descending is None else descending) else 1.0
        have = sorted((r for r in self._rows if id(r) in found), key=lambda r: sign * found[id(r)])
        return Runs([*have, *(r for r in self._rows if id(r) not in found)])

    def plot(self, metric: str = "val_loss") -> go.Figure:
        """Return a figure: the metric over the epochs, a line for each run that has it."""
        self._check(metric)
        return _curves(self._with(metric), metric)

    def compare(self, first: int | str, second: int | str) -> RunsComparison:
        """Return where two runs differ: settings, final metrics and curves."""
        return RunsComparison(self[first], self[second])

    def table(self, n: int = SHOWN) -> Table:
        """Return the first ``n`` runs as a table of texts."""
        metrics = self.metrics[:METRICS]
        rows = [
            [
                r.name,
                r.status,
                when(r.created),
                f"{r.epochs:,}",
                f"{r.steps:,}",
                f"{r.seconds:.3g} s",
                *(f"{r.metrics[m]:.4g}" if m in r.metrics else "" for m in metrics),
                " ".join(r.tags),
                r.id[:8],
            ]
            for r in self._rows[:n]
        ]
        more = len(self) - len(rows)
        head = ["name", "status", "begun", "epochs", "steps", "time", *metrics, "tags", "id"]
        notes = [f"and {more} more"] if more > 0 else []
        return Table(head, rows, title=f"{len(self)} run{'s' * (len(self) != 1)}", notes=notes)

    def _with(self, metric: str) -> list[RunSummary]:
        return [row for row in self._rows if not math.isnan(row.metrics.get(metric, math.nan))]

    def _check(self, metric: str) -> None:
        if metric not in self.metrics:
            close = meant(metric, self.metrics)
            raise TrainingError(
                f"no run has measured {metric!r}",
                facts=[f"measured: {', '.join(self.metrics) or 'nothing'}"],
                hint=f"did you mean {close!r}?" if close else "",
            )

    __repr__ = Tabular.__str__


class RunsComparison(Tabular):
    """Where two runs differ.

    >>> import gradwright as gw, tempfile
    >>> store = gw.train.Store(tempfile.mkdtemp())
    >>> for rate in (0.1, 0.2):
    ...     g = gw.Graph()
    ...     w = g.variable("w", (), init=1.0)
    ...     run = gw.Run(store=store)
    ...     trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(rate), callbacks=[run])
    ...     history = trainer.fit([{}], progress=False)
    >>> found = gw.runs(store).compare(0, 1)
    >>> [(name, *sorted(both)) for name, *both in found.config if "rate" in name]
    [('training.optimizer.learning_rate', 0.1, 0.2)]
    """

    def __init__(self, first: RunSummary, second: RunSummary) -> None:
        self.first, self.second = first, second
        one, two = (_flat(_settings(row.open())) for row in (first, second))
        self.config: list[tuple[str, Any, Any]] = [
            (key, one.get(key), two.get(key))
            for key in dict.fromkeys([*one, *two])
            if one.get(key) != two.get(key)
        ]
        """Settings that differ: name, the first's and the second's; None where one has none."""
        self.metrics: list[tuple[str, float | None, float | None]] = [
            (name, first.metrics.get(name), second.metrics.get(name))
            for name in dict.fromkeys([*first.metrics, *second.metrics])
        ]
        """Metrics of their last epochs."""

    def table(self) -> Table:
        """Return metrics and settings that differ as a table."""
        rows = [
            [name, *("" if v is None else f"{v:.4g}" for v in values)]
            for name, *values in self.metrics
        ]
        rows += [
            [key, *("" if v is None else _short(v) for v in values)] for key, *values in self.config
        ]
        n = len(self.config)
        title = "1 setting differs" if n == 1 else f"{n} settings differ"
        return Table(["", self.first.name, self.second.name], rows, title=title)

    def plot(self, metric: str | None = None) -> go.Figure:
        """Return a figure of a metric of both; default validation loss, or loss."""
        shared = [name for name, a, b in self.metrics if a is not None and b is not None]
        wanted = [metric] if metric else ["val_loss", "loss", *shared]
        found = next((name for name in wanted if name in shared), None)
        if found is None:
            raise TrainingError(
                f"not both have measured {metric or 'anything'!r}",
                facts=[f"both have: {', '.join(shared) or 'nothing'}"],
            )
        return _curves([self.first, self.second], found)

    __repr__ = Tabular.__str__


def runs(where: Store | str | os.PathLike[str] | None = None) -> Runs:
    """Return all runs, the latest first, as a table to filter, sort, plot and compare.

    ``where`` is a folder of run folders, or a ``Store``; default ``$GRADWRIGHT_RUNS``, else the
    folder among the user's data. A run whose process is gone without an end is ``"interrupted"``.

    >>> import gradwright as gw, tempfile
    >>> gw.runs(tempfile.mkdtemp())
    0 runs
    name  status  begun  epochs  steps  time  tags  id
    """
    store = where if isinstance(where, Store) else Store(where)
    if where is not None and not store.root.is_dir():
        raise TrainingError(f"{str(store.root)!r} is no folder", need="a folder of run folders")
    return Runs(map(_as_it_is, store.rows()))


def _as_it_is(row: RunSummary) -> RunSummary:
    """Return a row with the status of a process that was killed."""
    gone = row.status == "running" and not is_alive(row.pid, row.host)
    return replace(row, status="interrupted") if gone else row


def _settings(run: RunFolder) -> dict[str, Any]:
    own = ("format", "id", "name", "created", "notes")
    return {key: value for key, value in run.config.items() if key not in own}


def _flat(value: Any, at: str = "") -> dict[str, Any]:
    """Return nested settings by dotted name.

    >>> _flat({"a": {"b": 1, "c": [2]}, "d": {}})
    {'a.b': 1, 'a.c': [2]}
    """
    if not isinstance(value, Mapping):
        return {at: value}
    found = {}
    for key, inner in value.items():
        found.update(_flat(inner, f"{at}.{key}" if at else str(key)))
    return found


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else text[:59] + "…"


def _curves(rows: Sequence[RunSummary], metric: str) -> go.Figure:
    import plotly.graph_objects as go

    figure = go.Figure()
    for row in rows:
        epochs = row.open().history.epochs.snapshot()
        figure.add_scatter(
            x=epochs["epoch"],
            y=epochs[metric],
            name=html.escape(row.name),  # plotly would take it for HTML
            hovertext=html.escape(Path(row.folder).name),
            mode="lines+markers",
        )
    figure.update_layout(
        template="plotly_white",
        xaxis_title="epoch",
        yaxis_title=html.escape(metric),
        showlegend=True,
        hovermode="x unified",
        margin={"t": 40},
    )
    return figure
