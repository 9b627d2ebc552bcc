"""Numbers about parameters: samples of the steps of a training, and moments of the values."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from gradwright.graph import Values
from gradwright.train import ParameterStatistics
from gradwright.train.callbacks.moments import value_statistics

from ...host.base import BaseWidget
from ...host.work import Work

AT_ONCE = 300_000
"""Elements that are measured at once, in 2 ms; more are measured beside the cells."""
IN_A_ROW = 4_000_000
"""Elements that are measured between two looks at whether to stop."""


class LiveStatistics(ParameterStatistics):
    """Statistics for tables: four samples a second at most, and none when no table is open.

    The last step of a training is always one, so that a short one is not left at its first.
    """

    def __init__(self) -> None:
        super().__init__(every=1, seconds=0.25)
        # Replaced and never changed: tables are made while a training runs in another thread.
        self._viewers: tuple[weakref.ref[BaseWidget], ...] = ()

    def show_in(self, table: BaseWidget) -> None:
        """Sample as long as this table is open."""
        with self._lock:
            self._viewers = (*filter(_is_open, self._viewers), weakref.ref(table))

    def wants_changes(self, trainer: Any) -> bool:
        """Tell whether the next step is a sample."""
        done = trainer.progress
        is_last = done is not None and done.total is not None and done.steps + 1 >= done.total
        return (is_last or super().wants_changes(trainer)) and any(map(_is_open, self._viewers))


def _is_open(held: weakref.ref[BaseWidget]) -> bool:
    table = held()
    return table is not None and table.comm is not None


def statistics_of(trainer: Any) -> ParameterStatistics | None:
    """Return what samples the steps of a trainer, the user's own where there is one."""
    if trainer is None:
        return None
    for callback in trainer.callbacks:
        if isinstance(callback, ParameterStatistics):
            return callback
    made = LiveStatistics()
    trainer.add_callback(made)
    return made


class Measurer:
    """Measures the values of parameters that have changed.

    Args:
        values: returns where the values are.
        names: returns the parameters.
        work: runs what takes longer.
        tell: called when something has been measured.
    """

    def __init__(
        self,
        values: Callable[[], Values],
        names: Callable[[], Iterable[str]],
        work: Work,
        tell: Callable[[], None],
    ) -> None:
        self._values, self._names, self._work, self._tell = values, names, work, tell
        self._lock = threading.Lock()
        self._rows: dict[str, tuple[int, Any]] = {}
        self._running = self._again = False

    def rows(self) -> dict[str, tuple[int, Any]]:
        """Return version and moments, ``VALUE_COLUMNS``, of each value that was measured."""
        with self._lock:
            return dict(self._rows)

    def forget_others(self) -> None:
        """Forget what is no parameter any more."""
        with self._lock:
            self._rows = {n: self._rows[n] for n in self._names() if n in self._rows}

    def _stale(self) -> list[tuple[str, int, Any]]:
        """Return name, version and array of what has changed since it was measured."""
        values, known, found = self._values(), self.rows(), []
        with values.lock:
            for name in self._names():
                if name in values:
                    version = values.version(name)
                    if known.get(name, (-1,))[0] != version:
                        found.append((name, version, values.array(name)))
        return found

    def measure(self, most: int, stop: threading.Event | None = None) -> bool:
        """Measure values that have changed; return whether none of more than ``most`` is left."""
        stale = self._stale()
        if sum(array.size for *_, array in stale) > most:
            return False
        while stale and not (stop is not None and stop.is_set()):
            size, part = 0, []
            while stale and size < IN_A_ROW:
                part.append(stale.pop(0))
                size += part[-1][2].size
            rows = value_statistics([array for *_, array in part])
            with self._lock:
                for (name, version, _), row in zip(part, rows, strict=True):
                    self._rows[name] = version, row
            self._tell()
        return True

    def measure_soon(self) -> None:
        """Measure values that have changed: at once where that is quick, else in the background."""
        if self.measure(AT_ONCE):
            return
        with self._lock:
            if self._running:
                self._again = True
                return
            self._running = True
        self._work.join()  # it has nothing left to do
        self._work.start(self._keep_measuring)

    def _keep_measuring(self, stop: threading.Event) -> None:
        try:
            while True:
                self.measure(2**62, stop)
                with self._lock:
                    if not self._again or stop.is_set():
                        self._running = False
                        return
                    self._again = False
        except Exception:
            self._running = False
            raise
