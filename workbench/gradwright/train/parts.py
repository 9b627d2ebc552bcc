"""Parts: a training put together of what each of them does, and their state as one."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from ..errors import TrainingError
from ..evaluation.metrics import Metric
from ..graph import Graph, Tensor
from ..session import Session
from .callbacks import Callback
from .config import OF_SESSION, Setup, TrainingConfig
from .control import Control, Hooks
from .history import History
from .loop import Loop
from .objective import Interruptible, Objective, Supervised, losses_of, own_objective
from .position import Position
from .stateful import Stateful, beneath, kinds, saved, seeds_of
from .step.taker import Taker
from .training import Training
from .validation import Validation, Weights


class Parts:
    """What a trainer holds; each part knows no more of the others than it is given.

    ``setup`` has session and settings, ``objective`` says what is trained on what, ``position``
    counts, ``taker`` takes steps, ``loop`` takes epochs of them, ``control`` and ``hooks`` act
    between, ``weights`` and ``validation`` measure.
    """

    def __init__(
        self,
        training: Training,
        graph: Graph,
        loss: Any,
        config: TrainingConfig,
        *,
        metrics: Mapping[str, Tensor | Metric | str] | None,
        parameters: Sequence[Tensor | str] | None,
        callbacks: Iterable[Callback],
        session: Session | None,
        device: str,
    ) -> None:
        self.control = control = Control()
        self.hooks = Hooks(training, callbacks, control)
        own = own_objective(loss)
        losses = losses_of(graph, loss if own is None else own.losses)
        metrics = _metrics(config.metrics if metrics is None else metrics, own)
        config = config.but(
            losses=[t.name for t in losses.values()],
            metrics={k: m for k, m in metrics.items() if isinstance(m, Tensor | str)},
            parameters=parameters,
        )
        if session is None:
            session = self._session(graph, device, config)
        if session.graph is not graph:
            raise TrainingError(f"the session runs another graph, {session.graph.name!r}")
        self.setup = setup = Setup(session, config)
        self.objective: Objective = (
            Supervised(graph, losses, metrics, setup) if own is None else own
        )
        if isinstance(self.objective, Interruptible):
            self.objective.is_wanted = control.is_wanted
        self.position = position = Position()
        self.taker = taker = Taker(setup, self.objective, position, control, parameters)
        if hasattr(self.objective, "in_its_precision"):
            self.objective.in_its_precision = taker.in_its_precision
        self.weights = Weights(setup, taker, control)
        self.validation = Validation(setup, taker, position, self.weights)
        self.loop = Loop(taker, control, position, self.hooks, self.validation)

    def _session(self, graph: Graph, device: str, config: TrainingConfig) -> Session:
        """Return the session of a trainer that is given none."""
        asked = any(c.needs_deterministic for c in self.hooks.callbacks)
        return Session(
            graph,
            device,
            seed=config.seed,
            deterministic=asked if config.deterministic is None else config.deterministic,
            kernels=config.kernels,
            threads=config.threads,
            checkpoint=config.checkpoint,
        )

    def configure(self, config: TrainingConfig) -> None:
        """Take other settings, from the next step on; raises TrainingError for what must stay."""
        before = self.setup.config
        for name in (*OF_SESSION, "losses", "metrics", "parameters"):
            if getattr(config, name) != getattr(before, name):
                hint = "g.freeze(...), or another Trainer" if name == "parameters" else ""
                raise TrainingError(f"{name} cannot change", hint=hint or "another Trainer")
        window, scale = config.accumulation != before.accumulation, config.scaler != before.scaler
        if (window or scale) and self.control.is_elsewhere:
            raise TrainingError("the trainer is running", hint="trainer.pause(wait=True)")
        if window:
            self.taker.forget_window()
        self.setup.config = config
        if scale:
            self.taker.rescale()

    # -- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return what a continuation needs beside the graph and its values."""
        config, session = self.setup.config, self.setup.session
        return {
            "optimizer": np.frombuffer(kinds(config).encode(), np.uint8),
            "seeds": np.array((config.seed, session.seed)),
            **saved(self._stateful(self.taker.history)),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` returned, all or nothing."""
        self.weights.check()
        if self.control.status == "running":
            raise TrainingError("the trainer is running", hint="trainer.pause(wait=True)")
        seed, of_session = seeds_of(state, self.setup.config)
        config = self.setup.config.but(seed=seed)
        history = History()  # the one that there is may be in the user's hands
        with self.all_or_nothing():
            for prefix, part in self._stateful(history).items():
                part.load_state_dict(beneath(prefix, state))
            self.setup.config = config
            self.setup.session.seed = of_session
            self.taker.history = history
            self.loop.forget()
            self.control.seconds = history.seconds

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Have a block change values, settings and state; where it fails, all is as it was before.

        Parts go back to the very objects they held, since a history, a scale or what a callback
        keeps may be in the user's hands.
        """
        session, keeper, control = self.setup.session, self.taker.keeper, self.control
        values, seed, seconds = session.values, session.seed, control.seconds
        arrays, slots, begun = values.snapshot(), keeper.held(), copy.copy(self.position.begun)
        marks = {t.node: (t.trainable, t.node.frozen) for t in self.objective.graph.variables}
        told = [h for h in (self.objective, *self.hooks.callbacks) if isinstance(h, Stateful)]
        states = [dict(h.state_dict()) for h in told]
        holders = [self.setup, self.position, self.taker, self.loop, *told]
        held = [(vars(h), dict(vars(h))) for h in holders if hasattr(h, "__dict__")]
        try:
            yield
        except BaseException:
            for holder, state in zip(told, states, strict=True):
                with contextlib.suppress(Exception):  # a state that is empty may be none to load
                    holder.load_state_dict(state)
            for attributes, before in held:
                attributes.clear()
                attributes.update(before)
            self.position.begun, session.seed, control.seconds = begun, seed, seconds
            keeper.put_back(slots, arrays)
            for node, was in marks.items():
                node.trainable, node.frozen = was
                if values.version(node.name) != arrays.version(node.name):
                    values.restore({node.name: arrays[node.name]})
            raise

    def _stateful(self, history: History) -> dict[str, Stateful]:
        """Return what has state, by the prefix of its names; that of optimizers is loaded last."""
        objective = self.objective
        return {
            "": self.taker,
            "history/": history,
            **({"objective/": objective} if isinstance(objective, Stateful) else {}),
            "callbacks/": self.hooks,
            "state/": self.taker.keeper,
        }


def _metrics(given: Any, objective: Objective | None) -> dict[str, Tensor | Metric | str]:
    """Return what is measured: those of an objective are its own."""
    if not isinstance(given, Mapping):
        raise TrainingError(
            f"the metrics are a {type(given).__name__}",
            need="scalar tensors or metrics by name",
            hint='metrics={"accuracy": accuracy}',
        )
    if given and objective is not None:
        raise TrainingError("metrics= is for losses; an objective has metrics of its own")
    return dict(given if objective is None else objective.metrics)


def part(path: str, doc: str, *, settable: bool = False) -> Any:
    """Return a property that is an attribute of a part: ``part("position.steps", "...")``."""
    owner, _, name = path.rpartition(".")
    holder = attrgetter(f"parts.{owner}" if owner else "parts")

    def put(trainer: Any, value: Any) -> None:
        setattr(holder(trainer), name, value)

    return property(attrgetter(f"parts.{path}"), put if settable else None, doc=doc)


def setting(name: str, doc: str) -> Any:
    """Return a property that is a field of the settings, and sets it from the next step on."""

    def put(trainer: Any, value: Any) -> None:
        parts: Parts = trainer.parts
        parts.configure(parts.setup.config.but(**{name: value}))

    return property(attrgetter(f"parts.setup.config.{name}"), put, doc=doc)
