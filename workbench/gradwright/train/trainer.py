"""Trainer: runs training steps of a graph, and can be paused, stopped and continued exactly."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from ..data import Batches, batches, split
from ..data.batches import Feeds, grouped, named
from ..data.columns import named_parts
from ..errors import IdError, TrainingError
from ..evaluation.metrics import Metric
from ..graph import Graph, Tensor
from ..graph.walk import placeholders
from ..session import Session
from ..session.settings import is_count
from ..words.watched import is_watched
from .begun import Begun
from .callbacks import Callback, Progress
from .config import OF_SESSION, TrainingConfig, check_names
from .history import History, Record
from .optim import Optimizer
from .progress import Fit
from .stateful import restore, saved
from .step.chosen import listed
from .step.measure import Totals
from .step.refusal import found_in, misplaced
from .step.taker import Stepping


class Trainer(Stepping):
    """Trains the variables of a graph so that a loss falls.

    Everything a step changes - parameters, optimizer state, the graph's own updates such as running
    means - is committed together after the step, or not at all. Whoever stops the training, it ends
    between two steps, and ``fit`` goes on to the same numbers as if nothing had happened: to the
    bit with ``session=gw.Session(g, deterministic=True)``.

    Args:
        graph: the graph.
        loss: a floating scalar of it; or several, by name or in a list, whose sum is trained.
        optimizer: how parameters move; default ``Adam(1e-3)``.
        metrics: scalars (averaged over examples) or ``Metric`` objects by name.
        parameters: tensors or name patterns of the variables to train; default all of the graph.
            Those that are frozen are left alone, bit for bit, from the next step on.
        callbacks: hooks that are called between steps.
        session: runs the steps; by default one on ``device``, made as the configuration says.
        config: a ``TrainingConfig``; all that is given beside it counts instead.
        **settings: fields of a ``TrainingConfig`` such as ``clip_norm=1.0``, ``ema=gw.EMA()`` and
            ``groups=[...]``; ``help(gw.TrainingConfig)`` describes all.

    Raises TrainingError for a loss that is no scalar, settings that make no sense, and when
    training starts without a parameter; TypeError for a setting that does not exist.

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
        loss: Any = None,
        optimizer: Optimizer | None = None,
        *,
        metrics: Mapping[str, Tensor | Metric | str] | None = None,
        parameters: Iterable[Tensor | str] | Tensor | str | None = None,
        callbacks: Iterable[Callback] = (),
        session: Session | None = None,
        device: str = "cpu",
        config: TrainingConfig | None = None,
        **settings: Any,
    ) -> None:
        stated = {} if optimizer is None else {"optimizer": optimizer}
        check_names(settings, "Trainer")
        plan = (TrainingConfig() if config is None else config).but(**stated, **settings)
        if session is not None and (made := [n for n in OF_SESSION if n in settings]):
            raise TrainingError(
                f"{made[0]}= is for the session that a trainer makes, and one is given",
                hint=f"gw.Session(g, {made[0]}={settings[made[0]]!r})",
            )
        super().__init__(
            graph,
            plan.losses if loss is None else loss,
            plan,
            metrics=plan.metrics if metrics is None else metrics,
            parameters=plan.parameters if parameters is None else listed(parameters),
            callbacks=callbacks,
            session=session,
            device=device,
        )

    # -- training --------------------------------------------------------------------------------

    def fit(
        self,
        data: Any,
        *more: Any,
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
                an iterable of dicts, such as a torch DataLoader, or whatever else
                ``gw.data.dataset`` takes.
            *more: further arrays, where ``features`` and ``labels`` say what they are for.
            epochs: how many epochs.
            batch_size: examples per step, for arrays; default 32. The last batch may be short.
            validation: data to evaluate after each epoch, recorded as ``val_...``; or which part
                of the rows of ``data`` to hold out for it, such as 0.1.
            shuffle: whether arrays are shuffled, by a function of seed and epoch.
            drop_last: whether to leave out a short last batch.
            steps: stop after this many steps, if that is sooner; with ``accumulation`` each is an
                update, and the batches that are left at the end of an epoch make one, too.
            unroll: how many steps run as one plan, in which less is done between them: worthwhile
                for small models. The numbers, the history and what callbacks see are those of
                single steps; pauses, stops and Ctrl-C wait for the end of a group. Batches that
                do not fill a group or are of another size are single steps, and so is every step
                while a callback watches changes.
            progress: whether to show a bar; ``"auto"`` does in notebooks and terminals.

        Raises FeedError or TrainingError for data that does not fit, and TrainingError at the first
        step whose loss or gradient is not finite, before it changes anything.
        """
        if more:
            if not self._config.columns:
                raise misplaced(self.graph, more)
            data = (data, *more)
        if not (is_count(epochs, 0) and (steps is None or is_count(steps, 0))):
            raise TrainingError(
                f"cannot train epochs={epochs!r}, steps={steps!r}", need="ints >= 0"
            )
        if not isinstance(unroll, int) or unroll < 1:
            raise TrainingError(f"unroll={unroll!r} is no number of steps", need="an int >= 1")
        if progress not in (True, False, "auto"):
            raise TrainingError(f"progress={progress!r} is not known", need="True, False or 'auto'")
        self._check_weights()
        with self._control:
            names = self._config.columns or None
            if isinstance(validation, float):
                data, validation = split(data, validation, seed=self.seed, names=names)
            source = batches(
                self.graph,
                data,
                self.placeholders,
                batch_size,
                shuffle=shuffle,
                seed=self.seed,
                drop_last=drop_last,
                names=names,
            )
            held_out = None if validation is None else self._held_out(validation, batch_size)
            if self._begun.signature != source.signature():  # other data: the epoch begins anew
                self._forget_window()
                self._begun = Begun(source.signature())
            last_epoch = self.epochs_done + epochs
            last_step = math.inf if steps is None else self.steps_done + steps
            length = self._length(source, epochs, steps)
            per_epoch = self._updates_of(source.n_batches)
            self._fit = fit = Fit(self._where, epochs, length, per_epoch)
            bar = Progress(last_epoch, length)
            if progress is True or (progress == "auto" and is_watched()):
                self.add_callback(bar)
            try:
                self._tell("on_fit_start")
                stopped = self._control.attention and self._attend()
                while not stopped and self.epochs_done < last_epoch and self.steps_done < last_step:
                    if self._run_epoch(source, last_step, unroll) or self._end_epoch(held_out):
                        stopped = self.steps_done < last_step
                        break
                fit.end(stopped)
            except BaseException as error:
                fit.end(True, error)
                raise
            finally:
                try:
                    self._tell("on_fit_end")
                finally:
                    self.remove_callback(bar)
            self._control.interrupt()
        return self.history

    def step(self, batch: Any) -> Record | None:
        """Take one step on a batch and return its record; belongs to no epoch of ``fit``.

        With accumulation it is None where the window waits for more batches. Raises as ``fit``
        does; then nothing has changed.
        """
        self._check_weights()
        with self._control:
            record = self._take(self._fed(batch))
            if self._control.attention:
                self._attend()
            return record

    def _fed(self, batch: Any) -> Feeds:
        """Return a batch by placeholder; raises FeedError where names are unknown or missing."""
        batch = named_parts(batch, self._config.columns or None)
        keys = named(self.graph, batch, self.placeholders)
        return {t: np.asarray(batch[k]) for k, t in keys.items()}

    def evaluate(
        self, data: Any, *, batch_size: int | None = None, weights: str | None = None
    ) -> dict[str, float]:
        """Return loss and metrics over data in eval mode; batches may be of any size.

        ``weights`` says which: an average, ``"ema"`` or ``"swa"``; ``"optimizer"``, which
        schedule-free AdamW keeps itself; or ``"trained"``, the variables as they are. By default
        it is what ``fit`` validates: that of ``validate_with``, else the optimizer's, if there are.
        """
        source = self._held_out(data, batch_size)
        with self._with_weights(weights):
            return self._evaluate(source)

    @contextmanager
    def averaged(self, name: str = "ema") -> Iterator[None]:
        """Have the variables hold the average of their weights inside a ``with`` block.

        ``name`` is ``"ema"``, ``"swa"``, or ``"optimizer"`` for what schedule-free AdamW keeps.
        Afterwards they are what they were, bit for bit, whatever was set in the block. Raises
        TrainingError for an average that is not kept, and while a ``fit`` runs elsewhere.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> w = g.variable("w", (), init=1.0)
        >>> trainer = gw.Trainer(g, w * 1.0, optimizer=gw.optim.SGD(1.0), swa=gw.SWA())
        >>> history = trainer.fit([{}, {}], progress=False)
        >>> with trainer.averaged("swa"):
        ...     float(g.values["w"])
        -0.5
        """
        known = [*self._config.averages, *["optimizer"] * self._config.is_averaging]
        if name not in known:
            raise TrainingError(
                f"no average {name!r} of the weights is kept",
                need=" or ".join(map(repr, known)) or "Trainer(ema=gw.EMA())",
            )
        self._check_weights()
        if self.status == "running" and not self._control.is_here:
            raise TrainingError("the trainer is running", hint="trainer.pause(wait=True)")
        averages = self._steps.averages(self.session, self._config, name)
        held = {n: self.values[n] for n in averages}
        try:
            self._swapped = name
            self.values.commit(averages)
            yield
        finally:
            self.values.restore(held)
            self._swapped = ""

    @property
    def averages(self) -> dict[str, int]:
        """How many updates have counted in each average of the weights that is kept, by name.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> w = g.variable("w", (), init=4.0)
        >>> trainer = gw.Trainer(g, w * 1.0, swa=gw.SWA(start=3))
        >>> history = trainer.fit([{}], epochs=5, progress=False)
        >>> trainer.averages
        {'swa': 3}
        """
        return {name: self._steps.averaged(self.values, name) for name in self._config.averages}

    def _run_epoch(self, source: Batches, last_step: float, unroll: int) -> bool:
        """Train what is left of an epoch; return whether training ends before the epoch does."""
        control = self._control
        taken = source.epoch(self.epochs_done, self.batches_done)
        groups = (
            zip(taken)  # in groups of one
            if unroll == 1 or self._goes_singly
            else grouped(taken, lambda: self._room(last_step, unroll))
        )
        try:
            for group in groups:
                if len(group) == 1 or not self._take_group(group):
                    for feeds, rows in group:
                        self._take(feeds, rows, source)
                if control.attention and self._attend():
                    return True
                if self.steps_done >= last_step and self.batches_done != source.n_batches:
                    return True
        finally:
            taken.close()  # a thread that prefetches ends here, whoever keeps the traceback
        if self._begun.gathered:
            self._flush()
        return False

    def _room(self, last_step: float, unroll: int) -> int:
        """Return how many steps may run together now."""
        left = min(last_step - self.steps_done, self._control.left(self.steps_done))
        watched = any(type(c).wants_changes is not Callback.wants_changes for c in self._callbacks)
        return 1 if left < unroll or watched else unroll

    def _end_epoch(self, held_out: Batches | None) -> bool:
        """Validate and close the epoch; return whether to stop. Interrupted, it is done again."""
        control = self._control
        measured = self._measures.results(self._begun.totals)
        if held_out is not None:
            began = control.seconds
            with self._with_weights(None):
                measured.update((f"val_{k}", v) for k, v in self._evaluate(held_out).items())
            if self._fit is not None:
                self._fit.validated(control.seconds - began)
        control.in_step = True
        self.epochs_done += 1
        self._begun.batches, self._begun.totals = 0, {}
        record = Record(self.steps_done, self.epochs_done, measured, control.seconds)
        self.history.add_epoch(record)
        control.in_step = False
        self._tell("on_epoch_end", record)
        return control.attention and self._attend()

    def _attend(self) -> bool:
        """Pause as long as asked, and tell the callbacks; return whether to stop."""
        if self._control.pauses(self.steps_done):
            self._tell("on_pause")
            self._control.wait()
            self._tell("on_resume")
        return self._control.stops()

    def _with_weights(self, name: str | None) -> AbstractContextManager[None]:
        """Return what makes an evaluation see an average, by default what validation sees."""
        if name is None and not self._swapped:
            name = self._config.evaluated
        return nullcontext() if name in (None, "trained") else self.averaged(name)

    # -- measuring -------------------------------------------------------------------------------

    def _held_out(self, data: Any, batch_size: int | None) -> Batches:
        needed, names = placeholders(self._measures.fetches()), self._config.columns or None
        return batches(self.graph, data, needed, batch_size, exact=False, names=names)

    def _evaluate(self, source: Batches) -> dict[str, float]:
        totals: Totals = {}
        fetches = self.in_its_precision(self._measures.fetches())
        for batch, (feeds, rows) in enumerate(source.epoch(0)):
            try:
                measured = self.session.run(fetches, feeds, step=self.steps_done)
            except IdError as error:
                origin = functools.partial(source.origin, 0, batch)
                error.facts += ["in an evaluation", *found_in(error, feeds, origin)]
                raise
            totals = self._measures.add(totals, measured, rows)
        return self._measures.results(totals)

    def _length(self, source: Batches, epochs: int, steps: int | None) -> int | None:
        """Return how many steps a fit will take, where known."""
        known = [] if steps is None else [steps]
        if source.n_batches is not None and epochs:
            left = self._updates_of(source.n_batches - self.batches_done + self._begun.gathered)
            known.append((epochs - 1) * self._updates_of(source.n_batches) + left)
        return min(known, default=None)

    def _updates_of(self, batches: Any) -> Any:
        """Return how many updates so many batches make; None for None."""
        return batches if batches is None else -(-batches // self.window[1])

    # -- saving ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return all that a continuation needs beside the graph and its values, as named arrays.

        It fits ``gw.save(g, path, state={"trainer": trainer.state_dict()})``. Take it between
        steps: in a callback, or when paused or idle; a window that was begun is part of it.
        """
        return saved(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` returned, all or nothing.

        Raises TrainingError if it is of another optimizer, or of parameters this graph has not.
        """
        self._check_weights()
        restore(self, state)

    def __repr__(self) -> str:
        return (
            f"<Trainer of {self._steps.losses[0].name!r} with {type(self.optimizer).__name__}: "
            f"{self.status}, {self.epochs_done} epochs, {self.steps_done} steps>"
        )
