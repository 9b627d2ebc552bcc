"""Planting: a network is built again with one of its ops exchanged for a faulty copy.

Which one is a number: ops are counted as the graph grows, bodies of loops included. So a mutant is
known by network, seed, number and fault, and can be made again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradwright.debug.address import Address
from gradwright.debug.check.probe import analytic_gradients
from gradwright.debug.float64 import Float64Run
from gradwright.debug.inside import Met, opened
from gradwright.graph import Graph, Node, Source, SubGraph
from gradwright.op import Op
from gradwright.ops.control.branch import Cond
from gradwright.ops.control.call import Call
from gradwright.ops.control.loop_op import LoopOp
from gradwright.ops.core.identity import StopGradient
from tests.mutants.faults import Fault, above, half_more, planted, sign
from tests.mutants.straight import Network

Make = Callable[[Network], Network]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Mutant:
    """Where a fault is planted, and which."""

    make: Make
    seed: int
    number: int
    fault: Fault
    slot: int
    opaque: bool = False
    turn: Address | None = None
    """Where in a loop it is wrong, if it is so in one turn only."""

    def __str__(self) -> str:
        fault = self.fault.__name__
        kind = " opaque" if self.opaque else ""
        return f"{self.make.__name__} seed {self.seed}, op {self.number}{kind}, {fault} {self.slot}"


def can_be_wrong(op: Op, inputs: Any) -> bool:
    """Tell whether an op passes gradients by a rule of its own."""
    if isinstance(op, (Source, StopGradient)):
        return False
    return any(getattr(x, "dtype", np.dtype("i8")).kind == "f" for x in inputs)


@contextlib.contextmanager
def exchanging(swap: Callable[[int, Op], Op]) -> Iterator[list[Op]]:
    """Give each op that can be wrong, by its number, for another; returns them as they come."""
    seen: list[Op] = []
    add = Graph.add

    def counted(self: Graph, op: Op, inputs: Any, name: str | None = None) -> Any:
        if can_be_wrong(op, inputs):
            seen.append(op)
            op = swap(len(seen) - 1, op)
        return add(self, op, inputs, name)

    Graph.add = counted  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        Graph.add = add  # type: ignore[method-assign]


def healthy(make: Make, seed: int) -> tuple[Network, list[Op]]:
    """Return a network as it should be, and its ops that can be wrong."""
    with exchanging(lambda number, op: op) as seen:
        return make(Network(seed)), seen


def grown(mutant: Mutant) -> Network:
    """Return a network with a fault in it."""

    def swap(number: int, op: Op) -> Op:
        if number != mutant.number:
            return op
        return planted(type(op), mutant.fault, mutant.slot, mutant.opaque)(**op.attributes())

    with exchanging(swap):
        return mutant.make(Network(mutant.seed))


def places(graph: Graph) -> Iterator[tuple[Address, Node]]:
    """Yield all nodes of a graph, and what is inside of loops, branches and functions."""
    waiting: list[tuple[Node, Address]] = [(n, Address(n.name)) for n in graph.all_nodes]
    while waiting:
        node, at = waiting.pop()
        yield at, node
        op: Any = node.op
        inside: dict[Any, SubGraph] = {}
        if isinstance(op, Cond):
            inside = {"then": op.then_branch, "else": op.else_branch}
        elif isinstance(op, (LoopOp, Call)):
            inside = {None: op.body}
        for part, sub in inside.items():
            waiting += [(n, at.into(n.name, part)) for n in sub.nodes]


def where_is(graph: Graph) -> list[Address]:
    """Return where the faulty op is: at one place, or not in what was kept of the graph."""
    return [at for at, node in places(graph) if type(node.op).__name__.startswith("Wrong")]


def gradients_of(net: Network) -> list[Array]:
    """Return the gradient of each parameter, in float64."""
    g, parameters = net.graph, net.graph.trainable
    run = Float64Run([net.loss, *parameters], net.feeds, values=g.values, training=net.training)
    return analytic_gradients(run, run.copies[net.loss], [run.copies[p] for p in parameters])


def shows(wrong: list[Array], right: list[Array]) -> bool:
    """Tell whether a fault is seen in a gradient: by more than 1e-4 of some element."""
    top = max(float(np.abs(a).max(initial=0.0)) for a in right)
    return any(
        bool((np.abs(a - b) > 1e-4 * np.maximum(np.abs(b), 1e-3 * top)).any())
        for a, b in zip(wrong, right, strict=True)
    )


def draw(
    makes: Sequence[Make],
    faults: Sequence[Fault],
    rng: np.random.Generator,
    *,
    inside: bool = False,
) -> Mutant:
    """Draw a mutant whose fault is at one place, ``inside`` of another node or not, and shows."""
    while True:
        make = makes[rng.integers(len(makes))]
        seed = int(rng.integers(1000))
        net, ops = healthy(make, seed)
        right = gradients_of(net)
        number, slot, opaque = (int(rng.integers(n)) for n in (len(ops), 4, 3))
        mutant = Mutant(make, seed, number, sign, slot, opaque == 0)
        for n in rng.permutation(len(faults))[:6]:
            mutant = replace(mutant, fault=faults[n])
            if _counts(mutant, right, inside):
                return mutant


def draw_turn(makes: Sequence[Make], rng: np.random.Generator) -> Mutant:
    """Draw a mutant that is wrong in one turn of a loop: where its input has the largest mean."""
    while True:
        mutant = draw(makes, [half_more], rng, inside=True)
        net = grown(mutant)
        (place,) = where_is(net.graph)
        means = {
            m.address: float(np.mean(m.inputs[0])) for m in met(net) if place.covers(m.address)
        }
        low, high = (sorted(means.values()) or [0.0])[-2:][0], max(means.values(), default=0.0)
        if high - low < 1e-3 * abs(high) or len(means) < 2:
            continue
        at = max(means, key=lambda a: means[a])
        mutant = replace(mutant, fault=above((low + high) / 2), turn=at)
        if _counts(mutant, gradients_of(healthy(mutant.make, mutant.seed)[0]), True):
            return mutant


def _counts(mutant: Mutant, right: list[Array], inside: bool) -> bool:
    """Tell whether a mutant has one fault, in what was kept of the graph, and it shows."""
    net = grown(mutant)
    found = [bool(at.levels) for at in where_is(net.graph)]
    return found == [inside] and shows(gradients_of(net), right)


def met(net: Network) -> Iterator[Met]:
    """Yield all nodes inside of others as they run, turn by turn."""
    run = Float64Run([net.loss], net.feeds, values=net.graph.values, training=net.training)
    for node in run.nodes:
        xs = [None if t is None else run.env[t] for t in node.inputs]
        yield from _within(node.op, xs, Address(node.name), net.training)


def _within(op: Op, xs: Sequence[Array | None], at: Address, training: bool) -> Iterator[Met]:
    if isinstance(op, (LoopOp, Cond, Call)):
        for level in opened(op, xs, at, training=training):
            for node in level:
                yield node
                yield from _within(node.op, node.inputs, node.address, training)
