"""The parameters of a graph: what they are, how training moves them, a box that freezes each."""

from __future__ import annotations

import fnmatch
import functools
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import traitlets

from gradwright import Graph
from gradwright.errors import GraphError
from gradwright.train import ParameterStatistics, Record
from gradwright.train.callbacks.statistics import COLUMNS, FLAGS, VALUE_COLUMNS

from ...host.desk import GraphDesk
from ...host.facts import frozen, parameters
from ...host.host import Host
from ...host.panel import Panel
from ...host.part import handles, shared
from ...host.wire import Message
from ...still.tables import parameter_html
from .measuring import LiveStatistics, Measurer, statistics_of

SHOWN = ("shape", "dtype", "count", "mean", "std", "norm", "gradient_norm", "ratio")
"""The columns that can be chosen; the box and the name are always there."""
SORTED = ("trained", "name", *SHOWN)
HISTORY = ("gradient_norm", "ratio")
"""The columns that are drawn over the steps."""

IN_A_PAGE = 20_000_000
"""Elements that a saved page is worth waiting for, 0.1 s."""
NOTED = 6
"""Parameters that are listed one by one where a hand has frozen several at once."""
OPEN = 100
"""Parameters up to which all groups begin open."""


class ParameterPanel(Panel):
    """The table."""

    name = "parameters"
    desk: GraphDesk

    parameters = shared(
        traitlets.List(
            traitlets.Dict(), help="Name, shape, dtype, size and bytes of each parameter."
        ),
        late=True,
    )
    table_columns = shared(
        traitlets.List(
            traitlets.Enum(SHOWN), help="Columns to show; none: those that the width has room for."
        )
    )
    table_sort = shared(
        traitlets.Enum(
            ("", *SORTED, *(f"-{name}" for name in SORTED)),
            "",
            help='Column to sort by, with "-" before it downwards; "" in the order of the graph.',
        )
    )
    table_filter = shared(
        traitlets.Unicode(
            "", help="What to show: a part of the name, a pattern such as ``*/w``, or ``/regex/``."
        )
    )
    table_groups = shared(traitlets.Bool(True, help="Whether parameters are grouped by scope."))
    table_closed = shared(traitlets.List(traitlets.Unicode(), help="Scopes that are closed."))

    def __init__(self, desk: GraphDesk) -> None:
        super().__init__(desk)
        self._statistics_lock = threading.RLock()
        self._statistics_pace = self.widget.paced(self._send_statistics, per_second=4)
        self._statistics = statistics_of(desk.trainer)
        self._statistics_stamp: Any = None
        self._statistics_key: Any = None
        self._statistics_layout = self._statistics_sent = 0
        self._looked_at = False
        self._measurer = Measurer(
            lambda: self.desk.values,
            lambda: _names(self.parameters),
            self.widget.background("parameter statistics"),
            self._statistics_pace.request,
        )

    def initial(self) -> dict[str, Any]:
        """Return the parameters; the outer scopes of a large model begin closed."""
        found = _described(self.desk)
        closed = _closed_at_first(_names(found))
        return {"parameters": found, "table_closed": closed}

    def begin(self) -> None:
        """Have steps sampled."""
        if isinstance(self._statistics, LiveStatistics):
            self._statistics.show_in(self.widget)

    # -- freezing --------------------------------------------------------------------------------

    def freeze(self, *patterns: str) -> None:
        """Freeze the parameters that fit, between two steps if training runs."""
        self._mark(patterns, freeze=True)

    def unfreeze(self, *patterns: str) -> None:
        """Let the parameters that fit be trained again, between two steps if training runs."""
        self._mark(patterns, freeze=False)

    def shown_parameters(self) -> list[str]:
        """Return the names that the filter shows; raises GraphError for a bad regex.

        ``table.freeze(*table.shown_parameters())`` freezes them, like the button beside the filter.
        """
        return [n for n in _names(self.parameters) if fits(self.table_filter, n)]

    @handles("freeze")
    def _on_freeze(self, content: dict[str, Any]) -> None:
        names = content.get("names")
        chosen = [str(name) for name in names] if isinstance(names, list) else []
        # As tensors and not as names, which may hold the wildcards of a pattern.
        freeze = bool(content.get("frozen"))
        before = set(self.desk.frozen)
        self._mark(chosen, freeze=freeze, literal=True)
        self._note([name for name in chosen if (name in before) != freeze], freeze)

    def _note(self, changed: Sequence[str], freeze: bool) -> None:
        """List what a hand has frozen or not; many at once as one change."""
        now, was = ("frozen", "trained") if freeze else ("trained", "frozen")

        def undo(desk: GraphDesk, names: Sequence[str]) -> None:
            mark(desk, names, freeze=not freeze, literal=True)

        if len(changed) > NOTED:
            key = f"frozen {freeze} {changed[0]} {len(changed)}"
            what = f"{len(changed):,} parameters"
            self.desk.changes.note(key, what, was, now, functools.partial(undo, names=changed))
            return
        for name in changed:
            back = functools.partial(undo, names=[name])
            self.desk.changes.note(f"frozen {name}", name, was, now, back)

    def _mark(self, chosen: Sequence[str], *, freeze: bool, literal: bool = False) -> None:
        mark(self.desk, chosen, freeze=freeze, literal=literal)

    # -- statistics ------------------------------------------------------------------------------

    @property
    def statistics(self) -> ParameterStatistics | None:
        """What is sampled of the trainer's steps; None without a trainer.

        A ``ParameterStatistics`` among the trainer's callbacks is shown as it is; where there is
        none, one is added that samples while the table is open.
        """
        return self._statistics

    def parameter_numbers(self) -> dict[str, dict[str, float]]:
        """Return the columns of each parameter as they are shown, NaN where nothing is known."""
        with self._statistics_lock:
            known = self._known()
        named = (dict(zip(COLUMNS, row, strict=True)) for row in known.now.tolist())
        return dict(zip(known.names, named, strict=True))

    def parameter_flags(self) -> dict[str, tuple[str, ...]]:
        """Return the parameters that need a look, and why: dead, exploding, not finite."""
        with self._statistics_lock:
            known = self._known()
        return {
            name: tuple(word for word, on in zip(FLAGS, row, strict=True) if on)
            for name, row in zip(known.names, known.flags, strict=True)
            if row.any()
        }

    def _measure_soon(self) -> None:
        if self._looked_at:
            self._measurer.measure_soon()

    # -- messages --------------------------------------------------------------------------------

    @handles("sync")
    def _on_statistics_sync(self, _: Any) -> None:
        self._looked_at = True
        self._measure_soon()
        with self._statistics_lock:
            self.widget.send(*self._statistics_message(everything=True))

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return all statistics, as one message."""
        self._measurer.measure(IN_A_PAGE)
        with self._statistics_lock:
            return [self._statistics_message(everything=True)]

    def _send_statistics(self) -> None:
        with self._statistics_lock:
            self.widget.send(*self._statistics_message(everything=False))

    def _statistics_message(self, *, everything: bool) -> Message:
        # The latest sample may only stand until the next one comes, so it is sent again.
        known = self._known(0 if everything else max(0, self._statistics_sent - 1))
        if known.key != self._statistics_key:
            self._statistics_layout += 1
            known = self._known()
            self._statistics_key = known.key
        self._statistics_sent = known.start + len(known.steps)
        content = {
            "kind": "parameters.statistics",
            "layout": self._statistics_layout,
            "names": [] if known.start else known.names,
            "start": known.start,
            "steps": known.steps,
            "sampled": self._statistics is not None,
        }
        with np.errstate(over="ignore"):
            floats = [known.history.astype("<f4"), known.now.astype("<f4")]
        arrays = [*floats, known.flags.astype(np.uint8)]
        return content, [memoryview(array.tobytes()) for array in arrays]

    def _known(self, start: int = 0) -> _Known:
        """Return what is known of each of ``parameters``, with the samples from ``start`` on."""
        place = {p["name"]: k for k, p in enumerate(self.parameters)}
        now = np.full((len(place), len(COLUMNS)), np.nan)
        flags = np.zeros((len(place), len(FLAGS)), bool)
        version = dict.fromkeys(place, -1)
        held = None if self._statistics is None else self._statistics.samples(start)
        steps = [] if held is None else held.steps.tolist()
        history = np.full((len(steps), len(place), len(HISTORY)), np.nan)
        if held is not None and steps:
            here = [k for k, name in enumerate(held.names) if name in place]
            there = [place[held.names[k]] for k in here]
            now[there], flags[there] = held.table[-1, here], held.flags[here]
            columns = [COLUMNS.index(name) for name in HISTORY]
            history[:, there] = held.table[:, here][:, :, columns]
            version.update((held.names[k], held.versions[k]) for k in here)
        for name, (measured, row) in self._measurer.rows().items():
            if name in place and measured > version[name]:
                now[place[name], : len(VALUE_COLUMNS)] = row
                flags[place[name], -1] |= not np.isfinite(row[VALUE_COLUMNS.index("norm")])
        key = list(place), None if held is None else (held.layout, held.names)
        return _Known(key, start, steps, history, now, flags)

    # -- following -------------------------------------------------------------------------------

    def step_ended(self, record: Record) -> None:
        """Send a sample."""
        held = self._statistics
        if held is not None and held.stamp != self._statistics_stamp:
            self._statistics_stamp = held.stamp
            if self._looked_at:
                self.when_shown(self._statistics_pace.request)

    def training_ended(self) -> None:
        """Send the last sample and the values as they are now."""
        self.when_shown(self._measure_soon)
        if self._looked_at:
            self._statistics_pace.flush()

    def refresh(self) -> None:
        """Show the parameters as they are now."""
        self.when_shown(self._describe)

    def _describe(self) -> None:
        now = _described(self.desk)
        if now != self.parameters:
            self.parameters = now
            self._measurer.forget_others()
            self._statistics_pace.request()
        self._measure_soon()

    # -- views that last -------------------------------------------------------------------------

    def to_table(self) -> str:
        """Return the parameters as an HTML table."""
        self._measurer.measure(IN_A_PAGE)
        numbers, flags = self.parameter_numbers(), self.parameter_flags()
        return parameter_html(_described(self.desk), frozen(self.desk.graph), numbers, flags)


@dataclass(frozen=True)
class _Known:
    """What a table shows: history f64[steps, n, 2], columns f64[n, 9], flags bool[n, 3]."""

    key: Any
    """Changes when rows or samples that were there move."""
    start: int
    steps: list[int]
    history: Any
    now: Any
    flags: Any

    @property
    def names(self) -> list[str]:
        names: list[str] = self.key[0]
        return names


class ParameterTable(Host):
    """A table of the parameters of a graph, with a box that says whether each is trained.

    It shows shape, dtype, size and the moments of the values; with a ``trainer`` also the norm of
    the gradient and the update-to-weight ratio of its steps, live and over the past, and words
    where a parameter needs a look: dead, exploding, not finite.

    Freezing changes the graph itself, so every trainer of it obeys from its next step on. Pass the
    ``trainer`` that may be running meanwhile, so that the box waits for a step boundary.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w, b = g.variable("hidden/w", (2, 3), init=0.5), g.variable("hidden/b", (3,))
    >>> table = ParameterTable(g, table_filter="*/w", table_sort="-norm")
    >>> table.freeze(*table.shown_parameters())
    >>> table.frozen, w.trainable
    (['hidden/w'], False)
    """

    module = "parameter_table"
    panels = (ParameterPanel,)

    def __init__(self, graph: Graph, trainer: Any = None, **options: Any) -> None:
        super().__init__(graph, trainer, **options)


def mark(desk: GraphDesk, chosen: Sequence[str], *, freeze: bool, literal: bool = False) -> None:
    """Freeze what fits, or let it be trained; between two steps if training runs."""
    graph = desk.graph
    change = graph.freeze if freeze else graph.unfreeze

    def command() -> None:
        if not literal or chosen:
            found = map(graph.__getitem__, chosen) if literal else chosen
            desk.widget.guarded(lambda: change(*found))
        desk.frozen = frozen(graph)

    desk.commands.submit(command)


def _described(desk: GraphDesk) -> list[dict[str, Any]]:
    """Return the facts of each parameter; ``"running"`` is one that is state, as a running mean."""
    graph = desk.graph
    return [
        {**p, "bytes": t.spec.nbytes, "running": graph.updates.holds_state(t)}
        for p in parameters(graph, desk.trainer)
        for t in [graph[p["name"]]]
    ]


def fits(text: str, name: str) -> bool:
    """Tell whether a filter shows a name."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == "/":
        try:
            return re.search(text[1:-1], name) is not None
        except (re.error, RecursionError, OverflowError) as error:
            raise GraphError(f"{text[:80]} is no regular expression: {error}") from None
    if any(c in text for c in "*?["):
        return fnmatch.fnmatchcase(name, text)
    return text.lower() in name.lower()


def _closed_at_first(names: Sequence[str]) -> list[str]:
    """Return the outer scopes of a large model, those inside of a scope that holds all."""
    if len(names) <= OPEN:
        return []
    prefix = ""
    while True:
        inside = {n.removeprefix(prefix).partition("/")[::2] for n in names}
        tops = {top for top, rest in inside if rest}
        if len(tops) != 1 or any(not rest for _, rest in inside):
            return [prefix + top for top in sorted(tops)]
        prefix += tops.pop() + "/"


def _names(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]
