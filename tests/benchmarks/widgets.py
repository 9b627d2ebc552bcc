"""What a widget costs the training that it shows: processor time per step, messages and bytes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import gradwright as gw
from gradwright_widgets import LivePlot, TrainerPanel, Workbench
from gradwright_widgets.host.base import BaseWidget
from tests.support import digits

CHUNK = 50
"""Steps on one side before it is the other's turn."""
PAIRS = 150

Make = Callable[[gw.Trainer, Any], BaseWidget | None]


def cost(widgets: Mapping[str, Make]) -> None:
    """Print the processor time of a step while a widget follows, beside that while it does not.

    Both sides are one training: every 50 steps the widget's callbacks are taken off or put back, in
    ABBA order. Threads that send messages count. The first row has no widget on either side, and
    shows the noise.
    """
    train, _ = digits.load()
    print(f"\nprocessor time of a training step, digits MLP 64x(64-64-10), {PAIRS} pairs")
    for name, make in widgets.items():
        trainer = digits.build(hidden=64)
        widget = make(trainer, train)
        turns = Turns(trainer)
        trainer.add_callback(turns)
        trainer.fit(train, epochs=10**6, batch_size=64, progress=False)
        print(f"  {name:<16} {turns}")
        if widget is not None:
            widget.close()


class Turns(gw.Callback):
    """Takes the callbacks that were there off and puts them back, and times both."""

    def __init__(self, trainer: gw.Trainer) -> None:
        self._others, self._on = trainer.callbacks, True
        self.taken: dict[bool, list[float]] = {False: [], True: []}
        self._start = 0.0

    def on_step_end(self, trainer: gw.Trainer, record: gw.train.Record) -> None:
        if record.step % CHUNK:
            return
        if record.step > 4 * CHUNK:  # the first turns warm up
            self.taken[self._on].append(time.process_time() - self._start)
        turn = record.step // CHUNK
        if turn == 2 * PAIRS + 4:
            trainer.stop()
        wanted = turn % 4 in (0, 3)
        if wanted != self._on:
            for callback in self._others:
                (trainer.add_callback if wanted else trainer.remove_callback)(callback)
            self._on = wanted
        self._start = time.process_time()

    def __str__(self) -> str:
        ratios = [a / b for a, b in zip(self.taken[True], self.taken[False], strict=True)]
        low, median, high = statistics.quantiles(ratios, n=4)
        base = statistics.median(self.taken[False]) / CHUNK * 1e6
        return f"{base:6.1f} µs without, x {median:.3f} with [{low:.3f}–{high:.3f}]"


def traffic(widgets: Mapping[str, Make]) -> None:
    """Print messages and bytes per second that leave while training runs, and those of a view."""
    train, _ = digits.load()
    print("\nwhile it trains for five seconds")
    for name, make in widgets.items():
        trainer = digits.build(hidden=64)
        widget = make(trainer, train)
        if widget is None or widget.comm is None:
            continue
        sent: list[int] = []

        def note(
            data: Any = None, *args: Any, buffers: Any = None, sent: Any = sent, **_: Any
        ) -> None:
            sent.append(len(repr(data)) + sum(len(memoryview(b)) for b in buffers or ()))

        widget.comm.send = note
        trainer.add_callback(_Until(5.0))
        trainer.fit(train, epochs=10**6, batch_size=64, progress=False)
        seconds, page = trainer.history.seconds, len(widget.to_html())
        rates = f"{len(sent) / seconds:5.1f} messages/s {sum(sent) / seconds / 1e3:6.1f} kB/s"
        print(
            f"  {name:<16} {rates}, saved page of {trainer.steps_done:,} steps {page / 1e3:,.0f} kB"
        )
        widget.close()


class _Until(gw.Callback):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def on_fit_start(self, trainer: gw.Trainer) -> None:
        self._end = time.monotonic() + self._seconds

    def on_step_end(self, trainer: gw.Trainer, record: gw.train.Record) -> None:
        if time.monotonic() > self._end:
            trainer.stop()


WIDGETS: dict[str, Make] = {
    "no widget": lambda trainer, data: None,
    "LivePlot": lambda trainer, data: LivePlot(trainer),
    "TrainerPanel": lambda trainer, data: TrainerPanel(trainer, data),
    "Workbench": lambda trainer, data: Workbench(trainer.graph, trainer, data=data),
}


def main() -> None:
    """Print all of it."""
    cost(WIDGETS)
    traffic(WIDGETS)


if __name__ == "__main__":
    main()
