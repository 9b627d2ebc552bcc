"""Background: one piece of work at a time beside the training, whose failure is told to it."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

from ...errors import TrainingError


class Background:
    """Does one piece of work at a time in a thread of its own.

    What it raised is raised again by the next ``check`` or ``wait``, once, as a TrainingError. An
    interpreter that ends waits for the thread, so a write that has begun is finished.

    >>> from gradwright.train.checkpoints.writer import Background
    >>> found, background = [], Background()
    >>> background.start(lambda: found.append(1), "counting")
    >>> background.wait()
    >>> found
    [1]
    """

    def __init__(self) -> None:
        self._idle = threading.Event()  # and no join: one that Ctrl-C ends passes for done
        self._idle.set()
        self._error: TrainingError | None = None
        self.raised: TrainingError | None = None
        """What was raised last."""

    @property
    def is_busy(self) -> bool:
        """Whether work is being done."""
        return not self._idle.is_set()

    def check(self) -> None:
        """Raise what went wrong since the last time."""
        if self._error is not None:
            self.raised, self._error = self._error, None
            raise self.raised

    def wait(self) -> None:
        """Return when nothing is being done; raise what went wrong."""
        self._idle.wait()
        self.check()

    def start(self, work: Callable[[], None], what: str, *, here: bool = False) -> None:
        """Begin to work when the last piece is done; raise what went wrong with that.

        With ``here``, do the work in this thread.
        """
        self.wait()
        if here:
            self._run(work, what)
            self.check()
            return
        claim = threading.Lock()  # of the thread, which works, or of who calls the work off
        try:
            self._idle.clear()
            threading.Thread(
                target=self._serve, args=(claim, work, what), name="gradwright checkpoint"
            ).start()
        except BaseException:  # Ctrl-C, or no thread can be had
            if claim.acquire(blocking=False):
                self._idle.set()
            raise

    def _serve(self, claim: threading.Lock, work: Callable[[], None], what: str) -> None:
        if claim.acquire(blocking=False):
            try:
                self._run(work, what)
            finally:
                self._idle.set()

    def _run(self, work: Callable[[], None], what: str) -> None:
        try:
            work()
        except Exception as error:
            traceback.clear_frames(error.__traceback__)  # they hold the arrays of a snapshot
            self._error = _failure(error, what)


def _failure(error: Exception, what: str) -> TrainingError:
    cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    wrapped = TrainingError(
        f"{what} failed: {cause}",
        facts=["the training is as its last step has left it, and fit goes on from there"],
        hint="make room or choose another folder; earlier checkpoints are as they were",
    )
    wrapped.__cause__ = error
    return wrapped
