"""What runs between the nodes of a graph, by number, and what each of them does for the rest."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from gradwright import Node
from gradwright.ops.arrays.shapes import Rank, SizeAt
from gradwright.ops.core.like import ShapeOf, SizeOf
from gradwright.spec import TensorSpec

MAIN, STORED, SHAPE = 0, 1, 2
"""Roles: what a reader looks for; weights and what is computed of them alone; arithmetic of sizes.
"""
_ASKS = (ShapeOf, SizeOf, SizeAt, Rank)


class Flow(NamedTuple):
    """Nodes in an order in which each comes after what it reads."""

    nodes: Sequence[Node]
    sources: list[list[int]]
    """The nodes that each reads, without repeats."""
    readers: list[list[int]]
    role: list[int]

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> Flow:
        """Return how nodes hang together; roles are judged by all that they read.

        What reads a random key, or a gradient, is computed anew by each run, whether or not what it
        reads is drawn.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x, w = g.placeholder("x", ("B", 4)), g.variable("w", (4, 4))
        >>> y = gw.reshape(x @ gw.tanh(w), (x.shape[0], 2, 2))
        >>> flow = Flow.of(g.nodes)
        >>> [(node.name, flow.role[i]) for i, node in enumerate(flow.nodes)]
        [('x', 0), ('w', 1), ('tanh', 1), ('matmul', 0), ('reshape', 0)]
        """
        nodes, sources, open_ended = _in_order(nodes)
        readers: list[list[int]] = [[] for _ in nodes]
        for i, read in enumerate(sources):
            for source in read:
                readers[source].append(i)
        return cls(nodes, sources, readers, _roles(nodes, sources, open_ended))

    def main_sources(self, i: int) -> list[int]:
        """Return what a node reads but weights and sizes."""
        role = self.role
        return [k for k in self.sources[i] if not role[k]]

    def main_readers(self, i: int) -> list[int]:
        """Return what reads a node but arithmetic of sizes."""
        role = self.role
        return [k for k in self.readers[i] if not role[k]]

    def weight(self, i: int, rank: int) -> TensorSpec | None:
        """Return the spec of the first stored input of a node that has a rank."""
        for k in self.sources[i]:
            if self.role[k] == STORED and rank_of(spec := self.nodes[k].outputs[0].spec) == rank:
                return spec
        return None


def beyond(flow: Flow) -> list[list[int]]:
    """Return nodes that hang together by what is not drawn: what a gradient reads, and its readers.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.placeholder("w", ())
    >>> y = w - 0.1 * gw.gradients(gw.exp(w), [w])[0]
    >>> flow = Flow.of(g.nodes)
    >>> [sorted(flow.nodes[i].name for i in tie) for tie in beyond(flow)]
    [['exp', 'mul']]
    """
    number = {id(node): i for i, node in enumerate(flow.nodes)}
    leader: dict[int, int] = {}
    ties: dict[int, list[int]] = {}
    for i, node in enumerate(flow.nodes):
        pending = [t.node for t in node.inputs if t is not None and t.node.derived]
        if not pending:
            continue
        tie = [i]
        top = i
        while pending:
            behind = pending.pop()
            if id(behind) in leader:
                top = leader[id(behind)]
                continue
            if not behind.inputs:  # a one, which all gradients begin with, joins nothing
                continue
            leader[id(behind)] = top
            for t in behind.inputs:
                if t is None:
                    continue
                if t.node.derived:
                    pending.append(t.node)
                elif not flow.role[k := number.get(id(t.node), i)]:
                    tie.append(k)
        ties.setdefault(top, []).extend(tie)
    return [sorted(set(tie)) for tie in ties.values()]


def rank_of(spec: TensorSpec) -> int:
    """Return the rank of a spec, -1 where only a run tells, or of a list of tensors."""
    return len(spec.shape) if type(spec) is TensorSpec else -1


def _in_order(nodes: Sequence[Node]) -> tuple[Sequence[Node], list[list[int]], list[bool]]:
    """Return nodes, what each reads, and whether it reads something that is not among them."""
    number = {id(node): i for i, node in enumerate(nodes)}
    sources, open_ended, sorted_already = [], [], True
    for i, node in enumerate(nodes):
        found = [number.get(id(t.node), -1) for t in node.inputs if t is not None]
        if len(found) > 1:
            found = list(dict.fromkeys(found))
        outside = -1 in found
        if outside:
            found.remove(-1)
        open_ended.append(outside)
        sources.append(found)
        sorted_already = sorted_already and (not found or max(found) < i)
    if sorted_already:
        return nodes, sources, open_ended
    order = _sorted(sources)  # an edit may let a node read one that was made after it
    place = {old: new for new, old in enumerate(order)}
    read = [[place[k] for k in sources[old]] for old in order]
    return [nodes[old] for old in order], read, [open_ended[old] for old in order]


def _sorted(sources: list[list[int]]) -> list[int]:
    """Return a topological order that keeps to the order of creation where it can.

    What an edit has put in later, as an adapter, stands where the first that reads it does.
    """
    waiting = [len(read) for read in sources]
    readers: list[list[int]] = [[] for _ in sources]
    for i, read in enumerate(sources):
        for k in read:
            readers[k].append(i)
    place, unread = list(range(len(sources))), [len(found) for found in readers]
    ends = [i for i, count in enumerate(unread) if not count]
    while ends:
        i = ends.pop()
        for k in sources[i]:
            place[k] = min(place[k], place[i])
            unread[k] -= 1
            if not unread[k]:
                ends.append(k)
    ready = [(place[i], i) for i, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, i = heapq.heappop(ready)
        order.append(i)
        for k in readers[i]:
            waiting[k] -= 1
            if not waiting[k]:
                heapq.heappush(ready, (place[k], k))
    return order


def _roles(nodes: Sequence[Node], sources: list[list[int]], open_ended: list[bool]) -> list[int]:
    kinds = [node.kind for node in nodes]
    fed = "placeholder" in kinds  # where nothing is fed, all would count as stored
    role = [MAIN] * len(nodes)
    for i, kind in enumerate(kinds):
        if kind != "array":
            role[i] = MAIN if kind == "placeholder" else STORED
            continue
        read = [role[k] for k in sources[i]]
        if open_ended[i]:
            continue
        if all(r == STORED for r in read):
            role[i] = STORED if fed else MAIN
        elif isinstance(nodes[i].op, _ASKS) or (all(read) and _is_flat(nodes[i])):
            role[i] = SHAPE
    return role


def _is_flat(node: Node) -> bool:
    """Tell whether all results are lists of numbers or numbers, as sizes are."""
    return all(0 <= rank_of(tensor.spec) <= 1 for tensor in node.outputs)
