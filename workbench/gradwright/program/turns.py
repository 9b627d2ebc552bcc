"""Turns: steps go first where kernels are prepared beside them.

Both need the interpreter's lock. numpy lets go of it in every call on more than 500 elements, and
gets it back 5 ms later where another thread runs Python: a step of 3,000 such calls would take 15 s
instead of 10 ms. So whoever prepares looks every few instructions whether a step is running, and
waits for its end; after that it works for half as long as it has waited.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from threading import Condition, get_ident

LEAST = 0.001
"""Seconds that are worked at a time, however short steps are."""
LONGEST = 0.5
"""Seconds after which it is worked in the midst of a step."""


class Turns:
    """Who prepares in the background calls ``pause`` often; steps run within ``step``.

    >>> turns = Turns()
    >>> with turns.working(), turns.step():
    ...     turns.pause()  # waits for no longer than LONGEST
    >>> turns.pause()  # nothing is prepared in the background: costs 0.1 µs
    """

    def __init__(self) -> None:
        self._restart()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._restart)

    def _restart(self) -> None:
        self._lock = Condition()
        self._worker = self._running = self._ended = 0
        self._until = 0.0

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Prepare in the background: this thread pauses while others run steps."""
        self._worker = get_ident()
        try:
            yield
        finally:
            self._worker = 0

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Run a step in numpy, during which nobody prepares for long."""
        if not self._worker:
            yield
            return
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._ended += 1
                self._lock.notify_all()

    def pause(self) -> None:
        """Let a step that is running come to its end, where this thread prepares beside it."""
        if not self._running or self._worker != get_ident():
            return
        begun = time.perf_counter()
        if begun < self._until:
            return
        with self._lock:
            ended = self._ended
            self._lock.wait_for(lambda: self._ended != ended or not self._running, LONGEST)
        now = time.perf_counter()
        self._until = now + max((now - begun) / 2, LEAST)


TURNS = Turns()
"""Those of the process."""
