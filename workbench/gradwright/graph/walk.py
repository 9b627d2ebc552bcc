"""Walks over a graph; none recurses, so a chain of 100,000 nodes is as good as any."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from .tensor import Node, Placeholder, Tensor


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
