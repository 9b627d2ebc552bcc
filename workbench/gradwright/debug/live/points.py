"""What a watch has seen: points, a strip of them that stays short, and alarms."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..check.blame import NodeCheck
from ..check.findings import blamed
from ..check.judging import Comparison
from ..check.probe import ElementCheck

MOST = 1024
"""Points that a strip keeps: more than it has pixels."""


@dataclass(frozen=True, slots=True)
class Point:
    """One look at a gradient: an error, beside the error that would have passed.

    Both are relative; ``error`` is inf where the gradient is not finite, and both are where the
    values are no numbers, so that nothing can be told.
    """

    step: int
    """Number of the step, from 1, whose values and batch it is of."""
    name: str
    """Of a node, or of a parameter."""
    kind: str
    """``"node"``, its own rule beside its own forward; ``"element"`` of a parameter, beside
    differences of the loss; or ``"precision"``, the compiled node beside float64."""
    error: float
    noise: float
    verdict: str
    """``ok``, ``kink``, ``surrogate``, ``unclear`` or ``fail``, of a check; that if confirmed."""
    index: tuple[int, ...] | None = None
    """Of the element; None for a random direction, and for nodes."""

    @property
    def above(self) -> bool:
        """Whether the error is above noise: confirmed, or not finite."""
        return self.verdict == "fail"

    @property
    def badness(self) -> tuple[bool, float]:
        """What is worse is larger: a failure than none, and an error by its noise."""
        if not math.isfinite(self.noise):
            return self.above, 0.0
        return self.above, self.error / self.noise if self.noise > 0 else self.error


def point(step: int, name: str, kind: str, checks: Iterable[Comparison], verdict: str) -> Point:
    """Return the point of the worst of some comparisons."""
    worst = max(checks, key=lambda c: c.score)
    size = max(abs(worst.analytic), abs(worst.numeric))
    noise = worst.tolerance / size if size > 0 else 0.0
    error = worst.relative_error
    return Point(step, name, kind, _number(error), _number(noise), verdict)


def _number(x: float) -> float:
    return math.inf if math.isnan(x) else float(x)


@dataclass(frozen=True)
class Alarm:
    """A gradient that is wrong, confirmed by a second look with other numbers.

    ``step`` is that of the values, ``address`` says where. ``nodes`` are the names of the graph to
    light: the node at fault, or the parameter where every node is right by itself and the error is
    in how they are joined.
    """

    step: int
    address: str
    text: str
    nodes: tuple[str, ...]
    op: str = ""
    where: str = ""
    """The user's line."""
    check: NodeCheck | ElementCheck | None = field(default=None, compare=False)
    """What was found; None for an alarm that was read from a file."""

    @classmethod
    def of_node(cls, step: int, check: NodeCheck) -> Alarm:
        """Return the alarm of a node whose vjp disagrees with its forward.

        Inside of it, that is the first at fault. In a loop it is told for any turn: a look takes a
        few.
        """
        fault = check.faults()[0]
        address = str(fault.address.anywhere)
        return cls(step, address, blamed(fault), (check.name,), fault.op, fault.where, check)

    @classmethod
    def of_element(cls, step: int, check: ElementCheck) -> Alarm:
        """Return the alarm of a parameter whose gradient is wrong though every node is right."""
        text = (
            f"The gradient of {check.parameter!r} is wrong though every op's own vjp is right: "
            f"the error is in how they are joined ({check})"
        )
        return cls(step, check.parameter, text, (check.parameter,), check=check)

    def to_dict(self) -> dict[str, Any]:
        """Return it as what JSON can hold, without its check."""
        return {
            "step": self.step, "address": self.address, "text": self.text,
            "nodes": list(self.nodes), "op": self.op, "where": self.where,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Alarm:
        """Return the alarm that ``to_dict`` wrote; raises TypeError or ValueError for others."""
        address, text, op, where = (str(found[k]) for k in ("address", "text", "op", "where"))
        nodes = tuple(map(str, found["nodes"]))
        return cls(int(found["step"]), address, text, nodes, op, where)


class Strip:
    """The latest and the worst of many points: neighbours are merged, and the worse one stays.

    Any thread may read while another appends.

    >>> strip = Strip(most=4)
    >>> for step in range(9):
    ...     strip.append(Point(step, "w", "element", 10.0 ** -step, 1.0, "ok"))
    >>> [point.step for point in strip.points]
    [0, 6, 8]
    """

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.worst: Point | None = None
        self._points: list[Point] = []
        self._lock = threading.Lock()

    def append(self, found: Point) -> None:
        """Add a point, which may push two earlier ones together."""
        with self._lock:
            points = self._points
            points.append(found)
            if len(points) > self.most:
                pairs = zip(points[:-1:2], points[1:-1:2], strict=False)
                merged = [max(pair, key=lambda p: p.badness) for pair in pairs]
                self._points = [*merged, *points[2 * len(merged) :]]
            if self.worst is None or found.badness > self.worst.badness:
                self.worst = found

    @property
    def points(self) -> tuple[Point, ...]:
        """All points that are kept, by step."""
        with self._lock:
            return tuple(self._points)


COLUMNS = ("step", "error", "noise", "name", "kind", "verdict", "index")


def columns(points: Iterable[Point]) -> dict[str, list[Any]]:
    """Return points as columns that JSON can hold; infinities are text, as in histories."""
    found: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for p in points:
        row = (
            p.step, _plain(p.error), _plain(p.noise), p.name, p.kind, p.verdict,
            None if p.index is None else list(p.index),
        )  # fmt: skip
        for name, value in zip(COLUMNS, row, strict=True):
            found[name].append(value)
    return found


def points_of(found: Mapping[str, Any]) -> list[Point]:
    """Return the points that ``columns`` wrote; raises TypeError or ValueError for others."""
    rows = zip(*(found[name] for name in COLUMNS), strict=True)
    return [
        Point(
            int(step), str(name), str(kind), float(error), float(noise), str(verdict),
            None if index is None else tuple(map(int, index)),
        )
        for step, error, noise, name, kind, verdict, index in rows
    ]  # fmt: skip


def _plain(x: float) -> float | str:
    return x if math.isfinite(x) else str(x)
