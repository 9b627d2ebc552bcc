"""The callback through which widgets follow a trainer."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from gradwright.train import Callback, Record

if TYPE_CHECKING:
    from .host import Host


class Follow(Callback):
    """Brings a trainer's events to a widget: curves grow, and commands run between steps.

    It holds the widget weakly, so a trainer keeps no widget alive, and takes itself off the trainer
    when the widget was closed. What goes wrong in a widget is shown there: it ends no training.

    >>> import gradwright as gw, gradwright_widgets as gww
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25))
    >>> plot = gww.LivePlot(trainer)                    # adds a Follow to the trainer
    >>> history = trainer.fit([{}], epochs=2, progress=False)
    >>> plot.points("loss", "step")
    ([1.0, 2.0], [4.0, 1.0])
    """

    def __init__(self, widget: Host) -> None:
        self._widget = weakref.ref(widget)
        self._following = False

    def leave(self, trainer: Any) -> None:
        """Take this off the trainer, at once or at the end of the fit that runs."""
        if not self._following:
            trainer.remove_callback(self)

    def on_fit_start(self, trainer: Any) -> None:
        """Have commands wait for step boundaries."""
        self._following = self._is_open()
        self._tell("training_began")
        self.leave(trainer)

    def on_step_end(self, trainer: Any, record: Record) -> None:
        """Plot the step, and run the commands that came meanwhile."""
        self._tell("step_ended", record)

    def on_epoch_end(self, trainer: Any, record: Record) -> None:
        """Plot the means of the epoch and its validation."""
        self._tell("epoch_ended", record)

    def on_pause(self, trainer: Any) -> None:
        """Let commands run at once."""
        self._tell("training_paused")

    def on_resume(self, trainer: Any) -> None:
        """Have commands wait for step boundaries again."""
        self._tell("training_resumed")

    def on_fit_end(self, trainer: Any) -> None:
        """Show everything, and let commands run at once again."""
        if self._following:
            self._tell("training_ended", closed=True)
        self._following = False
        if not self._is_open():
            self.leave(trainer)

    def _is_open(self) -> bool:
        widget = self._widget()
        return widget is not None and widget.comm is not None

    def _tell(self, hook: str, *facts: Any, closed: bool = False) -> None:
        widget = self._widget()
        if widget is not None and (closed or widget.comm is not None):
            try:
                getattr(widget, hook)(*facts)
            except Exception as error:
                widget.fail(error)
