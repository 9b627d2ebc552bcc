"""A graph as the browser draws it: names as text, numbers as buffers, one column per fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradwright import Graph, Node
from gradwright.debug.inside import has_inside

from .adapters import adapter_scopes
from .buffers import int32
from .grouping import groups_of
from .nodes import differentiated, drawn_nodes, spec_text

KINDS = ("array", "placeholder", "variable", "constant")
_SOURCES = {"placeholder": "input", "variable": "parameter", "constant": "constant"}


def category(node: Node) -> str:
    """Return the group of a node, which gives it its colour.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (2, 2))
    >>> category(x.node), category((x @ x).node)
    ('input', 'linear')
    """
    return _SOURCES.get(node.kind) or node.op.drawing


def graph_spec(graph: Graph, *, gradients: bool = False) -> dict[str, Any]:
    """Return the columns that ``GraphModel`` of the page reads (``panels/graph/model/model.ts``).

    ``gradients`` adds the nodes of the derived layer; ``origin`` is the index of the node whose
    gradient a node belongs to, or -1. What ``groups_of`` finds is among them, and which scopes are
    those of adapters.

    >>> import gradwright as gw
    >>> g = gw.Graph("double")
    >>> x = g.placeholder("x", (3,))
    >>> y = x + x
    >>> spec = graph_spec(g)
    >>> spec["names"], spec["specs"], np.frombuffer(spec["edges"], "<i4").tolist()
    (['x', 'add'], ['f32[3]'], [0, 1, 0, 0, 1, 1])
    """
    nodes = drawn_nodes(graph, gradients=gradients)
    number = {id(node): i for i, node in enumerate(nodes)}
    table, first_tensor = columns(nodes, [node.name for node in nodes])
    groups = groups_of(graph)
    return {
        "version": 1,
        "name": graph.name,
        **table,
        **(groups.columns(nodes) if groups else {}),
        "adapters": adapter_scopes(graph),
        "edges": int32(wires(nodes, number, first_tensor)),
        "origin": int32([number.get(id(differentiated(node)), -1) for node in nodes]),
        "derived": memoryview(np.array([n.derived for n in nodes], np.uint8).tobytes()),
    }


def columns(nodes: Sequence[Node], names: list[str]) -> tuple[dict[str, Any], list[int]]:
    """Return what is known of each node by itself, and the number of its first tensor."""
    calls, specs = _Interned(), _Interned()
    first_call: dict[int, Node] = {}
    call, first_tensor, spec_of = [], [0], []
    for node in nodes:
        call.append(calls.index(repr(node.op)))
        first_call.setdefault(call[-1], node)
        spec_of += [specs.index(spec_text(tensor)) for tensor in node.outputs]
        first_tensor.append(len(spec_of))
    examples = [first_call[k] for k in range(len(calls.values))]
    table = {
        "names": names,
        "calls": calls.values,
        "ops": [node.op.name for node in examples],
        "categories": [category(node) for node in examples],
        "opens": [has_inside(node.op) for node in examples],
        "specs": specs.values,
        "call": int32(call),
        "kind": memoryview(np.array([KINDS.index(n.kind) for n in nodes], np.uint8).tobytes()),
        "first_tensor": int32(first_tensor),
        "spec": int32(spec_of),
    }
    return table, first_tensor


def wires(nodes: Sequence[Node], number: Mapping[int, int], first_tensor: list[int]) -> list[int]:
    """Return tensor, consumer and position of each edge between nodes, one after the other."""
    edges = []
    for i, node in enumerate(nodes):
        for position, tensor in enumerate(node.inputs):
            source = None if tensor is None else number.get(id(tensor.node))
            if tensor is not None and source is not None:
                edges += [first_tensor[source] + tensor.index, i, position]
    return edges


class _Interned:
    """Distinct texts in the order of their first use."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}

    def index(self, text: str) -> int:
        return self._index.setdefault(text, len(self._index))

    @property
    def values(self) -> list[str]:
        return list(self._index)
