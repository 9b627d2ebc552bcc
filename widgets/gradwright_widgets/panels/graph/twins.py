"""Gradients to draw: those that are in the graph, or else those of the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwright import Graph, Tensor, gradients
from gradwright.errors import GraphError
from gradwright.graph import ancestors
from gradwright.spec import is_floating

from ...drawing.nodes import differentiated

if TYPE_CHECKING:
    from ...host.desk import GraphDesk


def has_gradients(graph: Graph) -> bool:
    """Return whether some gradient has been built in a graph.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ())
    >>> before = has_gradients(g)
    >>> dx, = gw.gradients(gw.exp(x), [x])
    >>> before, has_gradients(g)
    (False, True)
    """
    return any(differentiated(node) is not None for node in graph.derived)


def trained(desk: GraphDesk, loss: Tensor) -> list[Tensor]:
    """Return the parameters that a loss depends on and that training moves."""
    reached = set(ancestors([loss]))
    return [t for t in desk.trained(loss) if t.node in reached and is_floating(t.dtype)]


def ensure_gradients(desk: GraphDesk) -> None:
    """Build the gradient of the loss, unless the graph has gradients already.

    It is part of the derived layer: it changes no result and is never saved.

    Raises:
        GraphError: no loss is known, or nothing that the loss depends on is trained.
    """
    graph = desk.graph
    if has_gradients(graph):
        return
    try:
        loss = desk.loss_tensor()
    except GraphError:
        raise GraphError(
            f"graph {graph.name!r} has no gradients to draw, and no loss is known",
            hint='gw.gradients(loss, g.trainable) in a cell, or GraphView(g, loss="loss")',
        ) from None
    wrt = trained(desk, loss)
    if not wrt:
        raise GraphError(
            f"loss {loss.name!r} depends on no parameter that is trained, so it has no gradients",
            hint="g.unfreeze(...) what should learn",
        )
    gradients(loss, wrt)
