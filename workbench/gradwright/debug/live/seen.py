"""Seen: what a watch has to show, now or long after: a strip of errors and the alarms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...words.tables import Table, Tabular
from ..check.findings import amount
from .points import Alarm, Point, Strip, columns, points_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

_COLOURS = {
    "ok": "#2171b5",
    "kink": "#6baed6",
    "surrogate": "#807dba",
    "unclear": "#b0b0b0",
    "fail": "#cb181d",
}
_LEAST = 1e-17
"""Where an error of 0 stands on a logarithmic axis."""


class Seen(Tabular):
    """Points and alarms of a watch.

    >>> seen = Seen()
    >>> seen.strip.append(Point(3, "w", "element", 1e-9, 1e-5, "ok", (0, 1)))
    >>> print(seen)
    gradients agree: 0 nodes and 1 parameter seen in 1 look, no alarm
    name  kind     looks  worst    noise    step  verdict
    w     element  1      1.0e-09  1.0e-05  3     ok
    >>> Seen.from_dict(seen.to_dict()).points == seen.points
    True
    """

    def __init__(self, points: Iterable[Point] = (), alarms: Iterable[Alarm] = ()) -> None:
        self.strip = Strip()
        self.alarms = list(alarms)
        for found in points:
            self.strip.append(found)

    @property
    def points(self) -> tuple[Point, ...]:
        """What was seen, by step; neighbours may be merged, and the worse one stays."""
        return self.strip.points

    @property
    def worst(self) -> Point | None:
        """The point that is the furthest above its noise."""
        return self.strip.worst

    @property
    def alarm(self) -> Alarm | None:
        """The first alarm."""
        return self.alarms[0] if self.alarms else None

    def table(self) -> Table:
        """Return a row for each node and parameter that was seen, the worst first."""
        held: dict[tuple[str, str], list[Point]] = {}
        for p in self.points:
            held.setdefault((p.name, p.kind), []).append(p)
        worst = {key: max(points, key=lambda p: p.badness) for key, points in held.items()}
        rows = [
            [
                p.name, p.kind, str(len(held[p.name, p.kind])), f"{p.error:.1e}",
                f"{p.noise:.1e}", str(p.step), p.verdict,
            ]
            for p in sorted(worst.values(), key=lambda p: p.badness, reverse=True)
        ]  # fmt: skip
        names = ["name", "kind", "looks", "worst", "noise", "step", "verdict"]
        notes = [f"step {a.step}: {a.text}" for a in self.alarms]
        return Table(names, rows, title=self.summary(), notes=notes)

    def summary(self) -> str:
        """Return it in a line."""
        points, alarm = self.points, self.alarm
        if alarm is None:
            if not points:
                return "nothing seen yet"
            nodes = len({p.name for p in points if p.kind == "node"})
            parameters = len({p.name for p in points if p.kind == "element"})
            met = amount(nodes, "node"), amount(parameters, "parameter")
            looks = amount(len(points), "look")
            return f"gradients agree: {met[0]} and {met[1]} seen in {looks}, no alarm"
        return f"wrong since step {alarm.step}: {alarm.op or 'parameter'} {alarm.address!r}"

    def plot(self) -> go.Figure:
        """Return a figure: the error of each look over the steps, the noise, and the alarms."""
        import plotly.graph_objects as go

        figure, points = go.Figure(), self.points
        for verdict, colour in _COLOURS.items():
            of = [p for p in points if p.verdict == verdict]
            figure.add_scatter(
                x=[p.step for p in of],
                y=[_height(p.error) for p in of],
                name=verdict,
                text=[f"{p.kind} {p.name}" for p in of],
                mode="markers",
                marker={"color": colour, "size": 5},
            )
        figure.add_scatter(
            x=[p.step for p in points],
            y=[_height(p.noise) for p in points],
            name="would pass",
            mode="lines",
            line={"color": "#b0b0b0", "width": 1},
        )
        for alarm in self.alarms:
            figure.add_vline(
                x=alarm.step, line_color=_COLOURS["fail"], annotation_text=alarm.address
            )
        figure.update_layout(
            template="plotly_white",
            xaxis_title="step",
            yaxis={"title": "relative error", "type": "log", "exponentformat": "power"},
            margin={"t": 40},
        )
        return figure

    def to_dict(self) -> dict[str, Any]:
        """Return points and alarms as what JSON can hold."""
        return {"points": columns(self.points), "alarms": [a.to_dict() for a in self.alarms]}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Seen:
        """Return what ``to_dict`` wrote; raises TypeError, KeyError or ValueError for others."""
        return cls(points_of(found["points"]), map(Alarm.from_dict, found["alarms"]))

    def __repr__(self) -> str:
        return f"<Seen: {self.summary()}>"


def _height(x: float) -> float | None:
    return max(x, _LEAST) if math.isfinite(x) else None
