"""What nodes enclose: the parts that open, and what is called so inside of them."""

from __future__ import annotations

from gradwright import Graph, Node
from gradwright.debug.address import Address, parts, specs_of
from gradwright.debug.inside import has_inside
from gradwright.errors import GraphError
from gradwright.graph import SubGraph


def parts_of(node: Node) -> dict[str, SubGraph]:
    """Return what a node encloses, as ``parts`` does.

    Raises GraphError where that hangs on sizes that are not known.
    """
    try:
        return parts(node.op, specs_of(node))
    except Exception as error:  # what an op is made of may hang on sizes
        raise GraphError(
            f"what {node.op.name} {node.name!r} is made of cannot be told yet: {error}",
            hint="give the placeholders sizes, or step into it, where sizes are known",
        ) from error


def node_at(graph: Graph, text: str) -> Node:
    """Return the node of an address, or of a name; raises GraphError if there is none.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.silu(g.placeholder("x", (3,)))
    >>> node_at(g, "silu::mul").op
    mul()
    """
    return Address.parse(text).find(graph).node


def is_called(graph: Graph, text: str) -> bool:
    """Tell whether a node has this name or address.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.silu(g.placeholder("x", (3,)))
    >>> [is_called(g, text) for text in ("x", "silu::mul", "silu::div", "y")]
    [True, True, False, False]
    """
    if ":" not in text:
        return graph.get(text) is not None
    try:
        node_at(graph, text)
    except GraphError:
        return False
    return True


def holder_of(path: str) -> str:
    """Return the address of the node that a path leads into, "" at the top of the graph.

    >>> holder_of("scan::cell/norm::"), holder_of("choose:then:inner"), holder_of("hidden/inner")
    ('scan::cell/norm', 'choose', '')
    """
    return path.rpartition(":")[0].rpartition(":")[0]


def is_inside(graph: Graph, path: str) -> bool:
    """Tell whether a path leads into a node: to its frame, to a branch, or to a scope in them.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.silu(g.placeholder("x", (3,)))
    >>> [is_inside(g, path) for path in ("silu::", "silu::deeper", "x::", "silu")]
    [True, False, False, False]
    """
    if not (holder := holder_of(path)):
        return False
    part, _, scope = path[len(holder) + 1 :].partition(":")
    try:
        node = node_at(graph, holder)
        if not part and not scope:
            return has_inside(node.op)
        found = parts_of(node)
    except GraphError:
        return False
    if not scope:
        return part in found
    return part in found and any(
        f"{node.scope}/".startswith(f"{scope}/") for node in found[part].nodes
    )
