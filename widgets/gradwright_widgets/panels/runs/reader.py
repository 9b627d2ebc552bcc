"""A run that is read while another process writes it: only what is new, each time."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Any

import numpy as np

from gradwright.recording.events import number

PLACE = ("step", "epoch", "seconds")
CHUNK = 16_000_000
"""Bytes that are read at a time; a long run comes in several looks."""
Array = np.ndarray[Any, Any]


class Columns:
    """Numbers of rows that grow, by name; NaN where a row has none.

    >>> columns = Columns()
    >>> columns.extend({"step": [1.0, 2.0], "loss": [0.5, 0.25]})
    >>> columns.extend({"step": [3.0]})
    >>> columns.get("loss").tolist(), columns.rows
    ([0.5, 0.25, nan], 3)
    """

    def __init__(self) -> None:
        self.rows = 0
        self._held: dict[str, array[float]] = {}

    def extend(self, columns: dict[str, list[float]]) -> None:
        """Add rows; a new name is a new column."""
        count = len(columns["step"])
        if any(len(values) != count for values in columns.values()):
            raise ValueError("columns of an event differ in length")
        for name in columns:
            if name not in self._held:
                self._held[name] = array("d", [np.nan] * self.rows)
        for name, held in self._held.items():
            held.extend(columns.get(name, [np.nan] * count))
        self.rows += count

    def cut(self, name: str, most: float) -> None:
        """Forget the rows whose number of this name is greater."""
        kept = self.get(name) <= most
        self._held = {n: array("d", self.get(n)[kept].tobytes()) for n in self._held}
        self.rows = int(kept.sum())

    def get(self, name: str) -> Array:
        """Return a copy of a column."""
        return np.array(self._held.get(name, array("d", [np.nan] * self.rows)))

    @property
    def metrics(self) -> list[str]:
        """The names of what was measured."""
        return [name for name in self._held if name not in PLACE]


class RunReader:
    """Steps and epochs of a run folder, as its ``events.jsonl`` has them so far.

    What a resumed training has done anew counts in place of what was there before it. With
    ``since`` only what comes after so many bytes is read; ``cut`` then says which rows from before
    count no more.
    """

    def __init__(self, folder: str, since: int = 0) -> None:
        self.path = Path(folder) / "events.jsonl"
        self._begin()
        self.offset = since

    def _begin(self) -> None:
        self.steps, self.epochs = Columns(), Columns()
        self.offset = 0
        self.cut: dict[str, int] | None = None
        """The least step and epoch that a fit of those that were read began at."""
        self.generation = 0
        """Changes where rows were forgotten."""
        self.problem = ""
        """Why nothing more is read; "" while all is well."""

    def read(self) -> bool:
        """Read what is new, and return whether there was anything."""
        if self.problem:
            return False
        try:
            with self.path.open("rb") as file:
                if file.seek(0, 2) < self.offset:  # another file
                    generation = self.generation
                    self._begin()
                    self.generation = generation + 1
                file.seek(self.offset)
                data = file.read(CHUNK)
        except OSError as error:
            self.problem = error.strerror or str(error)
            return True
        whole, _, _ = data.rpartition(b"\n")
        if not whole:  # a line that is being written
            if len(data) == CHUNK:
                self.problem = f"a line of events is longer than {CHUNK:,} bytes"
            return bool(self.problem)
        self.offset += len(whole) + 1
        try:
            for line in whole.split(b"\n"):
                self._take(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self.problem = f"{line[:60]!r} is no event of a run"
        return True

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "fit_started":
            at = {name: int(event[name]) for name in ("step", "epoch")}
            self.cut = at if self.cut is None else {n: min(at[n], self.cut[n]) for n in at}
            for columns, name in ((self.steps, "step"), (self.epochs, "epoch")):
                if columns.rows and columns.get(name)[-1] > event[name]:
                    columns.cut(name, event[name])
                    self.generation += 1
        elif kind == "steps":
            own = {name: [float(v) for v in event[name]] for name in PLACE}
            found = {n: list(map(number, c)) for n, c in event["metrics"].items() if n not in own}
            self.steps.extend(found | own)
        elif kind == "epoch":
            own = {name: [float(event[name])] for name in PLACE}
            found = {n: [number(v)] for n, v in event["metrics"].items() if n not in own}
            self.epochs.extend(found | own)

    def points(self, metric: str, axis: str, *, each_step: bool) -> tuple[Array, Array]:
        """Return a metric of epochs, or of each step, over "step", "epoch" or "seconds".

        Within an epoch, steps are spread evenly over it.
        """
        table = self.steps if each_step else self.epochs
        x, y = table.get(axis), table.get(metric)
        if axis == "epoch" and each_step and len(x):
            x = _spread(x)
        there = slice(None) if metric in table.metrics else slice(0, 0)
        return x[there], y[there]


def _spread(epochs: Array) -> Array:
    """Return numbers of epochs as shares of them: 1, 1, 2, 2 as 0.5, 1, 1.5, 2.

    >>> _spread(np.array([1.0, 1.0, 2.0, 2.0])).tolist()
    [0.5, 1.0, 1.5, 2.0]
    """
    found, first, counts = np.unique(epochs, return_index=True, return_counts=True)
    longest = counts.max()  # the last epoch may have just begun
    counts = np.where(found == found[-1], longest, counts)
    place = np.searchsorted(found, epochs)
    return np.asarray(epochs - 1 + (np.arange(len(epochs)) - first[place] + 1) / counts[place])
