"""Turns: objects that one thread changes at a time, and that tell listeners when they changed."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ...errors import GraphError
from ..arguments import FUNCTION

PATIENCE = 1.0
"""Seconds a call waits for another thread: single ops end by then, a long run does not."""

Method = TypeVar("Method", bound=Callable[..., Any])


def changes(method: Method) -> Method:
    """Let one thread in at a time, and tell the listeners when the outermost call has ended."""

    @functools.wraps(method)
    def announced(self: Turns, *args: Any, **kwargs: Any) -> Any:
        with self.hold():
            self._calls += 1
            try:
                return method(self, *args, **kwargs)
            finally:
                self._calls -= 1
                for listener in [] if self._calls else list(self._listeners):
                    listener()

    return announced  # type: ignore[return-value]


class Turns:
    """Base of what may be driven from cells and panels at once."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []
        self._lock, self._calls = threading.RLock(), 0

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener()`` after every change, in the thread that made it.

        Returns what ends it.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> s = gw.Stepper(g, gw.exp(g.constant(0.0), name="y"))
        >>> end = s.listen(lambda: print(s))
        >>> _ = s.step()
        <Stepper of graph 'graph': at the end>
        >>> end()
        """
        FUNCTION.check(listener=listener)
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other threads out meanwhile; raises GraphError while one is at work."""
        if not self._lock.acquire(timeout=PATIENCE):
            raise GraphError("it runs in another thread", where=repr(self), hint="stop it, or wait")
        try:
            yield
        finally:
            self._lock.release()
