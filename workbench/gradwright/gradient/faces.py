"""What a graph says of its loss and its gradients without being told which."""

from __future__ import annotations

from ..errors import GraphError
from ..graph import Graph, Tensor
from ..spec import kind
from .reverse import gradients


def grad(graph: Graph, wrt: Tensor | str, loss: Tensor | str | None = None) -> Tensor:
    """Return one gradient; see ``Graph.grad``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=3.0)
    >>> square = w * w
    >>> grad(g, "w").eval().item()
    6.0
    """
    of = only_loss(graph) if loss is None else graph[loss] if isinstance(loss, str) else loss
    (found,) = gradients(of, [graph[wrt] if isinstance(wrt, str) else wrt])
    return found


def only_loss(graph: Graph) -> Tensor:
    """Return the only floating scalar of a graph that an op makes and no other node reads.

    Raises GraphError, with the candidates, where there is none, or several.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> loss = gw.mean(g.variable("w", (3,)) ** 2.0, name="loss")
    >>> only_loss(g).name
    'loss'
    """
    graph.settle()
    made = [t for n in graph.nodes if n.kind == "array" for t in n.public]
    ends = [t for t in made if not any(not user.derived for user in t.uses)]
    found = [t for t in ends if not t.rank and kind(t.dtype) == "f"]
    if len(found) != 1:
        names = ", ".join(repr(t.name) for t in found[:8])
        raise GraphError(
            f"graph {graph.name!r} does not tell which tensor is its loss",
            facts=[f"scalars that nothing else is made of: {names or 'none'}"],
            hint=f"loss={found[0].name!r}" if found else "loss=gw.mean(...)",
        )
    return found[0]
