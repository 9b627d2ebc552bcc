"""Gradients in the body of a loop, a branch or a function, with respect to tensors from outside.

What a body uses from outside, it captures: a placeholder of its graph stands for a tensor of an
enclosing one. A cotangent that arrives at the placeholder goes on from that tensor, and all of the
gradient is built in the body, which captures what the vjps of outer nodes read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ..graph import Graph, Node, Tensor, ancestors


def innermost(tensors: Iterable[Tensor]) -> Graph:
    """Return the innermost graph among those of tensors, which enclose each other.

    Raises GraphError where two of them do not.
    """
    found: Graph | None = None
    for t in tensors:
        if found is None or found in enclosing(t.graph):
            found = t.graph
    assert found is not None
    return found


def enclosing(graph: Graph) -> Iterator[Graph]:
    """Yield a graph and those that it is built in, from the inside out."""
    at: Graph | None = graph
    while at is not None:
        yield at
        at = at.parent


def check_reachable(graph: Graph, t: Tensor) -> None:
    """Refuse a tensor that is neither of a graph nor of one that encloses it."""
    home = t.graph if t.graph in enclosing(graph) else graph
    home.check_member(t)


def ancestors_across(
    ys: Sequence[Tensor], graph: Graph, stop: Collection[Tensor]
) -> tuple[list[Node], Mapping[Tensor, Tensor]]:
    """Return the nodes that ``ys`` depend on in all graphs, and the outer tensors of placeholders.

    Inputs come before users, and what is outside before what is inside.
    """
    order: list[Node] = []
    captured: dict[Tensor, Tensor] = {}
    targets = list(ys)
    for level in enclosing(graph):
        here = ancestors([t for t in targets if t.graph is level], stop)
        order[:0] = here
        nodes = set(here)
        found = {p: t for t, p in level.captures.items() if p.node in nodes}
        captured |= found
        targets += found.values()
    return order, captured
