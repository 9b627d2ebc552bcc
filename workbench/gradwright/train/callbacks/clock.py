"""Stopwatch: how the time of a training divides into steps and what lies between them."""

from __future__ import annotations

import time

from ...graph import Tensor
from ...session.listeners import Listener, RunEvent
from ...spec import Dim
from ..training import Training


class Stopwatch(Listener):
    """Adds up the time between the training runs of a session: that is, waiting for data.

    ``mark`` leaves out what lies between now and the last run, such as a validation.
    """

    def __init__(self) -> None:
        self.waited = 0.0
        self._ended = time.perf_counter()

    def mark(self) -> None:
        """Count from now on."""
        self._ended = time.perf_counter()

    def run_started(self, event: RunEvent) -> None:
        """Add the time since the run before."""
        if event.training:
            self.waited += time.perf_counter() - self._ended

    def run_finished(self, event: RunEvent) -> None:
        """Begin to count."""
        if event.training:
            self._ended = time.perf_counter()


def example_axis(trainer: Training) -> Tensor | None:
    """Return a placeholder whose first axis counts the examples of a step; None without any."""
    fed = [t for t in trainer.last_feeds if t.rank]
    return next((t for t in fed if isinstance(t.shape[0], Dim)), fed[0] if fed else None)
