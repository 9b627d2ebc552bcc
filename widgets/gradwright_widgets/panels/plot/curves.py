"""Curves: points that grow, are thinned when they are many, and are read from a history."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np

from gradwright.errors import GradwrightError
from gradwright.train import History
from gradwright.train.columns import Table

from ...drawing.buffers import float64

MOST_POINTS = 200_000
"""Points that a curve keeps, 3.2 MB; when it has more, it goes on with half or fewer."""
ON_DEMAND = frozenset({"grad_norm", "learning_rate", "loss_scale"})
"""What a history holds beside metrics; these are drawn when they are asked for."""
_NO_CURVES = frozenset({"step", "epoch", "seconds"})

Array = np.ndarray[Any, Any]


class Curve:
    """Points over the steps.

    >>> curve = Curve("loss", "train")
    >>> curve.extend([1, 2], [0.5, 0.25])
    >>> list(curve.x), list(curve.y)
    ([1.0, 2.0], [0.5, 0.25])
    """

    def __init__(self, metric: str, name: str, most: int = MOST_POINTS) -> None:
        self.metric, self.name, self.most = metric, name, most
        self.x, self.y = array("d"), array("d")
        self.density = self.rewritten = 0
        """How often half of the points were dropped, and how often points the page has changed."""
        self._even = 0  # points of that density; those behind are whole
        self.sent = 0
        """Points that the page has."""
        self.read = 0
        """Rows of a history's table that have been read."""

    def extend(self, steps: Iterable[float], values: Any) -> None:
        """Add points; raises GradwrightError if there are more steps than values, or fewer."""
        x, y = (np.ascontiguousarray(a, "<f8").reshape(-1) for a in (_list(steps), _list(values)))
        if len(x) != len(y):
            raise GradwrightError(f"curve {self.metric!r} got {len(x)} steps and {len(y)} values")
        self.x.frombytes(x.tobytes())
        self.y.frombytes(y.tobytes())
        if len(self.x) > self.most:
            self._thin()

    def append(self, step: float, value: float) -> None:
        """Add one point."""
        self.x.append(step)
        self.y.append(value)
        if len(self.x) > self.most:
            self._thin()

    def _thin(self) -> None:
        """Bring new points to the density of the old ones, and all to half of it when needed."""
        points = np.stack([np.frombuffer(self.x), np.frombuffer(self.y)])
        old, new = points[:, : self._even], points[:, self._even :]
        for _ in range(self.density):
            new = halved(new)
        points = np.hstack([old, new])
        while points.shape[1] > self.most // 2:
            points = halved(points)
            self.density += 1
        self.x, self.y = (array("d", row.tobytes()) for row in points)
        self._even = len(self.x)
        self.rewritten += 1


def halved(points: Array) -> Array:
    """Return of each four points in a row the lowest and the highest: no spike is lost.

    >>> halved(np.array([[1, 2, 3, 4], [0, 9, 0, -1]])).tolist()
    [[2, 4], [9, -1]]
    """
    y = points[1]
    fours = y[: len(y) // 4 * 4].reshape(-1, 4)
    low, high = fours.argmin(1), fours.argmax(1)
    high = np.where(low == high, np.where(low < 3, 3, 0), high)
    first = np.arange(len(fours)) * 4
    kept = np.stack([first + np.minimum(low, high), first + np.maximum(low, high)], 1)
    return points[:, np.concatenate([kept.reshape(-1), np.arange(fours.size, len(y))])]


def unsent(
    curves: Iterable[tuple[Curve, dict[str, Any]]], *, everything: bool
) -> tuple[dict[str, Any], list[memoryview]]:
    """Return the points that the page does not have, as content and buffers of a message.

    Each curve comes with what else the page is told of it.

    >>> curve = Curve("loss", "train")
    >>> curve.extend([1, 2], [0.5, 0.25])
    >>> unsent([(curve, {"age": 0})], everything=False)[0]["parts"]
    [{'series': 0, 'start': 0, 'count': 2}]
    >>> unsent([(curve, {"age": 0})], everything=False)[0]["parts"]
    []
    """
    series: list[dict[str, Any]] = []
    parts, xs, ys = [], array("d"), array("d")
    for curve, told in curves:
        start = 0 if everything else curve.sent
        if len(curve.x) > start:
            count = len(curve.x) - start
            parts.append({"series": len(series), "start": start, "count": count})
            xs += curve.x[start:]
            ys += curve.y[start:]
        curve.sent = len(curve.x)
        series.append({"panel": curve.metric, "name": curve.name, **told})
    return {"series": series, "parts": parts}, [float64(xs), float64(ys)]


def _list(values: Any) -> Any:
    return values if isinstance(values, (np.ndarray, array)) else list(values)


class Run:
    """The curves of one run, by metric and name, and what turns steps into epochs and seconds."""

    def __init__(self) -> None:
        self.curves: dict[tuple[str, str], Curve] = {}
        self.axes = {"epoch": Curve("epoch", ""), "seconds": Curve("seconds", "")}
        self.per_epoch = 0
        """Steps of an epoch, 0 if unknown; for the epoch that has no end yet."""

    def curve(self, metric: str, name: str) -> Curve:
        """Return a curve, new if there is none."""
        found = self.curves.get((metric, name))
        if found is None:
            found = self.curves[metric, name] = Curve(metric, name)
        return found

    def all(self) -> list[Curve]:
        """Return curves and axes."""
        return [*self.curves.values(), *self.axes.values()]

    def metrics(self) -> list[str]:
        """Return the names of the metrics."""
        return list(dict.fromkeys(metric for metric, _ in self.curves))

    def read(self, history: History, asked: Iterable[str]) -> None:
        """Add what a history has more than before, with those on demand that are ``asked`` for."""
        asked = frozenset(asked)
        steps, epochs = [self.axes["seconds"]], [self.axes["epoch"]]
        for metric in history.steps:
            if metric not in _NO_CURVES and (metric not in ON_DEMAND or metric in asked):
                steps.append(self.curve(metric, "step"))
        for metric in history.epochs:
            if metric not in _NO_CURVES:
                name = "validation" if metric.startswith("val_") else "train"
                epochs.append(self.curve(metric.removeprefix("val_"), name))
        _read(history.steps, steps)
        _read(history.epochs, epochs)

    def on_axis(self, axis: str, steps: Any) -> Array:
        """Return steps as epochs or seconds; beyond the last known point at the last pace."""
        at: Array = np.asarray(steps, float)
        known = self.axes.get(axis)
        if known is None:
            return at
        x, y = np.array([0.0, *known.x]), np.array([0.0, *known.y])
        if axis == "epoch" and self.per_epoch and x[-1] < at.max(initial=0.0):
            x, y = np.append(x, x[-1] + self.per_epoch), np.append(y, y[-1] + 1)
        out: Array = np.interp(at, x, y)
        return out


def _read(table: Table, curves: Iterable[Curve]) -> None:
    """Read the new rows of the columns of all curves, which may have been read unequally far."""
    by_start: dict[int, list[Curve]] = {}
    for curve in curves:
        if curve.read < table.rows:
            by_start.setdefault(curve.read, []).append(curve)
    for start, group in by_start.items():
        columns = [("val_" if c.name == "validation" else "") + c.metric for c in group]
        held = table.snapshot("step", *columns, start=start)
        # An epoch without validation has none of its columns: a row of a table, but no point.
        validated = [held[k] for k in columns if k.startswith("val_")]
        there = ~np.isnan(validated).all(0) if validated else np.bool_(True)
        for curve, column in zip(group, columns, strict=True):
            curve.read = start + len(held["step"])
            chosen = there if column.startswith("val_") else np.ones(len(held["step"]), bool)
            curve.extend(held["step"][chosen], held[column][chosen])


def smoothed(values: Any, weight: float) -> Array:
    """Return the exponential moving average without its bias to zero.

    m ← w·m + (1−w)·v,  mₙ / (1 − wⁿ);  values that are not finite are left as they are.

    >>> smoothed([1.0, 1.0, 4.0], 0.5).round(3).tolist()
    [1.0, 1.0, 2.714]
    """
    given = np.asarray(values, float)
    out, mean, bias = given.copy(), 0.0, 1.0
    for i, value in enumerate(given.tolist()):
        if np.isfinite(value):
            mean = weight * mean + (1 - weight) * value
            bias *= weight
            out[i] = mean / (1 - bias)
    return out
