"""Between threads: commands that wait for a step boundary, messages that do not pile up."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

MESSAGES_PER_SECOND = 20
"""A notebook server drops messages from about 1,000 a second; an eye wants no more than these."""

Command = Callable[[], object]


class CommandQueue:
    """Commands from widgets, run between the steps of a training that may be in another thread.

    Handlers of widget messages run in whatever thread the kernel chooses, even while a step
    computes. They only ``submit``. While ``busy``, the training thread runs what waits at its next
    step boundary (``drain``); otherwise, while it is ``paused``, and in the training thread itself,
    which is between two steps when it submits, a command runs at once. None runs beside another.

    >>> commands = CommandQueue()
    >>> commands.submit(lambda: print("at once"))
    at once
    >>> commands.begin()
    >>> page = threading.Thread(target=commands.submit, args=[lambda: print("between two steps")])
    >>> page.start(); page.join()
    >>> commands.drain()
    between two steps
    >>> commands.end()
    """

    def __init__(self, paused: Callable[[], bool] = lambda: False) -> None:
        self._paused = paused
        self._waiting: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._busy = self._thread = 0

    @property
    def busy(self) -> bool:
        """Whether a training runs, so that commands wait for it."""
        return self._busy > 0

    def begin(self) -> None:
        """Have commands wait from now on."""
        with self._lock:
            self._busy += 1
            self._thread = threading.get_ident()

    def end(self) -> None:
        """Run what waits, and run commands at once again."""
        with self._lock:
            self._busy = max(0, self._busy - 1)
            self.drain()

    def submit(self, command: Command) -> None:
        """Run ``command`` now, or at the next step boundary while busy."""
        self._waiting.put(command)
        with self._lock:
            if not self.busy or self._paused() or self._thread == threading.get_ident():
                self.drain()

    def settle(self) -> None:
        """Return when no command runs."""
        with self._lock:
            pass

    def drain(self) -> None:
        """Run all waiting commands in this thread."""
        if self._waiting.empty():  # 50 ns: this is asked after every training step
            return
        with self._lock:
            while True:
                try:
                    command = self._waiting.get_nowait()
                except queue.Empty:
                    return
                command()


class Pace:
    """Calls ``send`` at most ``per_second`` times a second, and once more after the last request.

    >>> sent = []
    >>> pace = Pace(lambda: sent.append(1), per_second=20)
    >>> for _ in range(1000):
    ...     pace.request()
    >>> pace.flush()
    >>> len(sent) <= 3
    True
    """

    def __init__(self, send: Callable[[], None], per_second: float = MESSAGES_PER_SECOND) -> None:
        self._send = send
        self._interval = 1.0 / per_second
        self._lock = threading.Lock()
        self._next = 0.0
        self._timer: threading.Timer | None = None
        self._closed = False

    def request(self) -> None:
        """Send now if enough time has passed, else when it will have."""
        if self._timer is not None:  # the common case of a fast training loop: already on its way
            return
        with self._lock:
            if self._timer is not None or self._closed:
                return
            wait = self._next - time.monotonic()
            if wait > 0:
                self._timer = threading.Timer(wait, self.flush)
                self._timer.daemon = True
                self._timer.start()
                return
            self._next = time.monotonic() + self._interval
        self._send()

    def flush(self) -> None:
        """Send now whatever is waiting."""
        with self._lock:
            if self._timer is None:
                return
            self._timer.cancel()
            self._timer = None
            self._next = time.monotonic() + self._interval
        self._send()

    def close(self) -> None:
        """Send nothing any more, not even what is waiting."""
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
