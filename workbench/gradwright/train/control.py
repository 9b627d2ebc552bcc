"""Control: pause, resume, stop and Ctrl-C, all of which act between steps."""

from __future__ import annotations

import math
import signal
import threading
import time
from typing import Any

from ..errors import TrainingError


class Control:
    """What other threads and Ctrl-C want of a training loop, and its clock.

    The loop runs in its ``with`` block, sets ``in_step`` while a step runs and is committed and
    ``in_hooks`` while callbacks are told, and asks ``pauses`` and ``stops`` between steps when
    ``attention`` is set. Ctrl-C during a step or in hooks, which hold locks and files, waits for
    the end; a second one does not wait, for what hangs. Elsewhere, such as in a data loader, Ctrl-C
    acts at once.
    """

    def __init__(self) -> None:
        self.status = "idle"
        self.attention = self.in_step = self.in_hooks = False
        self.is_torn = False
        """Whether a second Ctrl-C has ended a step midway, so that what it did may lack its record.
        """
        self._changed = threading.Condition()
        self._pausing = self._stopping = self._interrupted = False
        self._until = math.inf
        self._thread = 0
        self._seconds, self._since = 0.0, 0.0
        self._handler: tuple[Any, bool] = None, False
        """What Ctrl-C did before, and whether it has been replaced."""

    @property
    def seconds(self) -> float:
        """Time spent running, without pauses."""
        return self._seconds + (
            time.perf_counter() - self._since if self.status == "running" else 0.0
        )

    @seconds.setter
    def seconds(self, value: float) -> None:
        self._seconds, self._since = value, time.perf_counter()

    @property
    def is_here(self) -> bool:
        """Whether the loop runs in this thread."""
        return self._thread == threading.get_ident()

    def __enter__(self) -> None:
        """Mark the loop as running in this thread; raises TrainingError where it runs already."""
        with self._changed:
            if self.status != "idle":
                raise TrainingError(
                    f"the trainer is {self.status} already",
                    hint="trainer.stop(), or one trainer per thread",
                )
            self._thread, self._since = threading.get_ident(), time.perf_counter()
            self.status, self.is_torn = "running", False
        if threading.current_thread() is threading.main_thread():
            self._handler = signal.signal(signal.SIGINT, self._interrupt), True

    def __exit__(self, *exc: object) -> None:
        handler, replaced = self._handler
        self._handler = None, False
        if replaced:
            signal.signal(signal.SIGINT, handler)
        with self._changed:
            self.seconds, self.status = self.seconds, "idle"
            self._pausing = self._stopping = self._interrupted = False
            self._until = math.inf
            self.attention = self.in_step = self.in_hooks = False
            self._changed.notify_all()

    def _interrupt(self, number: int, frame: Any) -> None:
        if not (self.in_step or self.in_hooks) or self._interrupted:
            self.is_torn = self.in_step
            raise KeyboardInterrupt
        self._interrupted = self.attention = True

    def left(self, done: int) -> float:
        """Return how many steps may be taken before the next pause, ``done`` being done."""
        return self._until - done

    def pauses(self, done: int) -> bool:
        """Be paused if that was asked for, ``done`` steps being done; return whether it was.

        Raises KeyboardInterrupt after Ctrl-C.
        """
        with self._changed:
            self.interrupt()
            if self._stopping or not (self._pausing or done >= self._until):
                return False
            self._pausing, self._until = False, math.inf
            self.seconds, self.status = self.seconds, "paused"
            self._changed.notify_all()
            return True

    def wait(self) -> None:
        """Return when ``resume`` or ``stop`` has been called; raises KeyboardInterrupt."""
        self.interrupt()
        with self._changed:
            self._changed.wait_for(lambda: self.status != "paused")

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt for a Ctrl-C that has waited; the next one waits again."""
        interrupted, self._interrupted = self._interrupted, False
        if interrupted:
            raise KeyboardInterrupt

    def stops(self) -> bool:
        """Return whether the loop is to end."""
        with self._changed:
            due = self._pausing or self._interrupted or self._until < math.inf
            self.attention = self._stopping or due
            return self._stopping

    def pause(self, wait: bool = False) -> None:
        """Ask the loop to pause; with ``wait`` return when it has."""
        with self._changed:
            self._check_wait(wait)
            if self.status == "running":
                self._pausing = self.attention = True
            if wait:
                self._changed.wait_for(lambda: self.status != "running")

    def resume(self, until: float = math.inf, wait: bool = False) -> None:
        """Let a paused loop go on, and pause again when ``until`` steps are done."""
        with self._changed:
            self._check_wait(wait)
            if self.status == "idle":
                return
            self._pausing, self._until, self.attention = False, until, True
            self._go()
            if wait:
                self._changed.wait_for(lambda: self.status != "running")

    def stop(self) -> None:
        """Ask the loop to end after the present step; nothing happens when none runs."""
        with self._changed:
            if self.status != "idle":
                self._stopping = self.attention = True
                self._go()

    def _check_wait(self, wait: bool) -> None:
        if wait and self.status != "idle" and self.is_here:
            raise TrainingError("the training thread cannot wait for itself", hint="wait=False")

    def _go(self) -> None:
        # Here and not where the loop wakes up, so that who waits next sees it run.
        if self.status == "paused":
            self._since, self.status = time.perf_counter(), "running"
            self._changed.notify_all()
