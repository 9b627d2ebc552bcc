"""Where a NaN or Inf comes from: the first node that makes one out of finite inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...graph import Node, Tensor
from .frame import Frame

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Range:
    """What a tensor holds: extremes of its finite elements, and how many are NaN or Inf."""

    name: str
    low: float
    high: float
    n_nan: int
    n_inf: int
    size: int

    @staticmethod
    def of(name: str, array: Array) -> Range:
        """Measure an array."""
        wide = np.abs(array) if array.dtype.kind == "c" else array
        values = np.asarray(wide, np.float64)
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (np.nan, np.nan)
        return Range(
            name, low, high, int(np.isnan(values).sum()), int(np.isinf(values).sum()), values.size
        )

    @property
    def is_finite(self) -> bool:
        """Whether there is neither NaN nor Inf."""
        return not (self.n_nan or self.n_inf)

    def __str__(self) -> str:
        bad = ", ".join(
            f"{n} {label}" for n, label in ((self.n_nan, "NaN"), (self.n_inf, "Inf")) if n
        )
        span = f"[{self.low:.4g}, {self.high:.4g}]" if self.low == self.low else "nothing finite"
        return f"{self.name}: {span}" + (f", {bad} of {self.size}" if bad else "")


@dataclass(frozen=True)
class Origin:
    """The node a non-finite value starts at, the ranges around it, and its way to the fetches."""

    node: Node
    direction: str
    """``forward``, ``backward``, or ``source`` for a feed or a stored value."""
    inputs: tuple[Range, ...]
    outputs: tuple[Range, ...]
    chain: tuple[str, ...]
    """Names of the nodes from the origin to the fetch it spoils first."""

    def __repr__(self) -> str:
        where = f" ({self.node.where})" if self.node.where else ""
        return f"<Origin {self.direction}: {self.node.op.name} {self.node.name!r}{where}>"

    def __str__(self) -> str:
        of = f" (gradient of {self.node.origin.name!r})" if self.node.origin is not None else ""
        lines = [
            f"{self.direction}: {self.node.op.name} {self.node.name!r}{of}, {self.node.where}",
            *(f"  in   {r}" for r in self.inputs),
            *(f"  out  {r}" for r in self.outputs),
            "  way  " + " → ".join(self.chain),
        ]
        return "\n".join(lines)


def find_origin(frame: Frame, fetches: Sequence[Tensor]) -> Origin | None:
    """Return the first node that makes something non-finite out of finite inputs, or None.

    An Inf in a feed or a constant may be meant: a mask adds -∞ before a softmax. What it spoils is
    excused as long as no NaN comes of it and it reaches no fetch.
    """
    spoiled: set[Tensor] = set()
    excused: dict[Tensor, Tensor] = {}  # by tensor that holds Inf, where the Inf came from
    for t in _sources(frame):
        array = frame.value(t)
        if not _is_finite(array):
            if t.kind == "variable" or _has_nan(array):
                return _origin(frame, t.node, "source", fetches)
            excused[t] = t
    for node in frame.steps:
        bad = [t for t in node.outputs if not _is_finite(frame.value(t))]
        if not bad:
            continue
        given = [t for t in node.inputs if t is not None]
        meant = next((excused[t] for t in given if t in excused), None)
        if meant is not None and not any(_has_nan(frame.value(t)) for t in bad):
            excused.update(dict.fromkeys(bad, meant))
        elif not any(t in spoiled for t in given):
            return _origin(frame, node, "backward" if node.derived else "forward", fetches)
        else:
            spoiled.update(bad)
    reached = next((excused[t] for t in fetches if t in excused), None)
    return None if reached is None else _origin(frame, reached.node, "source", fetches)


def _sources(frame: Frame) -> list[Tensor]:
    found = {t: None for n in frame.steps for t in n.inputs if t is not None}
    return [t for t in found if t.node not in frame.index]


def _is_finite(array: Array) -> bool:
    return array.dtype.kind not in "fcV" or bool(np.isfinite(_wide(array)).all())


def _has_nan(array: Array) -> bool:
    return array.dtype.kind in "fcV" and bool(np.isnan(_wide(array)).any())


def _wide(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _origin(frame: Frame, node: Node, direction: str, fetches: Sequence[Tensor]) -> Origin:
    inputs = tuple(Range.of(t.name, frame.value(t)) for t in node.inputs if t is not None)
    outputs = tuple(Range.of(t.name, frame.value(t)) for t in node.outputs)
    return Origin(node, direction, inputs, outputs, tuple(_chain(frame, node, fetches)))


def _chain(frame: Frame, start: Node, fetches: Sequence[Tensor]) -> list[str]:
    """Return a shortest path of nodes from ``start`` to a fetch."""
    before: dict[Node, Node | None] = {start: None}
    goals = {t.node for t in fetches}
    queue = [start]
    for node in queue:
        if node in goals:
            path: list[str] = []
            at: Node | None = node
            while at is not None:
                path.append(at.name)
                at = before[at]
            return path[::-1]
        for t in node.outputs:
            for user in t.uses:
                if user in frame.index and user not in before:
                    before[user] = node
                    queue.append(user)
    return [start.name]
