"""Second order: a vjp's own derivative beside differences of what the vjp gives.

With a cotangent g, a weight h and a direction v, all random,

    ⟨∂⟨h, vjp(g, x)⟩/∂x, v⟩ = d/dt ⟨h, vjp(g, x + t·v)⟩ at t = 0.

A ``stop_gradient`` in a vjp leaves the first derivative as it is and takes terms from the second.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ...errors import GradientError
from ...gradient import gradients
from ...graph import Graph, Tensor, ancestors
from ...graph.expand import run_nodes, stand_in
from ...op import Op
from ...spec import is_floating
from ..float64 import known_specs
from .directions import draw_direction, inner, normal_like
from .judging import compare
from .local import InputCheck, label

Array = np.ndarray[Any, Any]


class SecondCheck:
    """The second derivatives of one op on arrays; ``active`` and ``reached`` as for LocalCheck.

    Raises GradientError where the vjp is made of what has no gradient.
    """

    def __init__(
        self,
        op: Op,
        xs: Sequence[Array | None],
        rng: np.random.Generator,
        *,
        active: Collection[int],
        reached: Collection[int],
        training: bool = False,
        rtol: float = 1e-5,
    ) -> None:
        self.op, self.training, self.rtol = op, training, rtol
        graph = Graph(op.name, scratch=True)
        specs = known_specs(op, xs)
        ins = [None if s is None else stand_in(graph, f"x{i}", s) for i, s in enumerate(specs)]
        with graph:
            graph.add(op, ins)
        node = graph.latest
        self.given: dict[Tensor, Array] = {
            t: x for t, x in zip(ins, xs, strict=True) if t is not None and x is not None
        }
        ys = [t for i, t in enumerate(node.public) if i in reached and is_floating(t.dtype)]
        order = ancestors(node.outputs, stop=set(self.given))
        arrays = run_nodes(order, self.given, node.outputs, training=training)
        sizes = dict(zip(node.outputs, arrays, strict=True))
        wrt = {
            i: t
            for i, t in enumerate(ins)
            if i in active and t is not None and is_floating(t.dtype) and self.given[t].size
        }
        seeds = [self._draw(graph, f"g{i}", sizes[y], rng) for i, y in enumerate(ys)]
        first = gradients(ys, list(wrt.values()), seeds, unreachable="zero") if wrt and ys else []
        weights = [
            self._draw(graph, f"h{i}", self.given[t], rng)
            for i, t in zip(range(len(first)), wrt.values(), strict=False)
        ]
        second = gradients(first, list(wrt.values()), weights, unreachable="zero") if first else []
        self.first = first
        self.weights = [self.given[h] for h in weights]
        self.wrt = dict(zip(wrt.items(), second, strict=bool(first)))
        self.rng = rng

    def _draw(self, graph: Graph, name: str, like: Array, rng: np.random.Generator) -> Tensor:
        array = np.where(np.isfinite(like), normal_like(like, rng), 0)
        t = graph.placeholder(name, array.shape, array.dtype)
        self.given[t] = array
        return t

    def run(self) -> list[InputCheck]:
        """Return one comparison per input."""
        if not self.wrt:
            return []
        targets = list(self.wrt.values())
        found = run_nodes(
            ancestors(targets, stop=set(self.given)), self.given, targets, training=self.training
        )
        order = ancestors(self.first, stop=set(self.given))
        checks = []
        for ((i, t), _), exact in zip(self.wrt.items(), found, strict=True):
            x, v = self.given[t], draw_direction(self.given[t], self.rng)

            def along(step: float, t: Tensor = t, x: Array = x, v: Array = v) -> float:
                moved = {**self.given, t: np.asarray(x + step * v)}
                made = run_nodes(order, moved, self.first, training=self.training)
                return sum(inner(h, a) for h, a in zip(self.weights, made, strict=True))

            size = sum(inner(np.abs(h), np.abs(h)) for h in self.weights)
            c = compare(along, inner(v, exact), magnitude=size, rtol=self.rtol)
            off = f"{c.analytic:.4g} instead of {c.numeric:.4g} along a random direction"
            cause = f"right, but not its derivative: {off}" if c.verdict == "fail" else ""
            checks.append(InputCheck(label(self.op, i), c, cause))
        return checks


def second_order(
    op: Op,
    xs: Sequence[Array | None],
    moved: Sequence[Array | None],
    rng: np.random.Generator,
    **options: Any,
) -> list[InputCheck]:
    """Return what is wrong with the second derivatives of an op, here and at ``moved`` inputs.

    At a kink of the vjp differences say nothing, so it has to be wrong beside it as well.
    """
    with np.errstate(all="ignore"):
        try:
            wrong = [c for c in SecondCheck(op, xs, rng, **options).run() if _fails(c)]
            if wrong:
                beside = SecondCheck(op, moved, rng, **options).run()
                names = {c.name for c in beside if _fails(c)}
                wrong = [c for c in wrong if c.name in names]
        except GradientError:
            return []
    return wrong


def _fails(check: InputCheck) -> bool:
    return check.comparison.verdict == "fail"
