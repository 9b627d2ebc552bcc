"""Which nodes are drawn, whose gradient a node is, and the scopes that their names make."""

from __future__ import annotations

from gradwright import Graph, Node, Tensor
from gradwright.graph import Rng
from gradwright.ops.updates.rows import stands_for


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


def spec_text(t: Tensor) -> str:
    """Return the spec of a tensor as it is shown; of a gradient in rows what it stands for.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> table, ids = g.variable("table", (50, 8)), g.placeholder("ids", (4,), "int64")
    >>> rows, sums = gw.training.sum_rows(ids, gw.nn.embedding(ids, table), table)
    >>> spec_text(table), spec_text(sums)
    ('f32[50, 8]', 'f32[50, 8] in 4 rows')
    """
    return str(stands_for(t) or t.spec)


def scopes(graph: Graph) -> set[str]:
    """Return the paths of all scopes, those of the derived layer included."""
    found: set[str] = set()
    for node in graph.all_nodes:
        path = node.scope
        while path and path not in found:
            found.add(path)
            path = path.rpartition("/")[0]
    return found
