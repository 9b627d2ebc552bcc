"""The callback through which widgets follow a trainer."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from gradwright.train import Callback, Record

if TYPE_CHECKING:
    from ._base import BaseWidget


class Follow(Callback):
    """Brings a trainer's events to a widget: curves grow, and commands run between steps.

    It holds the widget weakly: a trainer does not keep widgets alive, and pays nothing for those
    that were closed.

    >>> import gradwright as gw, gradwright_widgets as gww
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25))
    >>> plot = gww.LivePlot(trainer)                    # adds a Follow to the trainer
    >>> history = trainer.fit([{}], epochs=2, progress=False)
    >>> plot.points("loss", "step")
    ([1.0, 2.0], [4.0, 1.0])
    """

    def __init__(self, widget: BaseWidget) -> None:
        self._widget = weakref.ref(widget)
        self._following = False
        self._last_step = 0

    def _open(self) -> BaseWidget | None:
        widget = self._widget()
        return None if widget is None or widget.comm is None else widget

    def on_fit_start(self, trainer: Any) -> None:
        """Have commands wait for step boundaries."""
        if (widget := self._open()) is not None:
            self._following = True
            widget.training_began()

    def on_step_end(self, trainer: Any, record: Record) -> None:
        """Plot the step, and run the commands that came meanwhile."""
        widget = self._open()
        if widget is None:
            return
        if record.step <= self._last_step:
            widget.training_restarted()
        self._last_step = record.step
        widget.step_ended(record)

    def on_epoch_end(self, trainer: Any, record: Record) -> None:
        """Plot the means of the epoch and its validation."""
        if (widget := self._open()) is not None:
            widget.epoch_ended(record)

    def on_fit_end(self, trainer: Any) -> None:
        """Show everything, and let commands run at once again."""
        widget = self._widget()
        if widget is not None and self._following:
            widget.training_ended()
        self._following = False
