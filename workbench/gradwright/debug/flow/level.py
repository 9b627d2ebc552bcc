"""A level: nodes with the values of one run, and the cotangents that flow back through them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...gradient import STAND_INS
from ...graph import Constant, Node, Source, SubGraph, Tensor, ancestors
from ...graph.expand import bind_dims, run_nodes
from ...op import Op, run_forward
from ...ops.core.identity import StopGradient
from ...spec import is_floating
from ..check.vjp import Vjp, vjp_of
from ..float64 import Float64Run

Array = np.ndarray[Any, Any]


def norm(a: Array) -> float:
    """Return √Σ|a|², which neither overflows nor underflows."""
    size = np.abs(np.asarray(a, np.complex128 if np.iscomplexobj(a) else np.float64))
    most = float(size.max(initial=0.0))
    if not np.isfinite(most) or most == 0:
        return most
    return most * float(np.linalg.norm((size / most).ravel()))


class Edge:
    """One input of one node: the cotangents that arrive at the node, and what goes on from it."""

    def __init__(
        self,
        node: Node,
        op: Op,
        i: int,
        xs: Sequence[Array | None],
        ys: Sequence[Array],
        gs: Sequence[Array | None],
        training: bool,
    ) -> None:
        self.node, self.op, self.i, self.training = node, op, i, training
        self.xs, self.ys, self.given = list(xs), list(ys), list(gs)
        self.vjp = vjp_of(op, xs, ys)
        self.norm_in = norm_of(g for g in gs if g is not None)
        found = self.pull(gs)
        self.part = np.zeros_like(self.x) if found is None else found
        self.norm_out = norm(self.part)

    @property
    def x(self) -> Array:
        """The value of the input."""
        x = self.xs[self.i]
        assert x is not None  # or nothing would flow there
        return x

    @property
    def gain(self) -> float:
        """How many times as long as what arrives is what goes on."""
        return self.norm_out / self.norm_in if self.norm_in else 0.0

    def pull(self, gs: Sequence[Array | None]) -> Array | None:
        """Return the input's cotangent for other cotangents of the outputs."""
        if self.i not in self.vjp.cotangents:
            return None
        return pulled(self.vjp, self.xs, self.ys, gs, self.training)[self.i]

    def at(self, x: Array) -> Edge:
        """Return the edge where the input has another value.

        Raises ValueError where outputs have other shapes then.
        """
        xs = [x if i == self.i else a for i, a in enumerate(self.xs)]
        with np.errstate(all="ignore"):
            ys = run_forward(self.op, xs, training=self.training)
        if [y.shape for y in ys] != [y.shape for y in self.ys]:
            raise ValueError(f"{self.op.name} has outputs of other shapes")
        return Edge(self.node, self.op, self.i, xs, ys, self.given, self.training)


def pulled(
    vjp: Vjp,
    xs: Sequence[Array | None],
    ys: Sequence[Array],
    gs: Sequence[Array | None],
    training: bool,
) -> dict[int, Array]:
    """Return the cotangents of all inputs; outputs without one have zeros."""
    public = zip(vjp.gs, ys, gs, strict=False)
    with np.errstate(all="ignore"):
        return vjp(xs, ys, [np.zeros_like(y) if g is None else g for _, y, g in public], training)


def norm_of(arrays: Iterable[Array]) -> float:
    """Return the norm of several arrays as one."""
    return norm(np.array([norm(a) for a in arrays]))


class Level:
    """Nodes between some tensors, ``starts``, and others that cotangents come from.

    ``total`` holds the cotangent of each tensor and ``parts`` the norm of what each use adds to it,
    once ``pull`` has run.
    """

    def __init__(
        self,
        nodes: Sequence[tuple[Node, Op]],
        env: Mapping[Tensor, Array],
        starts: Iterable[Tensor],
        training: bool,
    ) -> None:
        self.env, self.training = env, training
        self.active = set(starts)
        self.nodes: list[tuple[Node, Op]] = []
        self.flows: set[tuple[Node, int]] = set()
        """Uses that a gradient flows back through."""
        self.cuts: list[tuple[Node, Op, int]] = []
        """Uses that no gradient flows back through, though their input is active."""
        for node, op in nodes:
            used = [i for i, t in enumerate(node.inputs) if t in self.active]
            flows = [i for i in used if i not in op.shape_only or self._is_told(node, op, i)]
            outs = [t for t in node.outputs if is_floating(env[t].dtype)]
            if isinstance(op, StopGradient) or not outs:
                self.cuts += [(node, op, i) for i in flows]
            elif flows:
                self.nodes.append((node, op))
                self.flows.update((node, i) for i in flows)
                self.active.update(outs)
        self.total: dict[Tensor, Array] = {}
        self.parts: dict[tuple[Node, int], float] = {}
        self.ops = dict(self.nodes)

    def _is_told(self, node: Node, op: Op, i: int) -> bool:
        """Tell whether an input of which only the shape is read has a cotangent all the same."""
        xs = [None if t is None else self.env[t] for t in node.inputs]
        return vjp_of(op, xs, [self.env[t] for t in node.outputs]).cotangents.get(i) is not None

    def pull(self, seeds: Mapping[Tensor, Array]) -> None:
        """Let cotangents flow back from ``seeds``."""
        self.total = dict(seeds)
        for node, op in reversed(self.nodes):
            if all(t not in self.total for t in node.outputs):
                continue
            xs, ys, gs = self.around(node)
            vjp = vjp_of(op, xs, ys)
            found = pulled(vjp, xs, ys, gs, self.training)
            for i, t in enumerate(node.inputs):
                if t is None or (node, i) not in self.flows:
                    continue
                part = found[i] if i in found else np.zeros_like(self.env[t])
                self.parts[node, i] = norm(part)
                self.total[t] = self.total[t] + part if t in self.total else part

    def around(self, node: Node) -> tuple[list[Array | None], list[Array], list[Array | None]]:
        """Return a node's inputs, outputs, and the cotangents of its outputs."""
        xs = [None if t is None else self.env[t] for t in node.inputs]
        return xs, [self.env[t] for t in node.outputs], [self.total.get(t) for t in node.outputs]

    def edge(self, node: Node, i: int) -> Edge:
        """Return one input of a node, ready to be looked at."""
        op = self.ops[node]
        return Edge(node, op, i, *self.around(node), self.training)

    def uses(self, t: Tensor) -> list[tuple[Node, int]]:
        """Return the uses of a tensor that add to its cotangent."""
        return [
            (node, i)
            for node in dict.fromkeys(t.uses)
            for i, x in enumerate(node.inputs)
            if x is t and (node, i) in self.parts
        ]


def run_level(
    sub: SubGraph, given: Sequence[Array], starts: Iterable[Tensor], training: bool
) -> Level:
    """Run a sub-graph node by node and return it as a level."""
    env: dict[Tensor, Array] = dict(zip(sub.inputs, given, strict=True))
    sizes = {**sub.sizes, **bind_dims({t: a.shape for t, a in env.items()})}
    nodes = []
    for node in sub.nodes:
        if isinstance(node.op, Constant):
            env[node.outputs[0]] = node.graph.values.array(node.name)
        elif not isinstance(node.op, Source):
            op = node.op.for_mode(training).bind(sizes)
            xs = [None if t is None else env[t] for t in node.inputs]
            with np.errstate(all="ignore"):
                ys = run_forward(op, xs, training=training)
            for t, y in zip(node.outputs, ys, strict=True):
                env.setdefault(t, y)
            nodes.append((node, op))
    return Level(nodes, env, starts, training)


def level_of(run: Float64Run, start: Tensor, end: Tensor) -> Level:
    """Return the level of a run between a parameter and the loss."""
    nodes = [n for n in ancestors([end]) if not isinstance(n.op, Source)]
    return Level([(node, node.op) for node in nodes], run.env, [start], run.training)


def stabilised(run: Float64Run, start: Tensor, end: Tensor) -> Tensor:
    """Let a run read what gradients differentiate in place of its nodes; returns the loss.

    The gradient of sqrt(Σ x²) is that of a length, whose slope at 0 is no 1/0. Nodes that are made
    for it have the node they stand for as their origin.
    """
    order = [n for n in ancestors([end]) if not isinstance(n.op, Source)]
    made: dict[Tensor, Tensor] = {}
    for find in STAND_INS:
        for y, build in find(order, {start, end}).items():
            with run.graph.deriving("stable") as at:
                at(f"stable/{y.node.name}", y.node)
                made[y] = build()
    for y, other in made.items():
        new = ancestors([other], stop=set(run.env))
        values = run_nodes(new, run.env, [t for n in new for t in n.outputs])
        run.env.update(zip([t for n in new for t in n.outputs], values, strict=True))
        for user in dict.fromkeys(y.uses):
            if user not in new:
                user.inputs = tuple(other if t is y else t for t in user.inputs)
                other.uses.append(user)
        y.uses = [user for user in y.uses if user in new]
    return made.get(end, end)
