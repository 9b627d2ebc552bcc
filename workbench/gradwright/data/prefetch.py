"""Prefetching: a thread that makes items while the one before is being used."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from ..shared import wait_for
from .columns import Columns
from .dataset import Dataset
from .stages import Stage

PATIENCE = 1.0
"""Seconds to wait for a thread that is to end; one that is stuck in its source ends after that."""


class Prefetched(Stage):
    """Items that a thread makes ahead."""

    def __init__(self, source: Dataset, ahead: int) -> None:
        super().__init__(source)
        self.ahead = ahead
        self._left: deque[Any] = deque()
        """What was made of an iterator that runs once, and not yet used."""

    def epoch(self, number: int = 0, skip: int = 0) -> Iterator[Columns]:
        """Give the items of an epoch, without the first ``skip``."""
        while self._left:
            yield self._left.popleft()
        worker = _Worker(self.source.epoch(number, skip), self.ahead)
        try:
            while worker.wait():
                yield worker.ready.popleft()
        finally:
            worker.close()
            if self.once:
                self._left = worker.ready

    def __repr__(self) -> str:
        return f"{self.source!r}.prefetch({self.ahead})"


class _Worker:
    """A thread that fills ``ready``, never beyond ``room`` items."""

    def __init__(self, source: Iterator[Any], room: int) -> None:
        self.ready: deque[Any] = deque()
        self._source, self._room = source, room
        self._changed = threading.Condition()
        self._closed = self._done = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="gradwright-prefetch", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            for item in self._source:
                with self._changed:
                    self.ready.append(item)
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._closed or len(self.ready) < self._room)
                    if self._closed:
                        break
                del item  # the consumer alone decides how long it lives
        except BaseException as error:
            self._error = error
        finally:
            close = getattr(self._source, "close", None)
            if close is not None:
                close()
            with self._changed:
                self._done = True
                self._changed.notify_all()

    def wait(self) -> bool:
        """Wait for an item; return False after the last, and raise what the source raised."""
        with self._changed:
            self._changed.notify_all()  # one was taken
            wait_for(self._changed, lambda: self.ready or self._done)
        if not self.ready and self._error is not None:
            raise self._error
        return bool(self.ready)

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(PATIENCE)
