"""Callbacks made of plain functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import TrainingError
from ..history import Record
from ..training import Training
from .base import Callback

Hook = Callable[[Training, Record], Any]


def on_step(do: Hook, every: int = 1) -> Callback:
    """Return a callback that calls ``do(trainer, record)`` after every ``every``-th step.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> show = gw.train.on_step(lambda trainer, record: print(record.step), every=2)
    >>> history = gw.Trainer(g, w * w, callbacks=[show]).fit([{}] * 5, progress=False)
    2
    4
    """
    return _Plain(do, every, of_epochs=False)


def on_epoch(do: Hook, every: int = 1) -> Callback:
    """Return a callback that calls ``do(trainer, record)`` after every ``every``-th epoch.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> show = gw.train.on_epoch(lambda trainer, record: print(record.epoch, record.step))
    >>> history = gw.Trainer(g, w * w, callbacks=[show]).fit([{}] * 5, epochs=2, progress=False)
    1 5
    2 10
    """
    return _Plain(do, every, of_epochs=True)


class _Plain(Callback):
    def __init__(self, do: Hook, every: int, *, of_epochs: bool) -> None:
        if not callable(do) or every < 1:
            raise TrainingError(
                f"cannot call {do!r} every {every}", need="a function (trainer, record); every >= 1"
            )
        self._do, self._every, self._of_epochs = do, every, of_epochs

    def on_step_end(self, trainer: Training, record: Record) -> None:
        if not self._of_epochs and record.step % self._every == 0:
            self._do(trainer, record)

    def on_epoch_end(self, trainer: Training, record: Record) -> None:
        if self._of_epochs and record.epoch % self._every == 0:
            self._do(trainer, record)

    def __repr__(self) -> str:
        return f"<on_{'epoch' if self._of_epochs else 'step'} {self._do!r}>"
