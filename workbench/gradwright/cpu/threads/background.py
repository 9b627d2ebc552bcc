"""Work for later: one thread does one thing after the other, and then ends.

It has the priority of all others. A lower one would be worse for who trains meanwhile: on a busy
machine a thread that holds the interpreter's lock and gets no processor stops everybody (measured:
200 ms instead of 50), and kernels would come after 2 to 6 s instead of 0.2 to 0.7.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread

Work = Callable[[], object]


class Background:
    """A queue that a daemon thread works off, in the order in which it came.

    The thread ends when nothing is left, since an idle one would be in the way of a fork. A forked
    child goes on with what was not begun.

    >>> background, done = Background("doctest"), []
    >>> background.add(lambda: done.append(1))
    >>> background.wait(10), done
    (True, [1])
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._queue: deque[Work] = deque()
        self._lock, self._thread = Condition(), Thread()
        self._added = self._done = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._restart)

    @property
    def is_busy(self) -> bool:
        """Tell whether something is being done or waits for it."""
        return self._done < self._added

    def add(self, work: Work) -> None:
        """Have something done later, which must not raise."""
        with self._lock:
            self._queue.append(work)
            self._added += 1
            self._start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all is done that was added before; return False after ``timeout`` seconds.

        What is added meanwhile is not waited for.
        """
        with self._lock:
            thread, added = self._thread, self._added
            done = self._lock.wait_for(lambda: self._done >= added, timeout)
            is_ending = thread is not self._thread
        if is_ending:  # or a fork would meet it
            thread.join()
        return done

    def _start(self) -> None:
        if not self._thread.is_alive():
            self._thread = Thread(target=self._work, name=self.name, daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                work = self._queue.popleft()
            work()
            del work
            with self._lock:
                self._done += 1
                self._lock.notify_all()
                if not self._queue:
                    self._thread = Thread()
                    return

    def _restart(self) -> None:
        self._lock, self._thread = Condition(), Thread()
        self._done = self._added - len(self._queue)  # what was begun is done in the parent alone
        if self._queue:
            self._start()


BACKGROUND = Background("gradwright-background")
"""What the whole process does in the background."""
