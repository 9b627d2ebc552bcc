"""UnrolledTrainer: a trainer whose steps run several as one plan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import TrainingError
from ..graph import Graph, Values
from ..session.settings import is_count
from ..train.callbacks import Callback
from ..train.history import History, Record
from ..train.trainer import Trainer
from ..train.training import Training


class UnrolledTrainer(Trainer):
    """A ``Trainer`` that runs ``unroll`` steps as one plan, each with its update.

    The numbers are those of single steps, to the bit with ``deterministic=True``; less is done
    between them, which is worthwhile for small models. Steps that wait for how the one before ended
    go singly: with ``accumulation``, with a loss scale, and while a callback watches changes.

    Args:
        graph: the graph.
        loss: a floating scalar of it, or several.
        unroll: how many steps run together.
        resident: whether variables and state stay in their arrays from one run to the next, each
            written over in its place; otherwise a run is handed arrays and gives new ones, so that
            those that were there before it stay as they are. The numbers are the same.
        **settings: what else a ``Trainer`` takes.

    Raises TrainingError for an ``unroll`` that is no number of steps, and as ``Trainer`` does.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", (None,)), g.variable("w", (), init=4.0)
    >>> loss = gw.mean(x * w)
    >>> trainer = gw.UnrolledTrainer(g, loss, unroll=3, optimizer=gw.optim.SGD(0.5))
    >>> records = trainer.step([{"x": [1.0]}, {"x": [2.0]}, {"x": [3.0]}])
    >>> [record.metrics["loss"] for record in records], g.values["w"].item()
    ([4.0, 7.0, 7.5], 1.0)
    """

    def __init__(
        self,
        graph: Graph,
        loss: Any = None,
        *,
        unroll: int,
        resident: bool = True,
        **settings: Any,
    ) -> None:
        if not is_count(unroll, 1):
            raise TrainingError(f"unroll={unroll!r} is no number of steps", need="an int >= 1")
        super().__init__(graph, loss, **settings)
        self.unroll = unroll
        """How many steps run together."""
        self.resident = resident
        """Whether variables and state stay in their arrays."""
        if not resident:
            self.add_callback(_Held(self.values))

    def fit(self, data: Any, *more: Any, unroll: int | None = None, **options: Any) -> History:
        """Train as ``Trainer.fit`` does, by default ``self.unroll`` steps at a time."""
        together = self.unroll if unroll is None else unroll
        return super().fit(data, *more, unroll=together, **options)

    def step(self, batches: Iterable[Any]) -> list[Record]:  # type: ignore[override]
        """Take a step on each of several batches and return their records, in order.

        Every ``unroll`` batches of one size are one plan; those left over go singly. With
        accumulation there is a record for each window that is full. Raises as ``Trainer.step``
        does; the steps before the one at fault stay taken.
        """
        parts = self.parts
        parts.weights.check()
        fed, records = [(parts.objective.feeds(batch), 0) for batch in batches], list[Record]()
        with parts.control:
            for found in parts.loop.steps(iter(fed), self.unroll):
                records += found
                if parts.control.attention and parts.loop.attend():
                    break
        return records


class _Held(Callback):
    """Holds all arrays, so that the next commit puts new ones in their place."""

    def __init__(self, values: Values) -> None:
        self._held = values.snapshot()

    def on_step_end(self, trainer: Training, record: Record) -> None:
        """Hold what the step has made instead of what was there before it."""
        self._held = trainer.values.snapshot()
