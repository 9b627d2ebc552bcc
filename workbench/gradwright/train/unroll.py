"""Unrolled steps: several training steps as one graph, each reading what the one before wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Constant, Graph, Placeholder, Rng, Tensor, Variable, ancestors
from ..graph.edit import copied
from ..graph.expand import stand_in
from ..op import Op, attr
from ..ops.choice import Where
from ..ops.comparison import LogicalAnd
from ..spec import TensorSpec
from .data import Feeds
from .step import StepGraph

KEY = TensorSpec((2,), "uint64")


class _Boundary(Op):
    """The tensor itself, at the start of a step: nothing is computed across it.

    Rewrites and fusion see each step as they see a single one, so it computes the same bits. The
    number keeps what is equal in two steps, such as a function of a frozen variable, apart.
    """

    views = True
    number: int = attr(doc="Number of the step.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        return x

    def forward(self, x: Any) -> Any:
        return x


class Unrolled:
    """``count`` steps after each other, as copies of one step's graph in the derived layer.

    Constants are shared. A copy reads its own batch, learning rate and random key, and of each
    variable what the step before made of it. With ``select`` a step that is not finite hands on
    what it got; else ``finite`` tells whether all are.
    """

    def __init__(self, step: StepGraph, count: int, *, select: bool) -> None:
        graph, scope = step.loss.graph, f"{step.scope}/unrolled/{count}{'_skip' * select}"
        wanted = [*step.fetches, *step.updates.values()]
        self._order = [n for n in ancestors(wanted) if not isinstance(n.op, Constant)]
        self.feeds: list[Tensor] = [*step.needed, step.rate]
        self.fetches: list[list[Tensor]] = []
        self._keys = 0
        """How many random keys each copy is fed with: one, or none."""
        self._needed = step.needed
        held: dict[Tensor, Tensor] = {}
        mapping: Mapping[Tensor, Tensor] = {}
        for number in range(count):
            with graph.deriving(f"{scope}/{number}"):
                if number:
                    mapping = self._copy(graph, held, number, step)
                self.fetches.append([mapping.get(t, t) for t in step.fetches])
                made = {v: mapping.get(t, t) for v, t in step.updates.items()}
                if select:
                    finite = mapping.get(step.finite, step.finite)
                    made = {v: Where()(finite, t, mapping.get(v, v)) for v, t in made.items()}
                held.update(made)
        self.updates = held
        self.finite: Tensor | None = None
        if not select:
            with graph.deriving(scope):
                self.finite = self.fetches[0][0]
                for finite, *_ in self.fetches[1:]:
                    self.finite = LogicalAnd()(self.finite, finite)

    def _copy(
        self, graph: Graph, held: Mapping[Tensor, Tensor], number: int, step: StepGraph
    ) -> dict[Tensor, Tensor]:
        """Copy a step, to read ``held`` for variables; return what became of its tensors."""
        mapping: dict[Tensor, Tensor] = {}
        for node in self._order:
            t = node.outputs[0]
            if isinstance(node.op, Variable):
                boundary = _Boundary(number=number)
                mapping[t] = boundary(held.get(t, t), name=node.name)
            elif isinstance(node.op, Placeholder | Rng):
                spec = KEY if isinstance(node.op, Rng) else t.spec
                mapping[t] = stand_in(graph, node.name, spec)
            else:
                copy = copied(node, mapping)
                mapping.update(zip(node.outputs, copy.outputs, strict=True))
        self.feeds += [mapping[t] for t in (*step.needed, step.rate)]
        keys = [mapping[n.outputs[0]] for n in self._order if isinstance(n.op, Rng)]
        self.feeds += keys
        self._keys = len(keys)
        return mapping

    def arrays(
        self, batches: Sequence[Feeds], rates: Sequence[float], seed: int, number: int
    ) -> list[Any]:
        """Return what ``feeds`` are fed with, step by step; the session feeds the first key."""
        found: list[Any] = []
        fed = {rate: np.array(rate) for rate in rates}
        for at, (feeds, rate) in enumerate(zip(batches, rates, strict=True)):
            found += [feeds[t] for t in self._needed]
            found.append(fed[rate])
            if at and self._keys:
                found.append(np.array((seed, number + at), np.uint64))
        return found
