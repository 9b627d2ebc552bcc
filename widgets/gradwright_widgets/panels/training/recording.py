"""Trainings that a button began are recorded, so that one whose notebook is closed is not lost."""

from __future__ import annotations

from collections.abc import Callable

from gradwright.errors import TrainingError
from gradwright.train import Recorder, Run, Trainer
from gradwright.train.training import Training


class StartedRun(Run):
    """A run that ends no training: where it cannot be written, ``problem`` is told why.

    Args:
        problem: called with the error, after which nothing more is recorded of the fit.
    """

    def __init__(self, problem: Callable[[Exception], None]) -> None:
        super().__init__(tags=["started by hand"])
        self._problem = problem

    def on_fit_start(self, trainer: Training) -> None:
        """Open the folder, where it can be."""
        try:
            super().on_fit_start(trainer)
        except TrainingError as error:
            self._problem(error)

    def on_fit_end(self, trainer: Training) -> None:
        """Record how it ended."""
        try:
            super().on_fit_end(trainer)
        except TrainingError as error:
            self._problem(error)


def is_recorded(trainer: Trainer) -> bool:
    """Tell whether something among the trainer's callbacks records it already."""
    return any(isinstance(callback, Recorder) for callback in trainer.callbacks)
