"""Messages that a host takes from its main thread alone: those of others are tried there again."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

log = logging.getLogger("gradwright.widgets")


class Outbox:
    """Sends messages in their order, from whatever thread.

    Shiny knows from its context to whom a message goes, which threads do not have. A message that
    is refused to a thread waits and is sent by the loop, and in the context, in which the widget
    was made; so a training or a check goes on. What is refused there, too, is logged.

    >>> sent = []
    >>> outbox = Outbox(sent.append)
    >>> outbox.post("hello"); sent
    ['hello']
    """

    def __init__(self, send: Callable[..., object]) -> None:
        self._send = send
        self._lock = threading.RLock()
        self._waiting: deque[tuple[Any, ...]] = deque()
        self._thread = threading.get_ident()
        self._context = contextvars.copy_context()
        self._task: asyncio.Task[None] | None = None
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:  # a script
            self._loop = None

    def post(self, *message: Any) -> None:
        """Send a message, after those that wait; raises what the host does only where it was made.

        A refusal ends no work of another thread.
        """
        with self._lock:
            here = threading.get_ident() == self._thread
            if here:
                self._drain()
            if not self._waiting:
                try:
                    self._send(*message)
                    return
                except Exception as error:
                    if here:
                        raise
                    if self._loop is None or self._loop.is_closed():
                        log.warning("a message to the page was lost: %s", error)
                        return
            self._waiting.append(message)
            if len(self._waiting) == 1:
                assert self._loop is not None  # else nothing waits
                self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._task = asyncio.ensure_future(self._deliver())

    async def _deliver(self) -> None:
        reactive = sys.modules.get("shiny.reactive")
        if reactive is None:
            self._context.run(self._drain)
            return
        async with reactive.lock():  # Shiny lets messages go when it has flushed
            self._context.run(self._drain)
            await reactive.flush()

    def _drain(self) -> None:
        """Send all that waits."""
        with self._lock:
            while self._waiting:
                try:
                    self._send(*self._waiting[0])
                except Exception as error:  # a session that has ended
                    log.warning("a message to the page was lost: %s", error)
                self._waiting.popleft()
