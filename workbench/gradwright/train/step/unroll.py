"""Unrolled steps: several training steps as one graph, each reading what the one before wrote."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...data import Feeds
from ...graph import Graph, Placeholder, Rng, Source, Tensor, Variable, ancestors
from ...graph.edit import copied
from ...graph.expand import stand_in
from ...ops.core.choice import Where
from ...ops.core.comparison import LogicalAnd
from ...ops.updates.boundary import Boundary
from ...spec import TensorSpec
from .graph import StepGraph

KEY = TensorSpec((2,), "uint64")


class Unrolled:
    """``count`` steps after each other, as copies of one step's graph in the derived layer.

    Constants are shared. A copy reads its own batch, learning rate and random key, and of each
    variable what the step before made of it, all through boundaries: each step computes the bits
    of a single one. With ``select`` a step that is not finite hands on what it got; else ``finite``
    tells whether all are.
    """

    def __init__(self, step: StepGraph, count: int, *, select: bool) -> None:
        graph, scope = step.loss.graph, f"{step.scope}/unrolled/{count}{'_skip' * select}"
        wanted = [*step.fetches, *step.updates.values(), *step.needed, *step.numbers]
        made_in_turn = sorted(ancestors(wanted), key=lambda n: n.serial)  # as programs run
        nodes = ancestors([n.outputs[0] for n in made_in_turn])
        self._sources = [n for n in nodes if isinstance(n.op, Variable | Placeholder | Rng)]
        self._nodes = [n for n in nodes if not isinstance(n.op, Source)]
        self.feeds: list[Tensor] = [*step.needed, *step.numbers]
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
                    after = Boundary(number=2 * number + 1)
                    made = {
                        v: Where()(finite, after(t), mapping.get(v, v)) for v, t in made.items()
                    }
                held.update(made)
        self.updates = held
        self.finite: Tensor | None = None
        if not select:
            with graph.deriving(scope):
                after = Boundary(number=2 * count)
                each = [after(finite) for finite, *_ in self.fetches]
                self.finite = functools.reduce(LogicalAnd(), each)

    def _copy(
        self, graph: Graph, held: Mapping[Tensor, Tensor], number: int, step: StepGraph
    ) -> dict[Tensor, Tensor]:
        """Copy a step, to read ``held`` for variables; return what became of its tensors."""
        boundary = Boundary(number=2 * number)
        fed: dict[Tensor, Tensor] = {}
        mapping: dict[Tensor, Tensor] = {}
        for node in self._sources:
            t = node.outputs[0]
            if isinstance(node.op, Variable):
                mapping[t] = boundary(held.get(t, t), name=node.name)
            else:
                spec = KEY if isinstance(node.op, Rng) else t.spec
                fed[t] = stand_in(graph, f"fed/{node.name}", spec)
                mapping[t] = boundary(fed[t], name=node.name)
        for node in self._nodes:
            copy = copied(node, mapping)
            mapping.update(zip(node.outputs, copy.outputs, strict=True))
        self.feeds += [fed[t] for t in (*step.needed, *step.numbers)]
        keys = [fed[n.outputs[0]] for n in self._sources if isinstance(n.op, Rng)]
        self.feeds += keys
        self._keys = len(keys)
        return mapping

    def arrays(
        self, batches: Sequence[Feeds], numbers: Sequence[tuple[Any, ...]], seed: int, number: int
    ) -> list[Any]:
        """Return what ``feeds`` are fed with, step by step; the session feeds the first key."""
        found: list[Any] = []
        arrays = {n: np.array(n) for several in numbers for n in several}
        for at, (feeds, several) in enumerate(zip(batches, numbers, strict=True)):
            found += [feeds[t] for t in self._needed]
            found += [arrays[n] for n in several]
            if at and self._keys:
                found.append(np.array((seed, number + at), np.uint64))
        return found
