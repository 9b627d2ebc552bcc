"""The learning rate of a trainer: set by hand, or a schedule that can be seen beforehand."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import traitlets

from gradwright.errors import TrainingError
from gradwright.train import Trainer

from ...drawing.buffers import float64
from ...host.desk import GraphDesk
from ...host.panel import Panel
from ...host.part import handles, shared
from ...host.wire import Message, finite

MOST = 400
"""Points of a schedule that are drawn; a curve on a page has hardly more pixels."""
SPAN = 100
"""Steps that are shown of a function, which does not say how far it tells a story."""

Array = np.ndarray[Any, Any]


class RatePanel(Panel):
    """The learning rate, beside the trainer panel."""

    name = "rate"
    desk: GraphDesk

    schedule_open = shared(
        traitlets.Bool(
            False, help="Whether the curve of the schedule is shown, beside its small picture."
        )
    )
    schedule_log = shared(
        traitlets.Bool(False, help="Whether that curve is on a logarithmic scale.")
    )

    def __init__(self, desk: GraphDesk) -> None:
        super().__init__(desk)
        self._schedule: Any = None
        """The schedule that a rate set by hand has put aside."""
        self._schedule_shown: tuple[Any, int] = None, 0
        """The schedule that the page has, and over how many steps."""
        self._fit_end = 0
        """The last step of the present fit, or of the last one, as far as it is known."""
        self._schedule_samples = np.zeros(0), np.zeros(0)
        self._schedule_lock = threading.RLock()
        desk.on("training", self._show_schedule)
        desk.on("aside", self._aside)

    def set_learning_rate(self, value: float) -> None:
        """Set the learning rate, from the next step on; a schedule is put aside.

        Raises TrainingError for a value that is negative or not finite.
        """
        try:
            rate = float(value)
        except (TypeError, ValueError, OverflowError):
            rate = math.nan
        if not 0 <= rate < math.inf:
            raise TrainingError(f"the learning rate cannot be {value!r:.40}", need="a number >= 0")
        optimizer = self.desk.controlled().optimizer

        def command() -> None:
            if callable(optimizer.learning_rate):
                self._schedule = optimizer.learning_rate
            optimizer.learning_rate = rate
            self.desk.tell("training")

        self.desk.commands.submit(command)

    def back_to_schedule(self) -> None:
        """Put the schedule back that ``set_learning_rate`` has put aside, if there is one."""
        optimizer, schedule = self.desk.controlled().optimizer, self._schedule

        def command() -> None:
            if schedule is not None:
                optimizer.learning_rate, self._schedule = schedule, None
            self.desk.tell("training")

        self.desk.commands.submit(command)

    def _aside(self) -> Any:
        """Return the schedule that a number stands in for."""
        return None if callable(self.desk.controlled().optimizer.learning_rate) else self._schedule

    @handles("set")
    def _on_rate(self, content: dict[str, Any]) -> None:
        value = content.get("value")
        trainer = self.desk.controlled()
        before, was = trainer.optimizer.learning_rate, rate_of(trainer)
        if value is None:
            self.back_to_schedule()
            self.desk.changes.forget("rate")
            return
        self.set_learning_rate(value)
        held = weakref.ref(trainer)

        def undo(desk: GraphDesk) -> None:
            if (changed := held()) is not None:
                put_rate(desk, changed, before)

        told = schedule_name(before) or ("" if was is None else f"{was:.3g}")
        now = f"{float(value):.3g}"
        self.desk.changes.note("rate", "learning rate", told, now, undo, owner=trainer)

    # -- the curve of the schedule ---------------------------------------------------------------

    def schedule_points(self) -> tuple[list[int], list[float]]:
        """Return steps and rates of the schedule as they are drawn; empty lists without one."""
        with self._schedule_lock:
            self._sample_schedule()
            x, y = self._schedule_samples
            return x.astype(int).tolist(), y.tolist()

    def _show_schedule(self) -> None:
        """Show the schedule where it has changed."""
        with self._schedule_lock:
            if self._sample_schedule():
                self.widget.send(*self._schedule_message())

    def _sample_schedule(self) -> bool:
        """Compute the curve anew where the schedule, or how much of it is shown, has changed."""
        if self.desk.trainer is None:
            return False
        held = self.desk.trainer.optimizer.learning_rate
        schedule = held if callable(held) else self._schedule
        steps = 0 if schedule is None else self._schedule_span(schedule)
        if self._schedule_shown[0] is schedule and self._schedule_shown[1] == steps:
            return False
        self._schedule_shown = schedule, steps
        self._schedule_samples = sampled(schedule, steps)
        return True

    def _schedule_span(self, schedule: Any) -> int:
        """Return how many steps to show: what the schedule or the fit spans, and where it is."""
        trainer, own = self.desk.controlled(), getattr(schedule, "span", None)
        done = trainer.progress
        if trainer.status != "idle" and done is not None and done.total is not None:
            self._fit_end = trainer.steps_done - done.steps + done.total
        planned = self._fit_end or self.desk.ask("planned") or 0
        steps = max(planned, own() if callable(own) else 0) or SPAN
        while steps <= trainer.steps_done:  # doubled, so that it is seldom sent
            steps *= 2
        return steps

    @handles("sync")
    def _on_schedule_sync(self, _: Any) -> None:
        with self._schedule_lock:
            self._sample_schedule()
            self.widget.send(*self._schedule_message())

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return the curve of the schedule, too."""
        with self._schedule_lock:
            self._sample_schedule()
            return [self._schedule_message()]

    def _schedule_message(self) -> Message:
        name = schedule_name(self._schedule_shown[0])
        return {"kind": "rate.schedule", "name": name}, [
            float64(part) for part in self._schedule_samples
        ]


def put_rate(desk: GraphDesk, trainer: Trainer, rate: Any) -> None:
    """Give a trainer a number or a schedule, from its next step on."""

    def command() -> None:
        trainer.optimizer.learning_rate = rate
        desk.tell("training")

    desk.commands.submit(command)


def sampled(schedule: Callable[[int], float] | None, steps: int) -> tuple[Array, Array]:
    """Return at most 400 steps and the numbers that a schedule has there, NaN where it fails.

    >>> [part.tolist() for part in sampled(lambda step: 1 / step, 3)]
    [[0.0, 1.0, 2.0], [nan, 1.0, 0.5]]
    """
    if schedule is None:
        return np.zeros(0), np.zeros(0)
    count = min(steps, MOST)
    x = sorted({round(i * (steps - 1) / max(1, count - 1)) for i in range(count)})
    return np.array(x, float), np.array([_number(schedule, step) for step in x])


def _number(schedule: Callable[[int], float], step: int) -> float:
    try:
        return float(schedule(step))
    except Exception:  # a user's function; the step that it fails at will say what is wrong
        return math.nan


def rate_of(trainer: Trainer) -> float | None:
    """Return the learning rate of the next step, None where the schedule fails to tell it."""
    return finite(_number(trainer.optimizer.rate, trainer.steps_done))


def schedule_name(schedule: Any) -> str:
    """Return a schedule in words; "" for a number."""
    if not callable(schedule):
        return ""
    name = schedule.__name__ if hasattr(schedule, "__name__") else repr(schedule)
    return str(name)[:300]


def steps_of(data: Any, epochs: int, batch_size: int, window: int) -> int:
    """Return how many updates arrays make in so many epochs, 0 for other data.

    >>> steps_of({"x": [0.0] * 100}, epochs=3, batch_size=32, window=2)
    6
    """
    if not isinstance(data, Mapping):
        return 0
    rows = max((_rows(array) for array in data.values()), default=0)
    batches = math.ceil(rows / batch_size)
    return epochs * math.ceil(batches / window)


def _rows(array: Any) -> int:
    if isinstance(array, list | tuple):
        return len(array)
    shape = getattr(array, "shape", None)
    return int(shape[0]) if shape else 0
