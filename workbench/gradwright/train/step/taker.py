"""Taker: takes steps, commits them and notes what came out, batch by batch or in windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...data.batches import Batch, Batches, Feeds
from ...errors import IdError, TrainingError
from ...graph import Tensor
from ...words.tables import Table
from ..callbacks import Change
from ..config import Setup
from ..control import Control
from ..history import History, Record
from ..objective import Objective
from ..position import Position
from ..precision.scaler import LossScaler, scaler_of
from ..stateful import beneath
from .graph import Phase, StepGraph
from .keeper import Fed, Outcome, StepKeeper
from .labels import refuse_labels
from .measure import Measures
from .refusal import found_in, refusal
from .run import Run

SCALER = "scaler/"
"""What the state of the scale of the loss stands under."""


class Taker:
    """Takes steps of an objective, one by one or several as one, and notes what they measure.

    ``next`` settles what the next run is, ``take`` runs and commits it; between them callbacks may
    look. A step that is refused leaves everything as it was. As a ``Stateful`` part it is the
    position and the scale of the loss.
    """

    def __init__(
        self,
        setup: Setup,
        objective: Objective,
        position: Position,
        control: Control,
        parameters: Sequence[Tensor | str] | None = None,
    ) -> None:
        self._setup, self._position, self._control = setup, position, control
        self.measures = Measures(objective.graph, objective.losses, objective.metrics)
        stand_ins = getattr(objective, "stand_ins", None)
        losses = list(objective.losses.values())
        self.keeper = StepKeeper(setup, losses, self.measures, parameters, stand_ins)
        self.history = History()
        self._losses, self._looked = losses, False
        self._usual: tuple[Any, ...] | None = None
        """The moment of the keeper's at which updates were found to be usual ones."""
        self._held_rows: Mapping[str, int] = {}
        """How the step before held what waits for an update."""
        self.last_feeds: Feeds = {}
        """What the latest step was fed with; a failing step can be replayed from it."""
        self.scaler: LossScaler | None = None
        """The scale of the loss, where there is one."""
        self.rescale()

    def current(self) -> StepGraph:
        """Return the graph of the next step; to others than the thread that trains, the latest.

        So nobody who looks clears a graph that is about to be run.
        """
        ready = self.keeper.ready()
        if ready is not None:
            return ready
        return self.keeper.current(as_it_is=self._control.is_elsewhere)

    def in_its_precision(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return what stands for tensors where the steps compute in fewer bits; else themselves."""
        config = self._setup.config
        if config.precision is None and config.fp8 is None:
            return list(tensors)
        copy = self.current().lowered
        return list(tensors) if copy is None else [copy.of(t) for t in tensors]

    @property
    def gradient_table(self) -> Table:
        """What the gradient of each parameter is in a step; see ``StepGraph.table``."""
        return self.current().table()

    # -- a step ----------------------------------------------------------------------------------

    def step(self, feeds: Feeds, rows: int = 0, source: Batches | None = None) -> Record | None:
        """Do what ``next`` and ``take`` do: usual updates in one go, 4 us beside the run, not 10.

        They are those that fill no window, scale no loss, and record nothing of their own.
        """
        keeper, position, control = self.keeper, self._position, self._control
        step = keeper.ready()
        if step is None or keeper.moment is not self._usual or self.scaler is not None:
            run = self.next(feeds, rows, source)
            record = self.take(run)
            self._usual = self._usual_from(run)
            return record
        phase, numbers, number = step.update, keeper.steady, position.taken
        if numbers is None:
            numbers = self._fed(step, position.steps)
        self.last_feeds = feeds
        control.in_step = True
        try:
            try:
                finite, norm, *measured = keeper.run(phase, feeds, numbers, number)
            except IdError as error:
                error.facts += found_in(error, feeds, self._origin(source))
                raise
            if not finite:
                run = Run(step, phase, feeds, rows, numbers, (), source)
                self._refuse(run, numbers)
                return self._note(run, Outcome(False, float(norm), measured, {}), control.seconds)
            position.taken = number + 1
            position.steps += 1
            if rows:
                begun = position.begun
                begun.batches += 1
                begun.totals = self.measures.add(begun.totals, measured, rows)
            metrics = self.measures.of_batch(measured)
            metrics["grad_norm"], metrics["learning_rate"] = float(norm), numbers[0]
            record = Record(position.steps, position.epochs + 1, metrics, control.seconds)
            self.history.add_step(record)
            return record
        finally:
            control.in_step = False

    def _usual_from(self, run: Run) -> tuple[Any, ...] | None:
        """Return the moment from which on updates are usual ones; None where they are not."""
        config, keeper = self._setup.config, self.keeper
        has_more = run.phase.extras or config.groups or keeper.numbers.shown
        is_usual = config.accumulation is None and self.scaler is None and not has_more
        return keeper.moment if is_usual and keeper.moment else None

    def next(self, feeds: Feeds, rows: int = 0, source: Batches | None = None) -> Run:
        """Return the next run: an update, or where a window waits for more, a batch of it."""
        step, rule = self.keeper.ready() or self.current(), self._setup.config.accumulation
        if not self._looked:
            self._look_at(feeds)
        self.last_feeds = feeds
        if rule is None:
            return Run(step, step.update, feeds, rows, self._numbers(step), (), source)
        self._keep_window(step)
        size = rows or next((len(a) for a in feeds.values() if np.ndim(a)), 1)
        weight = () if rule.by == "token" else (float(size if rule.by == "example" else 1),)
        phase = step.update
        if step.gather is not None and self._position.begun.gathered + 1 < rule.steps:
            phase = step.gather
        return Run(step, phase, feeds, rows, self._numbers(step), weight, source)

    def last(self) -> Run | None:
        """Return the update with the batches that wait, where an epoch has no more for them."""
        step = self.current()
        self._keep_window(step)
        if step.flush is None or not self._position.begun.gathered:
            return None
        return Run(step, step.flush, {}, 0, self._numbers(step))

    def take(self, run: Run, *, watching: bool = False) -> Record | None:
        """Take a run and return its record, or None where the window waits for more.

        With ``watching`` it notes its changes. A batch that is not finite ends its window: it is
        skipped.
        """
        control, before = self._control, {}
        if watching:
            values = self._setup.session.values
            before = {t: values.array(t.name) for t in self.keeper.watched}
        control.in_step = True
        try:
            outcome = self._run(run, watching)
            if run.phase is run.step.gather and outcome.finite:
                self._position.begun.gathered += 1
                self._count(run, outcome)
                return None
            record = self._note(run, outcome, control.seconds)
        finally:
            control.in_step = False
        if watching:
            run.changes = {
                t.name: Change(outcome.grads.get(t), array, values.array(t.name))
                for t, array in before.items()
            }
        return record

    # -- several as one --------------------------------------------------------------------------

    @property
    def goes_singly(self) -> bool:
        """Whether steps cannot run as a group.

        Each waits for how the one before ended, or the last bits would not be those of single ones.
        """
        waits = self.scaler is not None or self._setup.config.accumulation is not None
        return waits or not self.current().is_repeatable

    def take_group(self, group: Sequence[Batch]) -> tuple[list[Record], Exception | None]:
        """Run several steps as one; return no records if nothing was done: they must go singly.

        Beside them is the error of a metric, where one has failed: all has been committed.
        """
        step, number, control = self.current(), self._position.steps, self._control
        fed, skip = [self._fed(step, number + i) for i in range(len(group))], self._skips()
        batches = [feeds for feeds, _ in group]
        if not self._looked:
            self._look_at(batches[0])
        records: list[Record] = []
        failed: Exception | None = None
        control.in_step = True
        try:
            began = control.seconds
            taken = self._position.taken
            outcomes = self.keeper.take_many(step, batches, fed, taken, skip=skip)
            if outcomes is None:
                return [], None
            self.last_feeds = batches[-1]
            each = (control.seconds - began) / len(group)
            for outcome, numbers, (feeds, rows) in zip(outcomes, fed, group, strict=True):
                began += each
                run = Run(step, step.update, feeds, rows, numbers)
                try:
                    records.append(self._note(run, outcome, began))
                except Exception as error:
                    failed = failed or error
        finally:
            control.in_step = False
        return records, failed

    def _look_at(self, feeds: Feeds) -> None:
        """Refuse labels of the first batch that cannot be meant; later ones are not looked at."""
        refuse_labels(self._losses, feeds)
        self._looked = True

    # -- running a phase -------------------------------------------------------------------------

    def _numbers(self, step: StepGraph) -> Fed:
        """Return what is fed beside data: what settings say of this step, and the loss's scale."""
        fed = self.keeper.steady
        if fed is None:
            fed = self._fed(step, self._position.steps)
        return fed if self.scaler is None else (*fed, self.scaler.scale)

    def _fed(self, step: StepGraph, number: int) -> Fed:
        """Return what settings say of a step: learning rates, and all other numbers as one."""
        others = self.keeper.numbers.at(number)
        rates = [o.rate(number) for o in step.config.optimizers]
        return (*rates, others) if others else tuple(rates)

    def _run(self, run: Run, watching: bool) -> Outcome:
        """Run a phase; raises TrainingError if it is not finite and shall not be skipped."""
        phase, fed, number = run.phase, run.numbers, self._position.taken
        if self._setup.config.accumulation is not None:
            fed = (*fed, *run.weight)[: len(phase.numbers)]
        try:
            outcome = self.keeper.take(phase, run.feeds, fed, number, watching=watching)
        except IdError as error:
            error.facts += found_in(error, run.feeds, self._origin(run.source))
            raise
        if not outcome.finite and phase is not run.step.flush:
            self._refuse(run, fed)
        return outcome

    def _refuse(self, run: Run, fed: Fed) -> None:
        """Raise TrainingError for what is not finite, unless it shall be skipped."""
        if self._skips():
            return
        given = {**run.feeds, **dict(zip(run.phase.numbers, fed, strict=True))}
        at, number, origin = self._position.steps, self._position.taken, self._origin(run.source)
        raise refusal(self._setup.session, run.step, run.feeds, given, at, number, origin)

    def _skips(self) -> bool:
        """Return whether what is not finite is skipped: by wish, or as a smaller scale may help."""
        if self._setup.config.nonfinite == "skip":
            return True
        return self.scaler is not None and self.scaler.can_shrink

    def _origin(self, source: Batches | None) -> Callable[[int], str]:
        """Return what says where a row of the present batch comes from."""
        if source is None:
            return lambda row: f"row {row} of the batch"
        return lambda row: source.origin(self._position.epochs, self._position.begun.batches, row)

    # -- noting what came out --------------------------------------------------------------------

    def _count(self, run: Run, outcome: Outcome) -> None:
        """Count a batch, and then add what it measured to the window and to the epoch."""
        position, rule, share = self._position, self._setup.config.accumulation, run.rows
        begun, measured = position.begun, outcome.measured
        position.taken += 1
        begun.batches += share > 0
        if not outcome.finite:
            return
        if rule is not None:
            given = run.weight or (self._extras(run.phase, outcome)["tokens"],)
            weight: Any = given[0]
            begun.window = self.measures.add(begun.window, measured, weight, as_given=True)
            share = weight if rule.by == "token" else run.rows
        if run.rows:
            begun.totals = self.measures.add(begun.totals, measured, share)

    def _note(self, run: Run, outcome: Outcome, seconds: float) -> Record:
        """Count an update that has been committed or skipped, and return its record.

        It counts, without a record, where a metric raises.
        """
        config, phase, position = self._setup.config, run.phase, self._position
        rule = config.accumulation
        try:
            if phase is not run.step.flush:  # that is of batches which have been counted
                self._count(run, outcome)
            if rule is None or (phase.needed and not outcome.finite):
                metrics = self.measures.of_batch(outcome.measured)
            else:
                metrics = self.measures.results(position.begun.window)
            metrics["grad_norm"], metrics["learning_rate"] = outcome.norm, run.numbers[0]
            shown = self.keeper.numbers.shown
            if config.groups or phase.extras or self.scaler is not None or shown:
                self._add_extras(metrics, run, outcome)
        finally:
            if rule is not None:
                if not outcome.finite:
                    self.forget_window()
                position.begun.gathered, position.begun.window = 0, {}
            if self.scaler is not None:
                self.scaler.update(outcome.finite)
            position.skipped += not outcome.finite
            position.steps += 1
        record = Record(position.steps, position.epochs + 1, metrics, seconds)
        self.history.add_step(record)
        return record

    def _add_extras(self, metrics: dict[str, float], run: Run, outcome: Outcome) -> None:
        """Add other optimizers' rates, numbers that move, the scale of the loss, and penalties."""
        n = len(run.step.config.optimizers)
        metrics.update((f"learning_rate_{i}", rate) for i, rate in enumerate(run.numbers[1:n], 1))
        for name, at in self.keeper.numbers.shown.items():
            metrics.setdefault(name, run.numbers[n][at])
        if self.scaler is not None:
            metrics["loss_scale"] = self.scaler.scale
        found = self._extras(run.phase, outcome)
        metrics.update((name, value) for name, value in found.items() if name != "tokens")

    def _extras(self, phase: Phase, outcome: Outcome) -> dict[str, float]:
        start = len(outcome.measured) - len(phase.extras)
        return dict(zip(phase.extras, map(float, outcome.measured[start:]), strict=True))

    # -- between steps ---------------------------------------------------------------------------

    def rescale(self) -> None:
        """Begin with the scale of the loss that the settings state."""
        scale = self._setup.config.scaler
        self.scaler = None if scale is None else LossScaler(scale)

    def forget_window(self) -> None:
        """Drop what waits for an update."""
        begun = self._position.begun
        if begun.gathered:
            self.keeper.empty()
            begun.gathered, begun.window = 0, {}

    def _keep_window(self, step: StepGraph) -> None:
        """Drop what waits if a step holds it otherwise, as for an optimizer that moves all rows."""
        held, now = self._held_rows, step.held_rows
        if held is not now and any(now.get(name, n) != n for name, n in held.items()):
            self.forget_window()
        self._held_rows = now

    @property
    def window(self) -> tuple[int, int]:
        """How many batches wait for their update, and how many an update takes."""
        rule = self._setup.config.accumulation
        return self._position.begun.gathered, 1 if rule is None else rule.steps

    # -- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return where the training stands, and the scale of the loss."""
        scaler = {} if self.scaler is None else self.scaler.state_dict()
        scales = {f"{SCALER}{k}": np.array(v) for k, v in scaler.items()}
        return self._position.state_dict() | scales

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` returned; raises TrainingError where it does not fit."""
        came = Position()
        came.load_state_dict(state)
        gathered, most = came.begun.gathered, self.window[1]
        if gathered >= most:
            raise TrainingError(
                f"this is state with {gathered} batches of a window",
                need=f"fewer than {most}, which make an update here",
                hint="the same accumulation= as before",
            )
        self.measures.check(came.begun.totals)
        self.measures.check(came.begun.window)
        self.scaler = scaler_of(self._setup.config.scaler, beneath(SCALER, state))
        self._position.load_state_dict(state)
