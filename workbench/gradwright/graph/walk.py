"""Walks over a graph; none recurses, so a chain of 100,000 nodes is as good as any."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from ..spec import Dim
from ..spec.one_of import sizes_in
from .tensor import Node, Placeholder, Tensor

if TYPE_CHECKING:
    from .graph import Graph


def ancestors(tensors: Iterable[Tensor], stop: Collection[Tensor] = ()) -> list[Node]:
    """Return all nodes that ``tensors`` depend on, inputs before users; not beyond ``stop``.

    The order depends only on the graph, not on the order in which nodes were made or edited.
    """
    order: list[Node] = []
    done: set[Node] = set()
    opened: set[Node] = set()
    for root in tensors:
        if stop and root in stop:
            continue
        stack = [root.node]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
            elif node in opened:
                done.add(node)
                order.append(node)
                stack.pop()
            else:
                opened.add(node)
                for t in reversed(node.inputs):
                    if t is not None and t.node not in done and not (stop and t in stop):
                        stack.append(t.node)
    return order


def ordered(
    tensors: Iterable[Tensor], stop: Collection[Tensor] = (), told: Iterable[str] = ()
) -> tuple[list[Node], list[Tensor]]:
    """Return ``ancestors``, each after what tells a size that its op states, and what does.

    ``gw.arange(m.shape[0])`` has no inputs, yet runs after the mask that makes ``m``: how many
    elements that leaves is a symbol that only a run knows. ``told`` are symbols known by ``stop``
    or otherwise, as those of placeholders are.
    """
    wanted, makers = list(tensors), dict[Tensor, None]()
    sizes = (d for t in stop for d in sizes_in(t.spec) if isinstance(d, Dim))
    known = {*told, *(s for d in sizes for s in d.symbols)}
    while True:
        order = ancestors([*makers, *wanted], stop)
        stated = set().union(*(node.op.symbols() for node in order)) - known
        found = _makers(order[0].graph, stated) if stated else []
        if makers.keys() >= set(found):
            return order, list(makers)
        makers = dict.fromkeys([*found, *makers])  # one may need another one's


def _makers(graph: Graph, symbols: set[str]) -> list[Tensor]:
    """Return the tensors of a graph that have these sizes first, but for what is fed."""
    found: dict[str, Tensor] = {}
    for node in graph.nodes:
        if not isinstance(node.op, Placeholder):
            for t in node.outputs:
                for d in sizes_in(t.spec):
                    if isinstance(d, Dim) and str(d) in symbols:
                        found.setdefault(str(d), t)
    return list(dict.fromkeys(found.values()))


def descendants(nodes: Iterable[Node]) -> list[Node] | None:
    """Return ``nodes`` and all that depends on them, inputs first; None if there is a cycle."""
    order: list[Node] = []
    state: dict[Node, int] = {}
    for root in nodes:
        stack = [root]
        while stack:
            node = stack[-1]
            mark = state.get(node, 0)
            if mark == 0:
                state[node] = 1
                for t in node.outputs:
                    for user in t.uses:
                        seen = state.get(user, 0)
                        if seen == 1:
                            return None
                        if seen == 0:
                            stack.append(user)
            else:
                stack.pop()
                if mark == 1:
                    state[node] = 2
                    order.append(node)
    order.reverse()
    return order


def placeholders(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return what has to be fed to compute tensors."""
    return [n.outputs[0] for n in ancestors(tensors) if isinstance(n.op, Placeholder)]
