"""What several panels say of a graph: what is trained, and shapes as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gradwright import Graph, Tensor
from gradwright.errors import GradwrightError
from gradwright.graph import ancestors
from gradwright.spec import is_floating


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


def ends(graph: Graph) -> list[Tensor]:
    """Return what nothing of the graph itself reads: its outputs, the loss among them.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ())
    >>> y, z = gw.exp(x, name="y"), gw.sin(gw.exp(x), name="z")
    >>> [t.name for t in ends(g)]
    ['y', 'z']
    """
    nodes = [n for n in graph.nodes if n.kind == "array"]
    return [t for n in nodes for t in n.public if all(user.derived for user in t.uses)]
