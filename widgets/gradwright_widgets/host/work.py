"""What a panel does in the background: one task at a time, that can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gradwright.errors import GradwrightError

Task = Callable[[threading.Event], object]


class Work:
    """Runs one task at a time in a thread of its own; ``failed`` is told what a task raised.

    A task gets an event and returns soon after it has been set.

    >>> counted = []
    >>> work = Work("count")
    >>> work.start(lambda stop: counted.append(1))
    >>> work.join()
    >>> counted, work.busy
    ([1], False)
    """

    def __init__(self, name: str, failed: Callable[[Exception], None] | None = None) -> None:
        self.name = name
        self._failed = failed
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether a task runs."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def start(self, task: Task) -> None:
        """Run ``task`` in the background; raises GradwrightError while another one runs."""
        with self._lock:
            if self.busy:
                raise GradwrightError(f"{self.name} is running already", hint="stop it first")
            self._stop = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(task, self._stop), name=f"gradwright {self.name}"
            )
            self._thread.daemon = True  # a kernel that is shut down does not wait for it
            self._thread.start()

    def _run(self, task: Task, stop: threading.Event) -> None:
        try:
            task(stop)
        except Exception as error:
            if self._failed is None:
                raise
            self._failed(error)

    def stop(self) -> None:
        """Ask the task to end."""
        self._stop.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait until the task has ended."""
        with self._lock:  # one that is about to begin can be waited for when it has begun
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
