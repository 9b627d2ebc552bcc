"""What several panels say of a graph: what is drawn, whose gradient a node is, what is trained."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gradwright import Graph, Node, Tensor
from gradwright.errors import GradwrightError
from gradwright.graph import Rng, ancestors
from gradwright.spec import is_floating


def drawn_nodes(graph: Graph, *, gradients: bool = False) -> list[Node]:
    """Return the nodes that are drawn: all but the random key, which nobody declared."""
    nodes = graph.all_nodes if gradients else graph.nodes
    return [node for node in nodes if not isinstance(node.op, Rng)]


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


def parameters(graph: Graph, trainer: Any = None) -> list[dict[str, Any]]:
    """Return name, shape, dtype and size of every variable that can be trained.

    With a trainer these are its own, and the state of what its losses are made of.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (64, 10))
    >>> parameters(g)
    [{'name': 'w', 'shape': [64, 10], 'dtype': 'f32', 'count': 640}]
    """
    out = []
    for tensor in _floating(graph.variables if trainer is None else _members(graph, trainer)):
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


def _members(graph: Graph, trainer: Any) -> list[Tensor]:
    try:
        own, reached = set(trainer.variables), set(ancestors(trainer.losses))
    except GradwrightError:  # an edit has taken them away; its next step says so
        return graph.variables
    holds_state = graph.updates.holds_state
    return [t for t in graph.variables if t in own or (t.node in reached and holds_state(t))]


def _floating(tensors: Iterable[Any]) -> list[Any]:
    return [tensor for tensor in tensors if is_floating(tensor.dtype)]


def shape_text(shape: Iterable[object]) -> str:
    """Return a shape as ``64 × 10``, or ``scalar``.

    >>> shape_text((64, 10)), shape_text(())
    ('64 × 10', 'scalar')
    """
    return " × ".join(map(str, shape)) or "scalar"


def scopes(graph: Graph) -> set[str]:
    """Return the paths of all scopes, those of the derived layer included."""
    found: set[str] = set()
    for node in graph.all_nodes:
        path = node.scope
        while path and path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return found
