"""Columns: what is measured again and again, a row each time, while others look."""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


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
        """Row after row, so that a step adds all its numbers at once."""
        self._lock = threading.RLock()

    @property
    def rows(self) -> int:
        """How many rows there are."""
        with self._lock:  # a new column changes both
            return len(self._data) // len(self._names) if self._names else 0

    def append(self, row: Mapping[str, float]) -> None:
        """Add a row; a new name becomes a column, empty so far."""
        self.add(tuple(row), list(row.values()))

    def add(self, names: tuple[str, ...], numbers: list[float]) -> None:
        """Add a row, as ``append`` does, whose names come apart from its numbers."""
        with self._lock:
            if names != self._names:
                if new := tuple(name for name in names if name not in self._names):
                    empty = np.full((self.rows, len(new)), math.nan)
                    data = np.hstack([self._table(), empty]).tobytes()
                    self._names, self._data = (*self._names, *new), array("d", data)
                row = dict(zip(names, numbers, strict=True))
                numbers = [row.get(name, math.nan) for name in self._names]
            self._data.fromlist(numbers)

    def _table(self) -> np.ndarray[Any, Any]:
        """Return a copy of all rows as a matrix."""
        return np.frombuffer(self._data.tobytes()).reshape(self.rows, len(self._names))

    def snapshot(self, *names: str, start: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        """Return columns (default all) of one length, even while another thread appends.

        With ``start``, only the rows from that one on.
        """
        with self._lock:
            held, width = self._names, len(self._names)
            data = np.frombuffer(self._data[start * width :].tobytes()).reshape(-1, max(width, 1))
        return {name: data[:, held.index(name)].copy() for name in names or held}

    def last(self) -> dict[str, float]:
        """Return the last row."""
        with self._lock:
            return dict(zip(self._names, self._data[-len(self._names) :], strict=True))

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        if name not in self._names:
            raise KeyError(f"{name!r}; there are {', '.join(self._names) or 'no columns yet'}")
        return self.snapshot(name)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
