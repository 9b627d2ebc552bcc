"""Loop: epochs of steps, with what callbacks, other threads and Ctrl-C want between them."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from ..data.batches import Batch, Batches, Feeds, grouped
from ..errors import TrainingError
from ..session.settings import is_count
from .callbacks import Progress
from .control import Control, Hooks
from .history import FitEnd, Record
from .objective import InterruptedBatchError
from .position import Begun, Fit, FitProgress, Position
from .step.run import Run
from .step.taker import Taker
from .validation import Validation


class Loop:
    """Takes steps as long as asked, and tells the callbacks; it runs in the block of ``control``.

    Whoever stops it, it ends between two steps, from which it goes on to the same numbers.
    """

    def __init__(
        self,
        taker: Taker,
        control: Control,
        position: Position,
        hooks: Hooks,
        validation: Validation,
    ) -> None:
        self._taker, self._control, self._position = taker, control, position
        self._hooks, self._validation = hooks, validation
        self._fit: Fit | None = None

    @property
    def progress(self) -> FitProgress | None:
        """Return how far the present run is, or how the last one ended; None before any."""
        return None if self._fit is None else self._fit.report()

    def forget(self) -> None:
        """Forget how the last run ended: the training stands elsewhere."""
        self._fit = None

    def run(
        self,
        source: Batches,
        *,
        epochs: int | None,
        steps: int | None = None,
        unroll: int = 1,
        held_out: Batches | None = None,
        is_shown: bool = False,
    ) -> None:
        """Train so many epochs more, or so many steps if that is sooner; one of them is stated.

        An epoch that has begun on the same data is finished first, and counts. With ``held_out``
        each epoch ends with a validation; with ``is_shown`` there is a bar.
        """
        position, control, hooks = self._position, self._control, self._hooks
        signature = source.signature()
        if not position.has_begun_on(signature):
            self._taker.forget_window()
            position.begun = Begun(signature)
        position.is_bound = False
        first_epoch = position.epochs
        last_epoch = math.inf if epochs is None else first_epoch + epochs
        last_step = math.inf if steps is None else position.steps + steps
        length, expected = self._length(source, epochs, steps), self._epochs_of(source, steps)
        where = functools.partial(_where, position, self._taker, control)
        shown = expected if epochs is None else epochs
        self._fit = fit = Fit(where, shown, length, self._updates_of(source.n_batches))
        bar = Progress(first_epoch + shown if shown else None, length)
        if is_shown:
            hooks.add(bar)
        try:
            hooks.tell("on_fit_start")
            stopped = control.attention and self.attend()
            control.in_loop = True
            while not stopped and position.epochs < last_epoch and position.steps < last_step:
                if self._run_epoch(source, last_step, unroll) or self._end_epoch(held_out):
                    stopped = position.steps < last_step
                    break
            by_steps = position.steps >= last_step
            done = _counted(steps, "step") if by_steps else _counted(epochs, "epoch")
            fit.end(stopped, hooks.reasons() or "it was asked to" if stopped else done)
        except BaseException as error:
            fit.end(True, "", error)
            raise
        finally:
            try:
                hooks.tell("on_fit_end")
            finally:
                hooks.remove(bar)
                self._taker.history.end = self._how_it_ended(fit.report(), first_epoch)
        control.interrupt()

    def _how_it_ended(self, done: FitProgress, first_epoch: int) -> FitEnd:
        """Return what the history says of a fit that has ended."""
        epochs, written = self._position.epochs - first_epoch, self._hooks.written()
        return FitEnd(done.outcome, done.reason, done.steps, epochs, done.seconds, written)

    # -- steps -----------------------------------------------------------------------------------

    def step(self, feeds: Feeds, rows: int = 0, source: Batches | None = None) -> Record | None:
        """Take a batch: an update and its record, or None where the window waits for more.

        ``rows`` are the examples that count towards the epoch.
        """
        hooks = self._hooks
        if hooks.may_watch:
            return self._take(self._taker.next(feeds, rows, source))
        record = self._taker.step(feeds, rows, source)
        if record is not None and hooks.callbacks:
            hooks.tell("on_step_end", record)
        return record

    def _take(self, run: Run) -> Record | None:
        """Take a run, and tell the callbacks."""
        hooks = self._hooks
        watching = [] if run.phase is run.step.gather else hooks.watching()
        record = self._taker.take(run, watching=bool(watching))
        if record is not None:
            if watching:
                hooks.tell("on_changes", record, run.changes, callbacks=watching)
            hooks.tell("on_step_end", record)
        return record

    def steps(
        self,
        taken: Iterator[Batch],
        unroll: int = 1,
        last_step: float = math.inf,
        source: Batches | None = None,
    ) -> Iterator[list[Record]]:
        """Take a step on each batch, ``unroll`` as one where that may be; give their records."""
        if unroll == 1 or self._taker.goes_singly:
            for feeds, rows in taken:
                record = self.step(feeds, rows, source)
                yield [] if record is None else [record]
            return
        for group in grouped(taken, lambda: self._room(last_step, unroll)):
            records = self._together(group) if len(group) > 1 else []
            if not records:
                for feeds, rows in group:
                    if (record := self.step(feeds, rows, source)) is not None:
                        records.append(record)
            yield records

    def _together(self, group: list[Batch]) -> list[Record]:
        """Take several batches as one step, if they can."""
        records, failed = self._taker.take_group(group)
        for record in records:
            self._hooks.tell("on_step_end", record)
        if failed is not None:
            raise failed
        return records

    def _room(self, last_step: float, unroll: int) -> int:
        """Return how many steps may run together now."""
        done = self._position.steps
        left = min(last_step - done, self._control.left(done))
        return 1 if left < unroll or self._hooks.may_watch else unroll

    def attend(self) -> bool:
        """Pause as long as asked, and tell the callbacks; return whether to stop."""
        if self._control.pauses(self._position.steps):
            self._hooks.tell("on_pause")
            self._control.wait()
            self._hooks.tell("on_resume")
        return self._control.stops()

    # -- epochs ----------------------------------------------------------------------------------

    def _run_epoch(self, source: Batches, last_step: float, unroll: int) -> bool:
        """Train what is left of an epoch; return whether training ends before the epoch does."""
        while True:
            try:
                return self._run_batches(source, last_step, unroll)
            except InterruptedBatchError:
                if self.attend():
                    return True

    def _run_batches(self, source: Batches, last_step: float, unroll: int) -> bool:
        """Take the steps that are left of an epoch; return whether training ends before it does."""
        position, control = self._position, self._control
        # A thread that prefetches ends with the block, whoever keeps the traceback.
        with closing(source.epoch(position.epochs, position.begun.batches)) as taken:
            for _ in self.steps(taken, unroll, last_step, source):
                if control.attention and self.attend():
                    return True
                if position.steps >= last_step and position.begun.batches != source.n_batches:
                    return True
        if (run := self._taker.last()) is not None:
            self._take(run)
        return False

    def _end_epoch(self, held_out: Batches | None) -> bool:
        """Validate and close the epoch; return whether to stop.

        Interrupted, the validation is done again, from the first batch on: weights and rewards may
        be others after a pause.
        """
        position, control = self._position, self._control
        measured = self._taker.measures.results(position.begun.totals)
        if held_out is not None:
            began, found = control.seconds, None
            while found is None:
                try:
                    found = self._validation.measured(held_out)
                except InterruptedBatchError:
                    if self.attend():
                        return True
            measured.update((f"val_{k}", v) for k, v in found.items())
            if self._fit is not None:
                self._fit.validated(control.seconds - began)
        control.in_step = True
        position.epochs += 1
        position.begun.batches, position.begun.totals = 0, {}
        record = Record(position.steps, position.epochs, measured, control.seconds)
        self._taker.history.add_epoch(record)
        control.in_step = False
        self._hooks.tell("on_epoch_end", record)
        return control.attention and self.attend()

    # -- how far it is ---------------------------------------------------------------------------

    def _length(self, source: Batches, epochs: int | None, steps: int | None) -> int | None:
        """Return how many steps a run will take, where known."""
        known: list[int] = [] if steps is None else [steps]
        if source.n_batches is not None and epochs:
            known.append((epochs - 1) * self._updates_of(source.n_batches) + self._left_of(source))
        return min(known, default=None)

    def _epochs_of(self, source: Batches, steps: int | None) -> int | None:
        """Return in how many epochs so many steps end, where known."""
        if not steps or not source.n_batches:
            return None
        beyond: int = max(0, steps - self._left_of(source))
        epochs: int = 1 - (-beyond // self._updates_of(source.n_batches))
        return epochs

    def _left_of(self, source: Batches) -> Any:
        """Return how many updates are left of the epoch that has begun, or begins."""
        begun, n_batches = self._position.begun, source.n_batches or 0
        return self._updates_of(n_batches - begun.batches + begun.gathered)

    def _updates_of(self, batches: Any) -> Any:
        """Return how many updates so many batches make; None for None."""
        return batches if batches is None else -(-batches // self._taker.window[1])


def _where(position: Position, taker: Taker, control: Control) -> tuple[int, int, int, float]:
    """Return steps, epochs and steps of the epoch that are done, and the time spent."""
    steps = position.begun.batches // taker.window[1]
    return position.steps, position.epochs, steps, control.seconds


def _counted(number: int | None, what: str) -> str:
    return f"{number:,} {what} is done" if number == 1 else f"{number or 0:,} {what}s are done"


def checked_length(epochs: int | None, steps: int | None, unroll: int) -> int | None:
    """Return how many epochs a fit takes, None for as many as its steps do.

    Raises TrainingError for what are no numbers of epochs, steps, or steps that run together.

    >>> checked_length(None, None, 1), checked_length(None, 100, 1), checked_length(3, 100, 1)
    (1, None, 3)
    """
    if not all(n is None or is_count(n, 0) for n in (epochs, steps)):
        raise TrainingError(f"cannot train {epochs=}, {steps=}", need="ints >= 0")
    if not isinstance(unroll, int) or unroll < 1:
        raise TrainingError(f"unroll={unroll!r} is no number of steps", need="an int >= 1")
    return 1 if epochs is None and steps is None else epochs
