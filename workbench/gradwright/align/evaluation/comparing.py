"""compare: what a model answers now that it did not before, and the other way round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import TrainingError
from ...words.tables import Table, Tabular
from .held_out import HeldOut, bars, spread
from .statistics import McNemar, mcnemar

if TYPE_CHECKING:
    import plotly.graph_objects as go

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """A prompt whose answer has changed from right to wrong, or from wrong to right."""

    row: int
    prompt: str
    before: str
    after: str


@dataclass(frozen=True)
class Comparison(Tabular):
    """Two evaluations on the same prompts, side by side; ``gw.align.compare`` makes it.

    Where several answers were drawn, the first to each prompt make the pairs of McNemar's test.

    >>> from gradwright.align.evaluation.comparing import Comparison
    >>> from gradwright.align.evaluation.held_out import Answers, HeldOut
    >>> no, yes = (Answers((("4",),), ((b,),), ((True,),), ((2,),)) for b in (False, True))
    >>> change = Comparison(*(HeldOut(("2+2=",), {"greedy": said}) for said in (no, yes)))
    >>> change.mcnemar().gained, change.gained()[0].prompt
    (1, '2+2=')
    """

    before: HeldOut
    after: HeldOut

    @property
    def ways(self) -> list[str]:
        """How answers were drawn in both."""
        return [way for way in self.before.ways if way in self.after.ways]

    def mcnemar(self, way: str = "greedy", among: Array | None = None) -> McNemar:
        """Return how sure the change is; ``among``, bool[prompts], leaves out others."""
        was, now = self._pairs(way)
        kept = np.ones(len(was), bool) if among is None else among
        return mcnemar(int((now & ~was & kept).sum()), int((was & ~now & kept).sum()))

    def gained(self, way: str = "greedy") -> list[Case]:
        """Return the prompts that are answered rightly now, and were not before."""
        was, now = self._pairs(way)
        return self._cases(way, now & ~was)

    def lost(self, way: str = "greedy") -> list[Case]:
        """Return the prompts that were answered rightly before, and are no more."""
        was, now = self._pairs(way)
        return self._cases(way, was & ~now)

    def table(self) -> Table:
        """Return a row for each slice and way to draw: both rates, the change, how sure it is."""
        rows = []
        for name, among in self.before.groups().items():
            for way in self.ways:
                told = [spread(x.rate(way, among), x.interval(way, among)) for x in self._both()]
                change = self.mcnemar(way, among)
                counts = [f"{change.gained:>6}", f"{change.lost:>4}"]
                rows.append([name, way, *told, *counts, f"{change.z:>5.1f}", f"{change.p:.2g}"])
        for way in self.ways:
            formed = [f"{x.format_rate(way):.3f}" for x in self._both()]
            rows.append(["well-formed", way, *formed, "", "", "", ""])
        title = f"{len(self.before.prompts)} held-out prompts, before and after"
        columns = ["slice", "answers", "before", "after", "gained", "lost", "z", "p"]
        return Table(columns, rows, title=title)

    def cases(self, way: str = "greedy", most: int = 20) -> Table:
        """Return the prompts that were lost, then those gained, with both answers."""
        lost, gained = self.lost(way), self.gained(way)
        told = [("lost", c) for c in lost[:most]] + [("gained", c) for c in gained[:most]]
        rows = [[what, c.prompt, repr(c.before), repr(c.after)] for what, c in told]
        left = len(lost) + len(gained) - len(rows)
        notes = [f"and {left} more"] if left else []
        title = f"{way}: {len(lost)} lost, {len(gained)} gained"
        return Table(["", "prompt", "before", "after"], rows, title=title, notes=notes)

    def plot(self) -> go.Figure:
        """Return a figure of the rates before and after, by slice and way to draw."""
        names = [
            f"{name}, {way}" if len(self.ways) > 1 else name
            for name in self.before.groups()
            for way in self.ways
        ]
        series = {
            label: [
                (seen.rate(way, among), seen.interval(way, among))
                for among in self.before.groups().values()
                for way in self.ways
            ]
            for label, seen in zip(("before", "after"), self._both(), strict=True)
        }
        return bars(names, series, f"{len(self.before.prompts)} held-out prompts")

    def _both(self) -> tuple[HeldOut, HeldOut]:
        return self.before, self.after

    def _pairs(self, way: str) -> tuple[Array, Array]:
        """Return whether the first answer to each prompt was right, and is: 2 x bool[prompts]."""
        first, second = (x.right(way) for x in self._both())
        return first[:, 0], second[:, 0]

    def _cases(self, way: str, chosen: Array) -> list[Case]:
        was, now = (x.answers(way).texts for x in self._both())
        prompts = self.before.prompts
        return [Case(int(i), prompts[i], was[i][0], now[i][0]) for i in np.flatnonzero(chosen)]


def compare(before: HeldOut, after: HeldOut) -> Comparison:
    """Return what has changed between two evaluations on the same prompts.

    Raises TrainingError where prompts differ, or no way to draw is common to both.

    >>> import gradwright as gw
    >>> from gradwright.align.evaluation.held_out import Answers, HeldOut
    >>> def seen(*right):
    ...     each = tuple((r,) for r in right)
    ...     said = tuple(("yes" if r else "no",) for r in right)
    ...     return HeldOut(("a", "b", "c"), {"greedy": Answers(said, each, each, each)})
    >>> change = gw.align.compare(seen(False, False, True), seen(True, True, False))
    >>> change.mcnemar()[:2], change.lost()
    ((2, 1), [Case(row=2, prompt='c', before='yes', after='no')])
    """
    if before.prompts != after.prompts:
        raise TrainingError(
            "the two evaluations are of other prompts",
            facts=[f"{len(before.prompts)} before, {len(after.prompts)} after"],
            need="the same ones in the same order",
        )
    found = Comparison(before, after)
    if not found.ways or not before.prompts:
        raise TrainingError(
            f"answers were drawn {_listed(before)} before, {_listed(after)} after",
            need="prompts, and a way in common",
        )
    return found


def _listed(seen: HeldOut) -> str:
    return ", ".join(seen.ways) or "in no way"
