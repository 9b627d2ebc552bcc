"""Timing: how often a session ran what, how long that took, and how long planning did."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..graph import Tensor
from ..program.row import names_of
from ..words.tables import Table, Tabular

MOST = 256
"""How many lines are kept; what is new takes the place of the oldest."""


class Times:
    """Runs of one request: how many there were, and how long they took.

    >>> times = Times("loss", "train")
    >>> times.add(0.002)
    >>> times.add(0.001)
    >>> times.runs, times.seconds, times.least, times.mean
    (2, 0.003, 0.001, 0.0015)
    """

    __slots__ = ("last", "least", "mode", "planning", "plans", "runs", "seconds", "what")

    def __init__(self, what: str, mode: str) -> None:
        self.what, self.mode = what, mode
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.runs = self.plans = 0
        self.seconds = self.planning = self.last = 0.0
        self.least = math.inf

    def add(self, seconds: float) -> None:
        """Note a run."""
        self.runs += 1
        self.seconds += seconds
        self.last = seconds
        if seconds < self.least:
            self.least = seconds

    def planned(self, seconds: float) -> None:
        """Note that a plan was made."""
        self.plans += 1
        self.planning += seconds

    @property
    def mean(self) -> float:
        """Seconds of a run, on average."""
        return self.seconds / self.runs if self.runs else 0.0


class Timing(Tabular):
    """What a session has run, a line for each set of fetches; print it, or show it in a notebook.

    It is always there, and costs 0.3 µs a run. How long the steps of a plan take, one by one,
    ``plan.profile(feeds)`` tells.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None,))
    >>> y = gw.exp(x, name="y")
    >>> session = gw.Session(g)
    >>> for n in (1, 1, 2):
    ...     _ = session.run(y, {"x": [0.0] * n})
    >>> session.timing.runs, session.timing.plans
    (3, 2)
    >>> session.timing.reset()
    >>> session.timing.runs, len(session.timing.rows)
    (0, 0)
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Times] = {}

    def of(self, fetches: Iterable[Tensor], training: bool) -> Times:
        """Return the line of a request."""
        key = names_of(fetches), "train" if training else "eval"
        if (found := self._rows.get(key)) is None:
            while len(self._rows) >= MOST:
                self._rows.pop(next(iter(self._rows)), None)
            found = self._rows[key] = Times(*key)
        return found

    @property
    def rows(self) -> list[Times]:
        """The lines of what has run since the last ``reset``, what took longest first."""
        found = [t for t in list(self._rows.values()) if t.runs or t.plans]
        return sorted(found, key=lambda t: -(t.seconds + t.planning))

    @property
    def runs(self) -> int:
        """How often the session ran."""
        return sum(t.runs for t in self.rows)

    @property
    def seconds(self) -> float:
        """How long all runs took together, planning apart."""
        return sum(t.seconds for t in self.rows)

    @property
    def plans(self) -> int:
        """How many plans were made."""
        return sum(t.plans for t in self.rows)

    @property
    def planning(self) -> float:
        """How many seconds planning took."""
        return sum(t.planning for t in self.rows)

    def reset(self) -> None:
        """Begin anew."""
        for times in list(self._rows.values()):
            times.reset()

    def table(self) -> Table:
        """Return all lines as a table."""
        rows = [
            [
                *(t.what, t.mode, f"{t.runs:,}", f"{t.seconds * 1e3:,.1f}"),
                *(f"{t.mean * 1e6:,.1f}", f"{(t.least if t.runs else 0.0) * 1e6:,.1f}"),
                *(f"{t.last * 1e6:,.1f}", f"{t.plans:,}", f"{t.planning * 1e3:,.1f}"),
            ]
            for t in self.rows
        ]
        columns = ["what", "mode", "runs", "total ms", "mean µs", "least µs", "last µs"]
        return Table([*columns, "plans", "planning ms"], rows, title=self._said())

    def _said(self) -> str:
        runs, plans = self.runs, self.plans
        return (
            f"{runs:,} run{'s' * (runs != 1)} in {self.seconds * 1e3:,.4g} ms, "
            f"{plans:,} plan{'s' * (plans != 1)} made in {self.planning * 1e3:,.4g} ms"
        )

    def __repr__(self) -> str:
        return f"<Timing: {self._said()}>"
