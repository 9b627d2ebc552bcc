"""Trainer: runs training steps of a graph, and can be paused, stopped and continued exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ..data import split
from ..data.batches import Feeds
from ..errors import TrainingError
from ..evaluation.metrics import Metric
from ..graph import Graph, Tensor, Values
from ..session import Session
from ..words.tables import Table
from ..words.watched import is_watched
from .callbacks import Callback
from .config import OF_SESSION, TrainingConfig, check_names
from .history import History, Record
from .hits import accuracy
from .living import enter
from .loop import checked_length
from .objective import Objective
from .optim import Optimizer
from .parts import Parts, part, setting
from .placed import placed
from .position import FitProgress
from .precision.forward import table
from .precision.scaler import LossScaler
from .step.chosen import listed
from .step.refusal import misplaced


class Trainer:
    """Trains the variables of a graph so that a loss falls.

    Everything a step changes - parameters, optimizer state, the graph's own updates such as running
    means - is committed together after the step, or not at all. Whoever stops the training, it ends
    between two steps, and ``fit`` goes on to the same numbers as if nothing had happened: to the
    bit with ``session=gw.Session(g, deterministic=True)``.

    Args:
        graph: the graph.
        loss: a floating scalar of it; or several, by name or in a list, whose sum is trained; or an
            ``Objective`` (``train/objective.py``), which says itself what data feeds.
        optimizer: how parameters move, or a name such as ``"adam"``; default ``Adam(1e-3)``.
        metrics: scalars (means over examples, or what else they divide by) or ``Metric``s by name.
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
        optimizer: Optimizer | str | None = None,
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
        self.graph = graph
        self.parts = Parts(
            self,
            graph,
            plan.losses if loss is None else loss,
            plan,
            metrics=metrics,
            parameters=plan.parameters if parameters is None else listed(parameters),
            callbacks=callbacks,
            session=session,
            device=device,
        )
        """What does the work."""
        enter(self)

    # -- training --------------------------------------------------------------------------------

    def fit(
        self,
        data: Any,
        *more: Any,
        epochs: int | None = None,
        batch_size: int | None = None,
        validation: Any = None,
        shuffle: bool = True,
        drop_last: bool = False,
        steps: int | None = None,
        unroll: int = 1,
        progress: bool | str = "auto",
    ) -> History:
        """Train more epochs, or so many steps, and return the history of all training so far.

        An epoch that was interrupted is finished first, counts as one, and is continued at the same
        batch if the data is the same. Iterables must then give the same batches again.

        Args:
            data: arrays of equal length by placeholder name (a scalar placeholder takes one value),
                an iterable of dicts, such as a torch DataLoader, or whatever else
                ``gw.data.dataset`` takes.
            *more: further arrays, where ``features`` and ``labels`` say what they are for.
            epochs: how many epochs; default 1, or as many as ``steps`` take; the sooner end counts.
            batch_size: examples per step, for arrays; default 32. The last batch may be short.
            validation: data to evaluate after each epoch, recorded as ``val_...``; or which part
                of the rows of ``data`` to hold out for it, such as 0.1.
            shuffle: whether arrays are shuffled, by a function of seed and epoch.
            drop_last: whether to leave out a short last batch.
            steps: how many steps, over several epochs where need be; with ``accumulation`` each is
                an update, and the batches that are left at the end of an epoch make one, too.
            unroll: how many steps run as one plan, in which less is done between them: worthwhile
                for small models. The numbers, the history and what callbacks see are those of
                single steps; pauses, stops and Ctrl-C wait for the end of a group. Batches that
                do not fill a group or are of another size are single steps, and so is every step
                while a callback watches changes.
            progress: whether to show a bar; ``"auto"`` does in notebooks and terminals.

        Raises FeedError or TrainingError for data that does not fit, and TrainingError at the first
        step whose loss or gradient is not finite, before it changes anything. After SIGTERM it ends
        with the step, and raises ``errors.Terminated``, an exit with status 143. Python
        hears signals in its main thread alone: a fit in another one ends with the process.
        """
        if more:
            if not self.config.columns:
                raise misplaced(self.graph, more)
            data = (data, *more)
        epochs = checked_length(epochs, steps, unroll)
        if progress not in (True, False, "auto"):
            raise TrainingError(f"progress={progress!r} is not known", need="True, False or 'auto'")
        parts = self.parts
        parts.weights.check()
        with parts.control:
            if isinstance(validation, float):
                names = placed(self.graph, self.config)
                data, validation = split(data, validation, seed=self.seed, names=names)
            parts.taker.current()  # that nothing can be trained is told before that data misfits
            made, cut = parts.objective.batches, {"shuffle": shuffle, "drop_last": drop_last}
            source = made(data, parts.position, batch_size=batch_size, **cut)
            held = None if validation is None else made(validation, None, batch_size=batch_size)
            is_shown = progress is True or (progress == "auto" and is_watched())
            parts.loop.run(
                source, epochs=epochs, steps=steps, unroll=unroll, held_out=held, is_shown=is_shown
            )
        return self.history

    def step(self, batch: Any) -> Record | None:
        """Take one step on a batch and return its record; belongs to no epoch of ``fit``.

        With accumulation it is None where the window waits for more batches. Raises as ``fit``
        does; then nothing has changed. Ctrl-C waits for its end; SIGTERM is left to your loop.
        """
        parts = self.parts
        parts.weights.check()
        control = parts.control
        control.begin()
        try:
            record = parts.loop.step(parts.objective.feeds(batch))
            if control.attention:
                parts.loop.attend()
            return record
        finally:
            control.end()

    def evaluate(
        self, data: Any, *, batch_size: int | None = None, weights: str | None = None
    ) -> dict[str, float]:
        """Return loss and metrics over data in eval mode; batches may be of any size.

        A batch weighs what the loss divides by in it: tokens of a mask, else examples. ``weights``
        are ``"trained"``, or an average: ``"ema"``, ``"swa"``, or ``"optimizer"``, schedule-free
        AdamW's own. By default ``fit`` decides: ``validate_with``, else the optimizer's if it has.
        """
        source = self.parts.objective.batches(data, None, batch_size=batch_size)
        return self.parts.validation.measured(source, weights)

    accuracy = accuracy

    def averaged(self, name: str = "ema") -> AbstractContextManager[None]:
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
        return self.parts.weights.averaged(name)

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
        return {n: self.parts.taker.keeper.counted(n) for n in self.config.averages}

    # -- what other threads and callbacks may ask ------------------------------------------------

    status: str = part("control.status", '``"idle"``, ``"running"`` or ``"paused"``.')
    is_torn: bool = part("control.is_torn", "Whether a second Ctrl-C has ended a step midway.")
    progress: FitProgress | None = part("loop.progress", "How far the present or last ``fit`` is.")
    callbacks: tuple[Callback, ...] = part("hooks.callbacks", "Those called between steps.")
    swapped: str = part("weights.swapped", "The average that stands in for the weights, if any.")

    def pause(self, wait: bool = False) -> None:
        """Ask a running ``fit`` to pause after the present step; with ``wait`` return when it has.

        Values may be read, set and frozen meanwhile, and the graph edited.
        """
        self.parts.control.pause(wait)

    def resume(self, steps: int | None = None, wait: bool = False) -> None:
        """Let a paused ``fit`` go on; with ``steps``, for so many, after which it pauses again.

        With ``wait`` return when it has paused again, or ended. Raises TrainingError inside a
        block of ``averaged``: training goes on from the weights themselves.
        """
        self.parts.weights.check()
        if steps is not None and steps < 1:
            raise TrainingError(f"cannot take steps={steps}", need="at least 1")
        self.parts.control.resume(math.inf if steps is None else self.steps_done + steps, wait)

    def stop(self) -> None:
        """Ask a running ``fit`` to return after the present step; calling it again continues."""
        self.parts.control.stop()

    def add_callback(self, callback: Callback) -> None:
        """Call the hooks of ``callback``, too; in a running ``fit`` from the next step on."""
        self.parts.hooks.add(callback)

    def remove_callback(self, callback: Callback) -> None:
        """Call the hooks of ``callback`` no more."""
        self.parts.hooks.remove(callback)

    # -- settings --------------------------------------------------------------------------------

    @property
    def config(self) -> TrainingConfig:
        """All settings; another one counts from the next step on.

        What a session is made with cannot change, nor can the losses, the metrics and the choice
        of parameters.
        """
        return self.parts.setup.config

    @config.setter
    def config(self, config: TrainingConfig) -> None:
        self.parts.configure(config)

    optimizer: Optimizer = setting(
        "optimizer", "How parameters move; its numbers may change between two steps."
    )
    clip_norm: float | None = setting(
        "clip_norm", "Upper bound of the norm of all gradients together."
    )
    nonfinite: str = setting("nonfinite", "What to do when loss or gradient is not finite.")
    seed: int = part("setup.config.seed", "What decides the order of the data.")

    # -- what is trained -------------------------------------------------------------------------

    session: Session = part("setup.session", "What runs the steps.", settable=True)
    values: Values = part(
        "setup.session.values",
        "The values that are trained: those of the session, usually the graph's.",
    )
    parameters: list[Tensor] = part("taker.keeper.parameters", "What the next step trains.")
    variables: list[Tensor] = part("taker.keeper.variables", "What it may train, frozen or not.")
    objective: Objective = part("objective", "What is trained on what.")
    losses: list[Tensor] = part("taker.keeper.losses", "The losses whose sum is trained.")

    @property
    def loss(self) -> Tensor:
        """Return the loss that is trained; of several, their sum."""
        losses = self.losses
        return losses[0] if len(losses) == 1 else self.parts.taker.current().loss

    @property
    def placeholders(self) -> list[Tensor]:
        """Return the placeholders that a batch feeds."""
        return self.parts.taker.current().needed

    def in_its_precision(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return what stands for tensors where the steps compute in fewer bits; else themselves."""
        return self.parts.taker.in_its_precision(tensors)

    def precision_table(self) -> Table:
        """Return which node of a step computes in which dtype, and why.

        Without ``precision`` and ``fp8`` it has no rows: each computes in its own dtype.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x, w = g.placeholder("x", (None, 2)), g.variable("w", (2, 1))
        >>> trainer = gw.Trainer(g, gw.mean(x @ w, name="loss"), precision="bfloat16")
        >>> [row[:3] for row in trainer.precision_table().rows]
        [['matmul', 'matmul', 'bfloat16'], ['loss', 'mean', 'float32']]
        """
        lowered = self.parts.taker.current().lowered
        return table([]) if lowered is None else lowered.table()

    # -- where it stands -------------------------------------------------------------------------

    steps_done: int = part(
        "position.steps",
        "Steps taken; the next one has this number in schedules and random keys.",
        settable=True,
    )
    epochs_done: int = part("position.epochs", "Epochs that are finished.", settable=True)
    batches_done: int = part("position.begun.batches", "Those of the present epoch.")
    batches_taken: int = part("position.taken", "Batches taken in all; random keys count them.")
    window: tuple[int, int] = part("taker.window", "Batches that wait, and how many an update has.")
    gradient_table: Table = part("taker.gradient_table", "What each gradient is, and why.")
    skipped: int = part(
        "position.skipped",
        "Updates that were not committed, since loss or gradient was not finite.",
        settable=True,
    )
    scaler: LossScaler | None = part(
        "taker.scaler", "The scale of the loss, where there is one.", settable=True
    )
    history: History = part("taker.history", "What has been measured.", settable=True)
    last_feeds: Feeds = part(
        "taker.last_feeds", "What the latest step was fed with, to replay one.", settable=True
    )

    # -- saving ----------------------------------------------------------------------------------

    def averaging(self) -> dict[str, Any]:
        """Return the state of the average that is evaluated; empty where there is none."""
        return self.parts.taker.keeper.averaging(self.config.evaluated)

    def restore_averaging(self, held: Mapping[str, Any]) -> None:
        """Go back to what ``averaging`` returned."""
        self.parts.taker.keeper.restore_averaging(held)

    def state_dict(self) -> dict[str, Any]:
        """Return all that a continuation needs beside the graph and its values, as named arrays.

        It fits ``gw.save(g, path, state={"trainer": trainer.state_dict()})``. Take it between
        steps: in a callback, or when paused or idle; a window that was begun is part of it.
        """
        return self.parts.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` returned, all or nothing.

        Raises TrainingError if it is of another optimizer, or of parameters this graph has not.
        """
        self.parts.load_state_dict(state)

    def __repr__(self) -> str:
        return (
            f"<Trainer of {self.losses[0].name!r} with {type(self.optimizer).__name__}: "
            f"{self.status}, {self.epochs_done} epochs, {self.steps_done} steps>"
        )
