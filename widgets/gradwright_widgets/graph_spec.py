"""A graph as the browser draws it: names as text, numbers as buffers, one column per fact."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradwright import Graph, Node
from gradwright.graph import Rng

from ._base import int32

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


def drawn_nodes(graph: Graph, *, gradients: bool = False) -> list[Node]:
    """Return the nodes that are drawn: all but the random key, which nobody declared."""
    nodes = graph.all_nodes if gradients else graph.nodes
    return [node for node in nodes if not isinstance(node.op, Rng)]


def graph_spec(graph: Graph, *, gradients: bool = False) -> dict[str, Any]:
    """Return the columns that ``GraphModel`` in widgets/frontend/src/graph/model.ts reads.

    ``gradients`` adds the nodes of the derived layer; ``origin`` is the index of the node whose
    gradient a node belongs to, or -1.

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
    calls, specs = _Interned(), _Interned()
    first_call: dict[int, Node] = {}
    call, first_tensor, spec_of, edges = [], [0], [], []
    for node in nodes:
        call.append(calls.index(repr(node.op)))
        first_call.setdefault(call[-1], node)
        spec_of += [specs.index(str(tensor.spec)) for tensor in node.outputs]
        first_tensor.append(len(spec_of))
    for i, node in enumerate(nodes):
        for position, tensor in enumerate(node.inputs):
            source = None if tensor is None else number.get(id(tensor.node))
            if tensor is not None and source is not None:
                edges += [first_tensor[source] + tensor.index, i, position]
    return {
        "version": 1,
        "name": graph.name,
        "names": [node.name for node in nodes],
        "calls": calls.values,
        "ops": [first_call[k].op.name for k in range(len(calls.values))],
        "categories": [category(first_call[k]) for k in range(len(calls.values))],
        "specs": specs.values,
        "call": int32(call),
        "kind": memoryview(np.array([KINDS.index(n.kind) for n in nodes], np.uint8).tobytes()),
        "first_tensor": int32(first_tensor),
        "spec": int32(spec_of),
        "edges": int32(edges),
        "origin": int32([number.get(id(differentiated(node)), -1) for node in nodes]),
        "derived": memoryview(np.array([n.derived for n in nodes], np.uint8).tobytes()),
    }


def differentiated(node: Node) -> Node | None:
    """Return the node whose gradient a node belongs to.

    A node of an optimizer belongs to a parameter, too, but to its update.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ())
    >>> dx, = gw.gradients(gw.exp(x), [x])
    >>> differentiated(dx.node).name, differentiated(x.node)
    ('exp', None)
    """
    return node.origin if node.name.startswith("grad/") else None


def parameters(graph: Graph) -> list[dict[str, Any]]:
    """Return name, shape, dtype and size of every variable that can be trained.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (64, 10))
    >>> parameters(g)
    [{'name': 'w', 'shape': [64, 10], 'dtype': 'f32', 'count': 640}]
    """
    out = []
    for tensor in _floating(graph.variables):
        shape = [int(size) for size in tensor.shape]
        dtype = str(tensor.spec).partition("[")[0]
        out.append(
            {
                "name": tensor.name,
                "shape": shape,
                "dtype": dtype,
                "count": int(np.prod(shape, dtype=np.int64)),
            }
        )
    return out


def frozen(graph: Graph) -> list[str]:
    """Return the names of the variables that could be trained and are not."""
    return [tensor.name for tensor in _floating(graph.variables) if not tensor.trainable]


def _floating(tensors: Iterable[Any]) -> list[Any]:
    from gradwright.spec import is_floating

    return [tensor for tensor in tensors if is_floating(tensor.dtype)]


class _Interned:
    """Distinct texts in the order of their first use."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}

    def index(self, text: str) -> int:
        return self._index.setdefault(text, len(self._index))

    @property
    def values(self) -> list[str]:
        return list(self._index)


__all__: Sequence[str] = [
    "category",
    "differentiated",
    "drawn_nodes",
    "frozen",
    "graph_spec",
    "parameters",
]
