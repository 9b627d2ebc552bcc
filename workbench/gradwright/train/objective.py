"""Objective: what a training makes small, and on what: losses, metrics, and what feeds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..data import Batches, batches
from ..data.batches import Feeds, named
from ..data.columns import Names, named_parts
from ..errors import TrainingError
from ..evaluation.metrics import Metric
from ..graph import Graph, Tensor, member
from ..graph.walk import placeholders
from ..spec import kind
from .config import Setup
from .placed import placed
from .position import Position
from .step.measure import Measures


@runtime_checkable
class Objective(Protocol):
    """What is trained, and how data becomes what a step is fed with.

    The supervised one feeds the data as it stands. Another may make the feeds of a batch by the
    model that it trains: prompts become sampled sequences and what they were worth. One that has
    ``state_dict`` and ``load_state_dict`` is saved with the training. One that runs the model
    itself, and has ``in_its_precision``, is told there what stands for tensors in a step. One that
    has ``stand_ins`` says there what a step computes in their place, by fewer operations.
    """

    @property
    def graph(self) -> Graph:
        """What is trained."""

    @property
    def losses(self) -> Mapping[str, Tensor]:
        """Floating scalars by the name they are recorded with; their sum is trained."""

    @property
    def metrics(self) -> Mapping[str, Tensor | Metric | str]:
        """What is measured beside them."""

    def batches(
        self,
        data: Any,
        at: Position | None,
        *,
        batch_size: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> Batches:
        """Return data as batches, to train on from ``at`` on, or where that is None to measure.

        ``at`` moves on with the training. Raises FeedError or TrainingError for what does not fit.
        """

    def feeds(self, batch: Any) -> Feeds:
        """Return what one batch feeds; raises FeedError where names are unknown or missing."""


class InterruptedBatchError(Exception):
    """A batch is not made now, since somebody waits for the loop; nothing has changed.

    The loop attends to it, and asks for the same batch again; of a validation, for all of them.
    """


@runtime_checkable
class Interruptible(Protocol):
    """An objective whose batches take long: it asks, and may raise ``InterruptedBatchError``."""

    is_wanted: Callable[[], bool]
    """Whether somebody waits for the training to pause or to stop; the trainer sets it."""


def own_objective(loss: Any) -> Objective | None:
    """Return what stands in the place of losses where it is an objective, not tensors or names."""
    if isinstance(loss, Tensor):  # asked for a name that it lacks, it would load all ops, in 250 ms
        return None
    return loss if isinstance(loss, Objective) else None


class Supervised:
    """The objective that a trainer makes of a graph, its losses and metrics: data is fed."""

    def __init__(
        self,
        graph: Graph,
        losses: Mapping[str, Tensor],
        metrics: Mapping[str, Tensor | Metric | str],
        setup: Setup,
    ) -> None:
        self.graph, self.losses, self.metrics = graph, losses, metrics
        self._setup, self._measures = setup, Measures(graph, losses, metrics)
        self._resolved: dict[tuple[Any, ...], dict[Any, Tensor]] = {}
        """The placeholders of batches with these keys, as long as nothing changes."""
        self._stamp: Any = None
        """What they depend on beside the keys."""
        self._names: tuple[Any, Names | None] = None, None
        """What the parts of tuples are for, and what that depends on."""

    def batches(
        self,
        data: Any,
        at: Position | None,
        *,
        batch_size: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> Batches:
        """Return data as batches; to measure, a batch may be larger than the data."""
        config, training = self._setup.config, at is not None
        return batches(
            self.graph,
            data,
            self._needed(training=training),
            batch_size,
            shuffle=shuffle,
            seed=config.seed,
            drop_last=drop_last,
            exact=training,
            names=self._placed(),
        )

    def feeds(self, batch: Any) -> Feeds:
        """Return a batch by placeholder; names are looked up once for each set of keys."""
        graph, config = self.graph, self._setup.config
        graph.settle()
        parts = batch if type(batch) is dict else named_parts(batch, self._placed())
        if self._stamp != (stamp := (graph.revision, config.accumulation)):
            self._resolved.clear()
            self._stamp = stamp
        keys = tuple(parts)
        known = self._resolved.get(keys)
        if known is None:
            known = self._resolved[keys] = named(graph, parts, self._needed(training=True))
        feeds = {}
        for key, t in known.items():
            value = parts[key]
            feeds[t] = value if type(value) is np.ndarray else np.asarray(value)
        return feeds

    def _placed(self) -> Names | None:
        """Return the names of the parts of tuples; patterns, 0.2 us a node, are looked up once."""
        stamp = self.graph.revision, self._setup.config
        if self._names[0] != stamp:
            self._names = stamp, placed(self.graph, self._setup.config)
        return self._names[1]

    def _needed(self, *, training: bool) -> list[Tensor]:
        """Return the placeholders that a batch must feed."""
        wanted, rule = self._measures.fetches(), self._setup.config.accumulation
        if training and rule is not None and rule.tokens is not None:
            wanted = [*wanted, self.graph[rule.tokens]]
        return placeholders(wanted)


def losses_of(graph: Graph, given: Any) -> dict[str, Tensor]:
    """Return losses by the name they are recorded with; raises TrainingError for what is none."""
    if isinstance(given, Tensor | str):
        given = [given]
    named = given.items() if isinstance(given, Mapping) else [("", t) for t in given]
    found: dict[str, Tensor] = {}
    for name, t in named:
        target = member(graph, t)
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
