"""Stepping: takes steps, commits them and notes what came out, batch by batch or in windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data.batches import Batch, Batches, Feeds
from ...errors import IdError
from ..callbacks import Callback, Change
from ..configured import Configured
from ..history import Record
from .graph import Phase, StepGraph
from .keeper import Outcome
from .refusal import found_in, refusal


@dataclass(slots=True)
class Run:
    """One run of a phase."""

    phase: Phase
    feeds: Feeds
    rows: int
    """How many examples count towards the epoch."""
    weight: tuple[float, ...]
    """What the batch weighs in a window, if that is fed."""
    source: Batches | None


class Stepping(Configured):
    """A training whose steps can be taken, one by one or several as one."""

    def _take(self, feeds: Feeds, rows: int = 0, source: Batches | None = None) -> Record | None:
        """Take a batch: an update and its record, or None where the window waits for more."""
        step, rule = self._current(), self._config.accumulation
        self.last_feeds = feeds
        if rule is None:
            return self._update(step, Run(step.update, feeds, rows, (), source))
        size = rows or next((len(a) for a in feeds.values() if np.ndim(a)), 1)
        weight = () if rule.by == "token" else (float(size if rule.by == "example" else 1),)
        if step.gather is not None and self._begun.gathered + 1 < rule.steps:
            return self._gather(step, Run(step.gather, feeds, rows, weight, source))
        return self._update(step, Run(step.update, feeds, rows, weight, source))

    def _flush(self) -> None:
        """Update with the batches that wait: the epoch has no more for the window."""
        step = self._current()
        if self._begun.gathered and step.flush is not None:
            self._update(step, Run(step.flush, {}, 0, (), None))

    def _update(self, step: StepGraph, run: Run) -> Record:
        """Run an update, commit it and note what came out."""
        control, numbers = self._control, self._numbers(step)
        watching = self._callbacks and [c for c in self._callbacks if c.wants_changes(self._told)]
        before = {t: self.values.array(t.name) for t in self._steps.watched} if watching else {}
        control.in_step = True
        try:
            outcome = self._run(step, run, numbers, bool(watching))
            record = self._note(step, run, outcome, numbers, control.seconds)
        finally:
            control.in_step = False
        if watching:
            changes = {
                t.name: Change(outcome.grads.get(t), array, self.values.array(t.name))
                for t, array in before.items()
            }
            self._tell("on_changes", record, changes, callbacks=watching)
        self._tell("on_step_end", record)
        return record

    def _gather(self, step: StepGraph, run: Run) -> Record | None:
        """Add a batch to the sums of the window; one that is not finite ends it: it is skipped."""
        control, numbers = self._control, self._numbers(step)
        control.in_step = True
        try:
            outcome = self._run(step, run, numbers)
            if outcome.finite:
                self._begun.gathered += 1
                self._count(run, outcome)
                return None
            record = self._note(step, run, outcome, numbers, control.seconds)
        finally:
            control.in_step = False
        self._tell("on_step_end", record)
        return record

    def _take_group(self, group: Sequence[Batch]) -> list[Record]:
        """Run several steps as one; return no records if nothing was done: they must go singly."""
        step, number, control = self._current(), self.steps_done, self._control
        optimizers, skip = step.config.optimizers, self._skips()
        rates = [tuple(o.rate(number + i) for o in optimizers) for i in range(len(group))]
        batches = [feeds for feeds, _ in group]
        control.in_step = True
        try:
            began = control.seconds
            outcomes = self._steps.take_many(step, batches, rates, self._batches, skip=skip)
            if outcomes is None:
                return []
            self.last_feeds = batches[-1]
            each = (control.seconds - began) / len(group)
            records: list[Record] = []
            failed: Exception | None = None
            for outcome, rate, (feeds, rows) in zip(outcomes, rates, group, strict=True):
                began += each
                run = Run(step.update, feeds, rows, (), None)
                try:
                    records.append(self._note(step, run, outcome, rate, began))
                except Exception as error:  # of a metric; what follows has been committed, too
                    failed = failed or error
        finally:
            control.in_step = False
        for record in records:
            self._tell("on_step_end", record)
        if failed is not None:
            raise failed
        return records

    @property
    def _goes_singly(self) -> bool:
        """Whether steps cannot run as a group.

        Each waits for how the one before ended, or the last bits would not be those of single ones.
        """
        waits = self.scaler is not None or self._config.accumulation is not None
        return waits or not self._current().is_repeatable

    def _tell(self, hook: str, *what: Any, callbacks: Sequence[Callback] | None = None) -> None:
        """Call a hook of all callbacks; of several that fail, the first says why.

        At the end of a fit all are told, whatever some of them raise: they hold locks and files.
        """
        if not (self._callbacks if callbacks is None else callbacks):
            return
        control = self._control
        failed: Exception | None = None
        control.in_hooks = True
        try:
            for callback in self._callbacks if callbacks is None else callbacks:
                try:
                    getattr(callback, hook)(self._told, *what)
                except Exception as error:
                    if hook != "on_fit_end":
                        raise
                    failed = failed or error
        finally:
            control.in_hooks = False
        if failed is not None:
            raise failed

    # -- running a phase -------------------------------------------------------------------------

    def _numbers(self, step: StepGraph) -> tuple[float, ...]:
        """Return what is fed beside data: learning rates, and the scale of the loss."""
        number = self.steps_done
        rates = tuple([o.rate(number) for o in step.config.optimizers])
        return rates if self.scaler is None else (*rates, self.scaler.scale)

    def _run(
        self, step: StepGraph, run: Run, numbers: tuple[float, ...], watching: bool = False
    ) -> Outcome:
        """Run a phase; raises TrainingError if it is not finite and shall not be skipped."""
        phase, fed = run.phase, numbers
        if self._config.accumulation is not None:
            fed = (*numbers, *run.weight)[: len(phase.numbers)]
        try:
            outcome = self._steps.take(phase, run.feeds, fed, self._batches, watching=watching)
        except IdError as error:
            error.facts += found_in(error, run.feeds, self._origin(run.source))
            raise
        if not outcome.finite and phase is not step.flush and not self._skips():
            given = {**run.feeds, **dict(zip(phase.numbers, fed, strict=True))}
            number, origin = self.steps_done, self._origin(run.source)
            raise refusal(self.session, step, run.feeds, given, number, self._batches, origin)
        return outcome

    def _skips(self) -> bool:
        """Return whether what is not finite is skipped: by wish, or as a smaller scale may help."""
        if self._config.nonfinite == "skip":
            return True
        return self.scaler is not None and self.scaler.can_shrink

    def _origin(self, source: Batches | None) -> Callable[[int], str]:
        """Return what says where a row of the present batch comes from."""
        if source is None:
            return lambda row: f"row {row} of the batch"
        return lambda row: source.origin(self.epochs_done, self.batches_done, row)

    # -- noting what came out --------------------------------------------------------------------

    def _count(self, run: Run, outcome: Outcome) -> None:
        """Count a batch, and then add what it measured to the window and to the epoch."""
        begun = self._begun
        self._batches += 1
        begun.batches += run.rows > 0
        if not outcome.finite:
            return
        measured, rule, share = outcome.measured, self._config.accumulation, run.rows
        if rule is not None:
            weight: Any = (
                run.weight[0] if run.weight else self._extras(run.phase, outcome)["tokens"]
            )
            begun.window = self._measures.add(begun.window, measured, weight)
            share = weight if rule.by == "token" else run.rows
        if run.rows:
            begun.totals = self._measures.add(begun.totals, measured, share)

    def _note(
        self,
        step: StepGraph,
        run: Run,
        outcome: Outcome,
        numbers: tuple[float, ...],
        seconds: float,
    ) -> Record:
        """Count an update that has been committed or skipped, and return its record.

        It counts, without a record, where a metric raises.
        """
        config, phase = self._config, run.phase
        try:
            if phase is not step.flush:  # that is of batches which have been counted
                self._count(run, outcome)
            if config.accumulation is None or (phase.needed and not outcome.finite):
                metrics = self._measures.of_batch(outcome.measured)
            else:
                metrics = self._measures.results(self._begun.window)
            metrics["grad_norm"], metrics["learning_rate"] = outcome.norm, numbers[0]
            if config.groups or phase.extras or self.scaler is not None:
                self._add_extras(metrics, phase, outcome, numbers)
        finally:
            if config.accumulation is not None:
                if not outcome.finite:
                    self._forget_window()
                self._begun.gathered, self._begun.window = 0, {}
            if self.scaler is not None:
                self.scaler.update(outcome.finite)
            self.skipped += not outcome.finite
            self.steps_done += 1
        record = Record(self.steps_done, self.epochs_done + 1, metrics, seconds)
        self.history.add_step(record)
        return record

    def _add_extras(
        self,
        metrics: dict[str, float],
        phase: Phase,
        outcome: Outcome,
        numbers: tuple[float, ...],
    ) -> None:
        """Add the rates of other optimizers, the scale of the loss, and penalties."""
        others = numbers[1 : len(numbers) - (self.scaler is not None)]
        metrics.update((f"learning_rate_{i}", rate) for i, rate in enumerate(others, 1))
        if self.scaler is not None:
            metrics["loss_scale"] = self.scaler.scale
        found = self._extras(phase, outcome)
        metrics.update((name, value) for name, value in found.items() if name != "tokens")

    def _extras(self, phase: Phase, outcome: Outcome) -> dict[str, float]:
        start = len(outcome.measured) - len(phase.extras)
        return dict(zip(phase.extras, map(float, outcome.measured[start:]), strict=True))
