"""Controlled: what other threads and callbacks may ask of a training while it runs."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable

from ..errors import TrainingError
from .callbacks import Callback
from .control import Control
from .progress import Fit, FitProgress


class Controlled:
    """A training that can be watched, paused, resumed and stopped, always between two steps."""

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        if isinstance(callbacks, Callback):
            raise TrainingError(
                f"the callbacks are {callbacks!r}", need="a list of them", hint="callbacks=[...]"
            )
        self._callbacks, self._joining = tuple(callbacks), threading.Lock()
        for callback in self._callbacks:
            if not isinstance(callback, Callback):
                raise TrainingError(
                    f"{callback!r} is no callback", need="instances of subclasses of gw.Callback"
                )
        self.steps_done = 0
        """Steps taken; the next one has this number in schedules and random keys."""
        self.epochs_done = 0
        self._swapped = ""
        """The average that stands in for the weights, if one does."""
        self._control = Control()
        self._fit: Fit | None = None

    @property
    def status(self) -> str:
        """Return ``"idle"``, ``"running"`` or ``"paused"``."""
        return self._control.status

    @property
    def is_torn(self) -> bool:
        """Whether a second Ctrl-C has ended a step midway: what it did may lack its record."""
        return self._control.is_torn

    @property
    def progress(self) -> FitProgress | None:
        """Return how far the present ``fit`` is, or how the last one ended; None before any."""
        return None if self._fit is None else self._fit.report()

    def pause(self, wait: bool = False) -> None:
        """Ask a running ``fit`` to pause after the present step; with ``wait`` return when it has.

        Values may be read, set and frozen meanwhile, and the graph edited.
        """
        self._control.pause(wait)

    def resume(self, steps: int | None = None, wait: bool = False) -> None:
        """Let a paused ``fit`` go on; with ``steps``, for so many, after which it pauses again.

        With ``wait`` return when it has paused again, or ended. Raises TrainingError inside a
        block of ``averaged``: training goes on from the weights themselves.
        """
        self._check_weights()
        if steps is not None and steps < 1:
            raise TrainingError(f"cannot take steps={steps}", need="at least 1")
        self._control.resume(math.inf if steps is None else self.steps_done + steps, wait)

    def stop(self) -> None:
        """Ask a running ``fit`` to return after the present step; calling it again continues."""
        self._control.stop()

    def _check_weights(self) -> None:
        if self._swapped:
            raise TrainingError(
                f"the variables hold their average {self._swapped!r}",
                need="the weights themselves",
                hint="leave the block of trainer.averaged() first",
            )

    @property
    def callbacks(self) -> tuple[Callback, ...]:
        """Return the hooks that are called between steps."""
        return self._callbacks

    def add_callback(self, callback: Callback) -> None:
        """Call the hooks of ``callback``, too; in a running ``fit`` from the next step on."""
        with self._joining:
            self._callbacks = (*self._callbacks, callback)

    def remove_callback(self, callback: Callback) -> None:
        """Call the hooks of ``callback`` no more."""
        with self._joining:
            self._callbacks = tuple(c for c in self._callbacks if c is not callback)
