"""Score: prints how a training goes, and what its time is spent on."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...errors import TrainingError
from ...graph import Tensor
from ..history import Record
from ..training import Training
from .base import Callback
from .clock import Stopwatch, example_axis

HIDDEN = ("grad_norm", "learning_rate")


class Score(Callback):
    """Says every ``every`` steps how the training goes, how fast, and how long it waits for data.

    The share of time spent on data is that between the end of one step and the start of the next:
    loading, transforming, and other callbacks; validation and pauses do not count.

    Args:
        every: steps between two lines; 0 for lines at the ends of epochs alone.
        epochs: whether the end of an epoch has a line.
        to: what takes a line: ``print``, or a function such as ``logging.getLogger().info``.

    >>> import gradwright as gw
    >>> lines = []
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> sgd, score = gw.optim.SGD(0.25), gw.train.Score(2, to=lines.append)
    >>> trainer = gw.Trainer(g, w * w, optimizer=sgd, callbacks=[score])
    >>> history = trainer.fit([{}] * 4, progress=False)
    >>> [line.partition(" |")[0] for line in lines]
    ['step 2: loss 1', 'step 4: loss 0.0625', 'epoch 1: loss 1.328']
    """

    def __init__(
        self, every: int = 100, *, epochs: bool = True, to: Callable[[str], object] = print
    ) -> None:
        if every < 0:
            raise TrainingError(f"every={every} is no number of steps", need="at least 0")
        self.every, self.epochs, self.to = every, epochs, to
        self.examples_per_second = 0.0
        """Of the steps between the last two lines."""
        self.data_share = 0.0
        """The part of their time in which no step ran, from 0 to 1."""
        self._watch = Stopwatch()
        self._rows: Tensor | None = None
        self._since, self._examples, self._steps = 0.0, 0, 0

    def on_fit_start(self, trainer: Training) -> None:
        """Begin to time the runs of the trainer's session."""
        trainer.session.listeners.append(self._watch)
        self._begin()

    def on_fit_end(self, trainer: Training) -> None:
        """Let the session alone."""
        if self._watch in trainer.session.listeners:
            trainer.session.listeners.remove(self._watch)

    def on_resume(self, trainer: Training) -> None:
        """Leave the pause out."""
        self._begin()

    def on_step_end(self, trainer: Training, record: Record) -> None:
        """Count the step, and say a line where one is due."""
        feeds, rows = trainer.last_feeds, self._rows
        if not self._steps or rows not in feeds:
            rows = self._rows = example_axis(trainer)
        self._examples += 1 if rows is None else len(feeds[rows])
        self._steps += 1
        if self.every and record.step % self.every == 0:
            self.to(f"step {record.step:,}: {_numbers(record)} | {self._pace()}")

    def on_epoch_end(self, trainer: Training, record: Record) -> None:
        """Say what the epoch has given."""
        if self.epochs:
            pace = f" | {self._pace()}" if self._steps else ""
            self.to(f"epoch {record.epoch:,}: {_numbers(record)}{pace}")
        self._begin()

    def _pace(self) -> str:
        """Return speed and share of data since the last line, and begin anew."""
        seconds = time.perf_counter() - self._since
        if seconds > 0:
            self.examples_per_second = self._examples / seconds
            self.data_share = min(1.0, self._watch.waited / seconds)
        each = seconds / max(1, self._steps) * 1e3
        self._begin()
        return (
            f"{self.examples_per_second:,.0f} examples/s, {each:.3g} ms a step, "
            f"{self.data_share:.0%} of it for data"
        )

    def _begin(self) -> None:
        self._since, self._examples, self._steps = time.perf_counter(), 0, 0
        self._watch.waited = 0.0
        self._watch.mark()


def _numbers(record: Record) -> str:
    return ", ".join(f"{k} {v:.4g}" for k, v in record.metrics.items() if k not in HIDDEN)
