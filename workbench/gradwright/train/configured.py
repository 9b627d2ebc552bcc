"""Configured: a training with its settings, its session, and where it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..data.batches import Feeds
from ..errors import TrainingError
from ..evaluation.metrics import Metric
from ..graph import Graph, Tensor, Values
from ..session import Session
from ..spec import kind
from ..words.tables import Table
from .begun import Begun
from .callbacks import Callback
from .config import OF_SESSION, TrainingConfig
from .controlled import Controlled
from .history import History
from .optim import Optimizer
from .precision.forward import table
from .precision.scaler import LossScaler
from .step.graph import StepGraph
from .step.keeper import Steps
from .step.measure import Measures, now

if TYPE_CHECKING:
    from .trainer import Trainer


class Configured(Controlled):
    """A training with all settings in one ``config``, and what it has counted and measured."""

    def __init__(
        self,
        graph: Graph,
        loss: Any,
        config: TrainingConfig,
        *,
        metrics: Mapping[str, Tensor | Metric | str],
        parameters: Sequence[Tensor | str] | None,
        callbacks: Iterable[Callback],
        session: Session | None,
        device: str,
    ) -> None:
        super().__init__(callbacks)
        losses = losses_of(graph, loss)
        if not isinstance(metrics, Mapping):
            raise TrainingError(
                f"the metrics are a {type(metrics).__name__}",
                need="scalar tensors or metrics by name",
                hint='metrics={"accuracy": accuracy}',
            )
        named = {k: m for k, m in metrics.items() if isinstance(m, Tensor | str)}
        self.graph = graph
        self._config = config.but(
            losses=[t.name for t in losses.values()], metrics=named, parameters=parameters
        )
        self.session = self._own_session(device) if session is None else session
        if self.session.graph is not graph:
            raise TrainingError(f"the session runs another graph, {self.session.graph.name!r}")
        self.history = History()
        self.skipped = 0
        """Updates that were not committed, since loss or gradient was not finite."""
        self.scaler = None if config.scaler is None else LossScaler(config.scaler)
        """The scale of the loss, where there is one."""
        self.last_feeds: Feeds = {}
        """What the latest step was fed with; a failing step can be replayed from it."""
        self._measures = Measures(graph, losses, metrics)
        self._begun = Begun()
        self._batches = 0
        """Batches taken in all; the next one has this number in random keys."""
        self._steps = Steps(list(losses.values()), self._measures, parameters)

    @property
    def _told(self) -> Trainer:
        """This training, as callbacks know it."""
        return cast("Trainer", self)

    def _own_session(self, device: str) -> Session:
        config = self._config
        asked = any(c.needs_deterministic for c in self._callbacks)
        return Session(
            self.graph,
            device,
            seed=config.seed,
            deterministic=asked if config.deterministic is None else config.deterministic,
            kernels=config.kernels,
            threads=config.threads,
            checkpoint=config.checkpoint,
        )

    # -- settings --------------------------------------------------------------------------------

    @property
    def config(self) -> TrainingConfig:
        """All settings; another one counts from the next step on.

        What a session is made with cannot change, nor can the losses, the metrics and the choice
        of parameters.
        """
        return self._config

    @config.setter
    def config(self, config: TrainingConfig) -> None:
        for name in (*OF_SESSION, "losses", "metrics", "parameters"):
            if getattr(config, name) != getattr(self._config, name):
                hint = "g.freeze(...), or another Trainer" if name == "parameters" else ""
                raise TrainingError(f"{name} cannot change", hint=hint or "another Trainer")
        before = self._config
        window, scale = (
            config.accumulation != before.accumulation,
            config.scaler != before.scaler,
        )
        if (window or scale) and self.status == "running" and not self._control.is_here:
            raise TrainingError("the trainer is running", hint="trainer.pause(wait=True)")
        if window:
            self._forget_window()
        if scale:
            self.scaler = None if config.scaler is None else LossScaler(config.scaler)
        self._config = config

    @property
    def optimizer(self) -> Optimizer:
        """How parameters move; its numbers may change between two steps."""
        return self._config.optimizer

    @optimizer.setter
    def optimizer(self, optimizer: Optimizer) -> None:
        self.config = self._config.but(optimizer=optimizer)

    @property
    def clip_norm(self) -> float | None:
        """Upper bound of the norm of all gradients together."""
        return self._config.clip_norm

    @clip_norm.setter
    def clip_norm(self, limit: float | None) -> None:
        self.config = self._config.but(clip_norm=limit)

    @property
    def nonfinite(self) -> str:
        """What to do when loss or gradient is not finite."""
        return self._config.nonfinite

    @nonfinite.setter
    def nonfinite(self, what: str) -> None:
        self.config = self._config.but(nonfinite=what)

    @property
    def seed(self) -> int:
        """What decides the order of the data."""
        return self._config.seed

    @property
    def parameters(self) -> list[Tensor]:
        """Return the variables that the next step trains."""
        return self._steps.parameters

    @property
    def losses(self) -> list[Tensor]:
        """Return the losses whose sum is trained."""
        return [now(self.graph, t) for t in self._steps.losses]

    @property
    def loss(self) -> Tensor:
        """Return the loss that is trained; of several, their sum."""
        losses = self.losses
        return losses[0] if len(losses) == 1 else self._current().loss

    @property
    def values(self) -> Values:
        """The values that are trained: those of the session, usually the graph's."""
        return self.session.values

    @property
    def placeholders(self) -> list[Tensor]:
        """Return the placeholders that a batch feeds."""
        return self._current().needed

    @property
    def batches_done(self) -> int:
        """How many batches of the present epoch are done."""
        return self._begun.batches

    @property
    def batches_taken(self) -> int:
        """How many batches were taken in all; the next one has this number in random keys."""
        return self._batches

    @property
    def window(self) -> tuple[int, int]:
        """How many batches wait for their update, and how many an update takes."""
        rule = self._config.accumulation
        return self._begun.gathered, 1 if rule is None else rule.steps

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
        lowered = self._current().lowered
        return table([]) if lowered is None else lowered.table()

    def _where(self) -> tuple[int, int, int, float]:
        """Return steps, epochs and steps of the epoch that are done, and the time spent."""
        steps = self.batches_done // self.window[1]
        return self.steps_done, self.epochs_done, steps, self._control.seconds

    def _current(self) -> StepGraph:
        """Return the graph of the next step; to others than the thread that trains, the latest.

        So nobody who looks clears a graph that is about to be run.
        """
        ready = self._steps.ready(self.session, self._config)
        if ready is not None:
            return ready
        elsewhere = self.status == "running" and not self._control.is_here
        return self._steps.current(self.session, self._config, as_it_is=elsewhere)

    def in_its_precision(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return what stands for tensors where the steps compute in fewer bits; else themselves."""
        if self._config.precision is None and self._config.fp8 is None:
            return list(tensors)
        copy = self._current().lowered
        return list(tensors) if copy is None else [copy.of(t) for t in tensors]

    def _forget_window(self) -> None:
        """Drop what waits for an update."""
        if self._begun.gathered:
            self._steps.empty()
            self._begun.gathered, self._begun.window = 0, {}


def losses_of(graph: Graph, given: Any) -> dict[str, Tensor]:
    """Return losses by the name they are recorded with; raises TrainingError for what is none."""
    if isinstance(given, Tensor | str):
        given = [given]
    named = given.items() if isinstance(given, Mapping) else [("", t) for t in given]
    found: dict[str, Tensor] = {}
    for name, t in named:
        target = graph[t] if isinstance(t, str) else graph.check_member(t)
        if target.rank or kind(target.dtype) != "f":
            raise TrainingError(
                f"the loss {target.name!r} is {target.spec}",
                facts=[f"made at {target.node.where or 'no line'}"],
                need="a floating scalar, f32[]",
                hint="gw.mean(loss)" if target.rank else "gw.cast(loss, 'float32')",
            )
        found[name or target.name] = target
    if not found:
        raise TrainingError("there is no loss to train", hint="gw.Trainer(g, loss)")
    return found
