"""Columns: what is measured again and again, a row each time, while others look."""

from __future__ import annotations

import functools
import itertools
import math
import threading
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..graph.values import atomically

WAITING = 256
"""Rows that are kept as they came until somebody looks, or there are as many."""


class Table(Mapping[str, np.ndarray[Any, Any]]):
    """Columns of numbers; 8 bytes each, NaN where a row has none.

    >>> from gradwright.train.columns import Table
    >>> table = Table()
    >>> table.append({"loss": 2.0})
    >>> table.append({"loss": 1.0, "accuracy": 0.5})
    >>> table["accuracy"].tolist(), len(table), table.rows
    ([nan, 0.5], 2, 2)
    """

    def __init__(self) -> None:
        self._names: tuple[str, ...] = ()
        self._data = array("d")
        """Row after row."""
        self._waiting: list[dict[str, float]] = []
        """The latest rows, which are not among the data yet."""
        self._lock = threading.RLock()

    @property
    def rows(self) -> int:
        """How many rows there are."""
        with self._lock:  # a new column changes both
            self._settle()
            return len(self._data) // len(self._names) if self._names else 0

    def append(self, row: dict[str, float]) -> None:
        """Add a row, which is given away; a new name becomes a column, empty so far."""
        self._waiting.append(row)
        if len(self._waiting) >= WAITING:
            with self._lock:
                self._settle()

    def _settle(self) -> None:
        """Put rows that wait among the data; under the lock."""
        rows = self._waiting[:]
        if not rows:
            return
        if any(tuple(row) != self._names for row in rows):
            names = dict.fromkeys([*self._names, *(name for row in rows for name in row)])
            if len(names) > len(self._names):
                self._widen(tuple(names)[len(self._names) :])
            numbers = [row.get(name, math.nan) for row in rows for name in names]
        else:
            numbers = [*itertools.chain.from_iterable(map(dict.values, rows))]
        taken = functools.partial(self._waiting.__delitem__, slice(len(rows)))
        atomically([functools.partial(self._data.fromlist, numbers), taken])

    def _widen(self, new: tuple[str, ...]) -> None:
        """Add columns that are empty so far."""
        width = len(self._names)
        rows = len(self._data) // width if width else 0
        held = np.frombuffer(self._data.tobytes()).reshape(rows, width)
        data = np.hstack([held, np.full((rows, len(new)), math.nan)]).tobytes()
        self._names, self._data = (*self._names, *new), array("d", data)

    def snapshot(self, *names: str, start: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        """Return columns (default all) of one length, even while another thread appends.

        With ``start``, only the rows from that one on.
        """
        with self._lock:
            self._settle()
            held, width = self._names, len(self._names)
            data = np.frombuffer(self._data[start * width :].tobytes()).reshape(-1, max(width, 1))
        return {name: data[:, held.index(name)].copy() for name in names or held}

    def last(self) -> dict[str, float]:
        """Return the last row."""
        with self._lock:
            self._settle()
            return dict(zip(self._names, self._data[-len(self._names) :], strict=True))

    @property
    def _columns(self) -> tuple[str, ...]:
        with self._lock:
            self._settle()
            return self._names

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        if name not in (names := self._columns):
            raise KeyError(f"{name!r}; there are {', '.join(names) or 'no columns yet'}")
        return self.snapshot(name)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)
