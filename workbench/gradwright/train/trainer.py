"""Trainer: runs training steps of a graph, and can be paused, stopped and continued exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import TrainingError
from ..graph import Graph, Tensor, Values
from ..session import Session
from ..spec import kind
from .callbacks import Callback, Change, Progress, is_watched
from .controlled import Controlled
from .data import Batch, Batches, Feeds, batches, grouped, named
from .history import History, Record
from .measure import Measures, Totals, now
from .metrics import Metric
from .optim import Adam, Optimizer
from .progress import Fit
from .refusal import misplaced, refusal
from .step import StepGraph, placeholders
from .steps import Outcome, Steps


class Trainer(Controlled):
    """Trains the variables of a graph so that a loss falls.

    Everything a step changes - parameters, optimizer state, the graph's own updates such as running
    means - is committed together after the step, or not at all. Whoever stops the training, it ends
    between two steps, and ``fit`` goes on to the same numbers as if nothing had happened: to the
    bit with ``session=gw.Session(g, deterministic=True)``.

    Args:
        graph: the graph.
        loss: a floating scalar of it.
        optimizer: how parameters move; default ``Adam(1e-3)``.
        metrics: scalars (averaged over examples) or ``Metric`` objects by name.
        parameters: tensors or name patterns of the variables to train; default all of the graph.
            Those that are frozen are left alone, bit for bit, from the next step on.
        clip_norm: upper bound of the norm of all gradients together.
        nonfinite: what to do when loss or gradient is NaN or infinite: ``"raise"`` or ``"skip"``.
        callbacks: hooks that are called between steps.
        seed: decides the order of the data, and with the step all random ops.
        session: runs the steps; by default one on ``device``.

    Raises TrainingError for a loss that is no scalar, and when training starts without a parameter.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph("line")
    >>> x, t = g.placeholder("x", (None,)), g.placeholder("t", (None,))
    >>> w, b = g.variable("w", ()), g.variable("b", ())
    >>> loss = gw.mean((x * w + b - t) ** 2.0)
    >>> trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(0.1))
    >>> xs = np.linspace(-1, 1, 64)
    >>> history = trainer.fit({"x": xs, "t": 3 * xs + 1}, epochs=100, progress=False)
    >>> g.values["w"].round(2).item(), g.values["b"].round(2).item()
    (3.0, 1.0)
    """

    def __init__(
        self,
        graph: Graph,
        loss: Tensor | str,
        optimizer: Optimizer | None = None,
        *,
        metrics: Mapping[str, Tensor | Metric] | None = None,
        parameters: Iterable[Tensor | str] | None = None,
        clip_norm: float | None = None,
        nonfinite: str = "raise",
        callbacks: Iterable[Callback] = (),
        seed: int = 0,
        session: Session | None = None,
        device: str = "cpu",
    ) -> None:
        if nonfinite not in ("raise", "skip"):
            raise TrainingError(f"nonfinite={nonfinite!r} is not known", need="'raise' or 'skip'")
        self.graph = graph
        target = graph[loss] if isinstance(loss, str) else graph.check_member(loss)
        if target.rank or kind(target.dtype) != "f":
            raise TrainingError(
                f"the loss {target.name!r} is {target.spec}",
                facts=[f"made at {target.node.where or 'no line'}"],
                need="a floating scalar, f32[]",
                hint="gw.mean(loss)" if target.rank else "gw.cast(loss, 'float32')",
            )
        self.optimizer = Adam() if optimizer is None else optimizer
        if not isinstance(self.optimizer, Optimizer):
            raise TrainingError(
                f"{optimizer!r} is no optimizer", need="an instance", hint="gw.optim.Adam(1e-3)"
            )
        self.clip_norm, self.nonfinite, self.seed = clip_norm, nonfinite, seed
        self.session = Session(graph, device, seed=seed) if session is None else session
        if self.session.graph is not graph:
            raise TrainingError(f"the session runs another graph, {self.session.graph.name!r}")
        super().__init__(callbacks)
        self.history = History()
        self.skipped = 0
        """Steps that were not committed, with ``nonfinite="skip"``."""
        self.last_feeds: Feeds = {}
        """What the latest step was fed with; a failing step can be replayed from it."""
        self._measures = Measures(graph, target, metrics or {})
        self._totals: Totals = {}
        self._signature: list[int] = []
        chosen = None if parameters is None else list(parameters)
        self._steps = Steps(target, self._measures, chosen)

    # -- training --------------------------------------------------------------------------------

    def fit(
        self,
        data: Any,
        *unnamed: Any,
        epochs: int = 1,
        batch_size: int | None = None,
        validation: Any = None,
        shuffle: bool = True,
        drop_last: bool = False,
        steps: int | None = None,
        unroll: int = 1,
        progress: bool | str = "auto",
    ) -> History:
        """Train ``epochs`` more epochs and return the history of all training so far.

        An epoch that was interrupted is finished first, counts as one, and is continued at the same
        batch if the data is the same. Iterables must then give the same batches again.

        Args:
            data: arrays of equal length by placeholder name (a scalar placeholder takes one value),
                or an iterable of dicts, such as a torch DataLoader.
            *unnamed: refused; several arrays are one dict.
            epochs: how many epochs.
            batch_size: examples per step, for arrays; default 32. The last batch may be short.
            validation: data to evaluate after each epoch, recorded as ``val_...``.
            shuffle: whether arrays are shuffled, by a function of seed and epoch.
            drop_last: whether to leave out a short last batch.
            steps: stop after this many steps, if that is sooner.
            unroll: how many steps run as one plan, in which less is done between them: worthwhile
                for small models. The numbers, the history and what callbacks see are those of
                single steps; pauses, stops and Ctrl-C wait for the end of a group. Batches that
                do not fill a group or are of another size are single steps, and so is every step
                while a callback watches changes.
            progress: whether to show a bar; ``"auto"`` does in notebooks and terminals.

        Raises FeedError or TrainingError for data that does not fit, and TrainingError at the first
        step whose loss or gradient is not finite, before it changes anything.
        """
        if unnamed:
            raise misplaced(self.graph, unnamed)
        if epochs < 0 or (steps is not None and steps < 0):
            raise TrainingError(f"cannot train epochs={epochs}, steps={steps}", need="numbers >= 0")
        if not isinstance(unroll, int) or unroll < 1:
            raise TrainingError(f"unroll={unroll!r} is no number of steps", need="an int >= 1")
        if progress not in (True, False, "auto"):
            raise TrainingError(f"progress={progress!r} is not known", need="True, False or 'auto'")
        with self._control:
            source = batches(
                self.graph,
                data,
                self._current().needed,
                batch_size,
                shuffle=shuffle,
                seed=self.seed,
                drop_last=drop_last,
            )
            held_out = None if validation is None else self._held_out(validation, batch_size)
            if self._signature != source.signature():  # other data: the epoch begins anew
                self.batches_done, self._totals = 0, {}
                self._signature = source.signature()
            last_epoch = self.epochs_done + epochs
            last_step = math.inf if steps is None else self.steps_done + steps
            length = self._length(source, epochs, steps)
            self._fit = fit = Fit(self._where, epochs, length, source.n_batches)
            bar = Progress(last_epoch, length)
            if progress is True or (progress == "auto" and is_watched()):
                self.add_callback(bar)
            stopped = False
            try:
                for callback in self._callbacks:
                    callback.on_fit_start(self)
                while self.epochs_done < last_epoch and self.steps_done < last_step:
                    if self._run_epoch(source, last_step, unroll) or self._end_epoch(held_out):
                        stopped = self.steps_done < last_step
                        break
                fit.end(stopped)
            except BaseException as error:
                fit.end(True, error)
                raise
            finally:
                for callback in self._callbacks:
                    callback.on_fit_end(self)
                self.remove_callback(bar)
        return self.history

    def step(self, batch: Mapping[Any, Any]) -> Record:
        """Take one step on a batch and return its record; belongs to no epoch of ``fit``.

        Raises as ``fit`` does; then nothing has changed.
        """
        with self._control:
            keys = named(self.graph, batch, self._current().needed)
            feeds = {t: np.asarray(batch[k]) for k, t in keys.items()}
            record = self._take(feeds)
            if self._control.attention:
                self._attend()
            return record

    def evaluate(self, data: Any, *, batch_size: int | None = None) -> dict[str, float]:
        """Return loss and metrics over data in eval mode; batches may be of any size."""
        return self._evaluate(self._held_out(data, batch_size))

    def _run_epoch(self, source: Batches, last_step: float, unroll: int) -> bool:
        """Train what is left of an epoch; return whether training ends before the epoch does."""
        control = self._control
        taken = source.epoch(self.epochs_done, self.batches_done)
        groups = (
            ([batch] for batch in taken)
            if unroll == 1
            else grouped(taken, lambda: self._room(last_step, unroll))
        )
        for group in groups:
            if len(group) == 1 or not self._take_group(group):
                for feeds, rows in group:
                    self._take(feeds, rows, source)
            if control.attention and self._attend():
                return True
            if self.steps_done >= last_step and self.batches_done != source.n_batches:
                return True
        return False

    def _room(self, last_step: float, unroll: int) -> int:
        """Return how many steps may run together now."""
        left = min(last_step - self.steps_done, self._control.left(self.steps_done))
        watched = any(type(c).wants_changes is not Callback.wants_changes for c in self._callbacks)
        return 1 if left < unroll or watched else unroll

    def _end_epoch(self, held_out: Batches | None) -> bool:
        """Validate and close the epoch; return whether to stop. Interrupted, it is done again."""
        control = self._control
        measured = self._measures.results(self._totals)
        if held_out is not None:
            began = control.seconds
            measured.update((f"val_{k}", v) for k, v in self._evaluate(held_out).items())
            if self._fit is not None:
                self._fit.validated(control.seconds - began)
        control.in_step = True
        self.epochs_done += 1
        self.batches_done, self._totals = 0, {}
        record = Record(self.steps_done, self.epochs_done, measured, control.seconds)
        self.history.add_epoch(record)
        control.in_step = False
        for callback in self._callbacks:
            callback.on_epoch_end(self, record)
        return control.attention and self._attend()

    def _attend(self) -> bool:
        """Pause as long as asked, and tell the callbacks; return whether to stop."""
        if self._control.pauses(self.steps_done):
            for callback in self._callbacks:
                callback.on_pause(self)
            self._control.wait()
            for callback in self._callbacks:
                callback.on_resume(self)
        return self._control.stops()

    def _take(self, feeds: Feeds, rows: int = 0, source: Batches | None = None) -> Record:
        """Run a step, commit it and note what came out; ``rows`` counts towards the epoch."""
        step, number, control = self._current(), self.steps_done, self._control
        rate = self.optimizer.rate(number)
        self.last_feeds = feeds
        watching = self._callbacks and [c for c in self._callbacks if c.wants_changes(self)]
        before = {t: self.values.array(t.name) for t in self._steps.watched} if watching else {}
        control.in_step = True
        try:
            outcome = self._steps.take(step, feeds, rate, number, watching=bool(watching))
            if not outcome.finite and self.nonfinite == "raise":
                raise refusal(self.session, step, feeds, number, rate, self._origin(source))
            record = self._note(outcome, rate, rows, control.seconds)
        finally:
            control.in_step = False
        if watching:
            changes = {
                t.name: Change(outcome.grads.get(t), array, self.values.array(t.name))
                for t, array in before.items()
            }
            for callback in watching:
                callback.on_changes(self, record, changes)
        for callback in self._callbacks:
            callback.on_step_end(self, record)
        return record

    def _take_group(self, group: Sequence[Batch]) -> bool:
        """Run several steps as one; return False if nothing was done and they must go singly."""
        step, number, control = self._current(), self.steps_done, self._control
        rates = [self.optimizer.rate(number + i) for i in range(len(group))]
        batches, skip = [feeds for feeds, _ in group], self.nonfinite == "skip"
        control.in_step = True
        try:
            began = control.seconds
            outcomes = self._steps.take_many(step, batches, rates, number, skip=skip)
            if outcomes is None:
                return False
            self.last_feeds = batches[-1]
            each = (control.seconds - began) / len(group)
            records = [
                self._note(outcome, rate, rows, began + each * i)
                for i, (outcome, rate, (_, rows)) in enumerate(
                    zip(outcomes, rates, group, strict=True), 1
                )
            ]
        finally:
            control.in_step = False
        for record in records:
            for callback in self._callbacks:
                callback.on_step_end(self, record)
        return True

    def _note(self, outcome: Outcome, rate: float, rows: int, seconds: float) -> Record:
        """Count a step that has been committed or skipped, and return its record."""
        if rows:
            self.batches_done += 1
            if outcome.finite:
                self._totals = self._measures.add(self._totals, outcome.measured, rows)
        self.skipped += not outcome.finite
        self.steps_done += 1
        metrics = self._measures.of_batch(outcome.measured)
        metrics["grad_norm"], metrics["learning_rate"] = outcome.norm, rate
        record = Record(self.steps_done, self.epochs_done + 1, metrics, seconds)
        self.history.add_step(record)
        return record

    # -- measuring -------------------------------------------------------------------------------

    def _held_out(self, data: Any, batch_size: int | None) -> Batches:
        size = batch_size if isinstance(data, Mapping) else None
        needed = placeholders(self._measures.fetches())
        return batches(self.graph, data, needed, size, exact=False)

    def _evaluate(self, source: Batches) -> dict[str, float]:
        totals: Totals = {}
        fetches = self._measures.fetches()
        for feeds, rows in source.epoch(0):
            measured = self.session.run(fetches, feeds, step=self.steps_done)
            totals = self._measures.add(totals, measured, rows)
        return self._measures.results(totals)

    def _origin(self, source: Batches | None) -> Callable[[int], str]:
        """Return what says where a row of the present batch comes from."""
        if source is None:
            return lambda row: f"row {row} of the batch"
        return lambda row: source.origin(self.epochs_done, self.batches_done, row)

    def _length(self, source: Batches, epochs: int, steps: int | None) -> int | None:
        """Return how many steps a fit will take, where known."""
        known = [] if steps is None else [steps]
        if source.n_batches is not None:
            known.append(epochs * source.n_batches - self.batches_done)
        return min(known, default=None)

    # -- what is trained -------------------------------------------------------------------------

    @property
    def parameters(self) -> list[Tensor]:
        """Return the variables that the next step trains."""
        return self._steps.parameters

    @property
    def loss(self) -> Tensor:
        """Return the loss that is trained."""
        return now(self.graph, self._steps.loss)

    @property
    def values(self) -> Values:
        """Return the values that are trained: those of the session, usually the graph's."""
        return self.session.values

    def _current(self) -> StepGraph:
        return self._steps.current(self.session, self.optimizer, self.clip_norm)

    # -- saving ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return all that a continuation needs beside the graph and its values, as named arrays.

        It fits ``gw.save(g, path, state={"trainer": trainer.state_dict()})``. Take it between
        steps: in a callback, or when paused or idle.
        """
        counters = (self.steps_done, self.epochs_done, self.batches_done, self.skipped)
        slots = {} if self._steps.state is None else self._steps.state.arrays()
        return {
            "optimizer": np.frombuffer(type(self.optimizer).__name__.encode(), np.uint8),
            "counters": np.array(counters),
            "seeds": np.array((self.seed, self.session.seed)),
            "data": np.array(self._signature, np.int64),
            **{f"totals/{k}": np.array(v) for k, v in self._totals.items()},
            **{f"history/{k}": v for k, v in self.history.arrays().items()},
            **{f"state/{k}": v for k, v in slots.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` returned, all or nothing.

        Raises TrainingError if it is of another optimizer, or of parameters this graph has not.
        """
        if self.status == "running":
            raise TrainingError("the trainer is running", hint="trainer.pause(wait=True)")
        missing = {"optimizer", "counters", "seeds", "data"} - state.keys()
        if missing:
            raise TrainingError(f"this is no state of a trainer: {missing.pop()!r} is missing")
        came = bytes(np.asarray(state["optimizer"])).decode()
        if came != type(self.optimizer).__name__:
            raise TrainingError(
                f"this is state of {came}", need=f"state of {type(self.optimizer).__name__}"
            )
        counters, seeds, signature = (
            [int(n) for n in state[key]] for key in ("counters", "seeds", "data")
        )
        if (len(counters), len(seeds)) != (4, 2):
            raise TrainingError("this is no state of a trainer: it has other counters")
        history = History.from_arrays(_part(state, "history/"))
        totals = self._measures.load(_part(state, "totals/"))
        self._steps.load(_part(state, "state/"), self.values, self.optimizer)
        self._fit = None
        self.steps_done, self.epochs_done, self.batches_done, self.skipped = counters
        self.seed, self.session.seed = seeds
        self.history, self._totals, self._signature = history, totals, signature
        self._control.seconds = history.seconds

    def __repr__(self) -> str:
        return (
            f"<Trainer of {self._steps.loss.name!r} with {type(self.optimizer).__name__}: "
            f"{self.status}, {self.epochs_done} epochs, {self.steps_done} steps>"
        )


def _part(state: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
