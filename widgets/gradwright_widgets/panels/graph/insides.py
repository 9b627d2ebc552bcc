"""The inside of a node as the browser draws it, sent when the node is opened."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from gradwright import Graph, Node, Tensor
from gradwright.graph import Rng, SubGraph
from gradwright.ops.control.branch import Cond
from gradwright.ops.control.loop_op import LoopOp

from ...drawing.buffers import int32
from ...drawing.spec import columns, wires
from ...host.insides import node_at, parts_of


def inside_spec(graph: Graph, address: str) -> dict[str, Any]:
    """Return the columns that ``spliced`` of the page reads (``panels/graph/model/insides.ts``).

    They are those of a graph, of all that a node encloses, by address. ``entries`` says which
    argument of the node is which input inside, ``exits`` which tensors inside the node makes its
    results of; the carries of a loop also run from the end of a step to the beginning of the next.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> y = gw.nn.silu(g.placeholder("x", (3,)))
    >>> spec = inside_spec(g, "silu")
    >>> spec["names"]
    ['silu::in0', 'silu::sigmoid', 'silu::mul']
    >>> np.frombuffer(spec["entries"], "<i4").tolist(), np.frombuffer(spec["exits"], "<i4").tolist()
    ([0, 0], [2, 1])

    Raises:
        GraphError: there is no such node.
    """
    node = node_at(graph, address)
    nodes, names, wirings = list[Node](), list[str](), list[Wiring]()
    for part, inside in parts_of(node).items():
        held = drawn_inside(inside)
        nodes += held
        names += [f"{address}:{part}:{n.name}" for n in held]
        wirings.append(wiring(node, inside))
    number = {id(n): i for i, n in enumerate(nodes)}
    table, first_tensor = columns(nodes, names)
    entries, exits, edges = list[int](), list[int](), wires(nodes, number, first_tensor)
    after = len(node.inputs)
    for joined in wirings:
        for position, tensor in joined.entries:
            if id(tensor.node) in number:  # what nothing inside reads is left out
                entries += [position, number[id(tensor.node)]]
        for tensor in joined.exits:
            exits += [first_tensor[number[id(tensor.node)]] + tensor.index, after]
            after += 1
        for made, read in joined.back:
            if id(read.node) in number:
                source = first_tensor[number[id(made.node)]] + made.index
                edges += [source, number[id(read.node)], len(node.inputs)]
    return {**table, "edges": int32(edges), "entries": int32(entries), "exits": int32(exits)}


def drawn_inside(inside: SubGraph) -> list[Node]:
    """Return the nodes of a sub-graph that are drawn, inputs first: those that something reads."""
    read = {id(t) for n in inside.nodes for t in n.inputs} | {id(t) for t in inside.outputs}
    given = (t.node for t in inside.inputs if id(t) in read)
    return [n for n in (*given, *inside.nodes) if not isinstance(n.op, Rng)]


def opened(expanded: Sequence[str] | None, but: Container[str] = ()) -> list[str]:
    """Return the nodes that are opened, by address, those around others first, ``but`` some.

    >>> opened(["hidden", "scan::cell/norm::", "scan::", "choose::", "choose:then:"])
    ['choose', 'scan', 'scan::cell/norm']
    """
    found = {path.removesuffix("::") for path in expanded or () if path.endswith("::")}
    return sorted(
        (at for at in found if at not in but), key=lambda address: (address.count(":"), address)
    )


class Wiring(NamedTuple):
    """How a part of a node is joined to what is around it."""

    entries: Sequence[tuple[int, Tensor]]
    """Arguments of the node, by position, and what stands for them inside."""
    exits: Sequence[Tensor]
    back: Sequence[tuple[Tensor, Tensor]] = ()
    """What a step of a loop ends with, and what the next begins with."""


def wiring(node: Node, inside: SubGraph) -> Wiring:
    """Return how a part of a node is joined to the node's arguments and results."""
    op = node.op
    if isinstance(op, LoopOp):
        own = inside.inputs[1:]  # the first is the number of the step
        carried = len(inside.outputs) - op.n_results - op.n_carry
        return Wiring(
            [(op.first_carry + k, t) for k, t in enumerate(own)],
            inside.outputs,
            list(zip(inside.outputs[carried : carried + op.n_carry], own, strict=False)),
        )
    first = 1 if isinstance(op, Cond) else 0
    given = [k for k, t in enumerate(node.inputs) if t is not None and k >= first]
    return Wiring(list(zip(given, inside.inputs, strict=True)), inside.outputs)
