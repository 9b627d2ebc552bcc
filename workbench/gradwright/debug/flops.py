"""How much arithmetic nodes take, counted from shapes alone: nothing runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from ..errors import GradwrightError, GraphError
from ..graph import Graph, Node, Source, SubGraph, Tensor, expansion
from ..op import Op
from ..ops.control.branch import Cond
from ..ops.control.loop_op import NUMBER, LoopOp, item_of
from ..spec import Dim
from ..spec.containers import SequenceSpec
from ..spec.one_of import OneOf


def flops(
    nodes: Graph | Iterable[Node | Tensor], sizes: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return how many floating-point operations each node takes, by name.

    A sum and a product are one each, so a product of f32[M, K] and f32[K, N] takes 2·M·K·N. Other
    functions count one for each element of their result, reductions one for each that they read,
    and what only moves elements none. A composite takes what it stands for, ``cond`` the larger of
    its branches, a scan its body once per row, and a while loop, whose turns only a run knows, its
    body once. ``sizes`` are those of symbolic dimensions; what it does not know counts as 1, and a
    node of tensors whose rank only a run knows as none.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", ("B", 64)), g.variable("w", (64, 32))
    >>> y = gw.nn.relu(x @ w)
    >>> gw.debug.flops(g), gw.debug.flops([y], {"B": 8})
    ({'x': 0, 'w': 0, 'matmul': 4096, 'relu': 32}, {'relu': 256})

    What an op takes it says itself (``Op.flops``); one of your own may say it, too.

    Raises:
        GraphError: these are no nodes, or no sizes, or an op cannot say what it takes.
    """
    counter = Counter(_checked(sizes or {}))
    return {node.name: counter.of(node) for node in _listed(nodes)}


def _listed(nodes: Any) -> list[Node]:
    listed = nodes.nodes if isinstance(nodes, Graph) else nodes
    if isinstance(listed, str | Tensor | Node) or not isinstance(listed, Iterable):
        raise GraphError(
            f"flops of {listed!r:.60}",
            need="a graph, or some of its nodes or tensors",
            hint="[y] for one alone" if isinstance(listed, Tensor | Node) else "",
        )
    found = list[Node]()
    for each in listed:
        if not isinstance(each, Tensor | Node):
            raise GraphError(f"{each!r:.60} is no node", need="nodes or tensors of a graph")
        found.append(each.node if isinstance(each, Tensor) else each)
    return found


def _checked(sizes: Any) -> Mapping[str, int]:
    if not isinstance(sizes, Mapping):
        raise GraphError(f"sizes={sizes!r:.60}", need='sizes by their symbols: {"B": 8}')
    for name, n in sizes.items():
        if not isinstance(name, str) or isinstance(n, bool) or not isinstance(n, Integral) or n < 0:
            raise GraphError(f"the size {name!r:.60} is {n!r:.60}", need="an integer of 0 or more")
    return {name: int(n) for name, n in sizes.items()}


class Counter:
    """Counts of nodes at certain sizes; equal calls are counted once."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = dict(sizes)
        self._known: dict[tuple[Any, ...], int] = {}

    def of(self, node: Node, sizes: Mapping[str, Any] | None = None) -> int:
        """Return the count of a node; ``sizes`` are those of the graph that it is in."""
        if isinstance(node.op, Source):
            return 0
        sizes = self._sizes if sizes is None else sizes
        ins = [None if t is None else _at(t.spec, sizes) for t in node.inputs]
        outs = [_at(t.spec, sizes) for t in node.outputs]
        if any(isinstance(spec, OneOf) for spec in (*ins, *outs)):
            return 0
        key = node.op, *ins, None, *outs
        try:
            known = self._known.get(key)
        except TypeError:  # an attribute that cannot be a key
            return self._count(node.op.bind(sizes), ins, outs)
        if known is None:
            known = self._known[key] = self._count(node.op.bind(sizes), ins, outs)
        return known

    def _count(self, op: Op, ins: Sequence[Any], outs: Sequence[Any]) -> int:
        if isinstance(op, LoopOp):
            carries, items, captured = op.split(ins)
            given = [NUMBER, *carries, *map(item_of, items), *captured]
            return self._turns(op, items) * self._inside(op.body, given)
        if isinstance(op, Cond):
            return max(self._inside(b, ins[1:]) for b in (op.then_branch, op.else_branch))
        if op.is_composite() and type(op).flops is Op.flops:
            try:
                inside = expansion(op, ins)
            except GradwrightError:  # one of an open rank
                return self._said(op, ins, outs)
            return self._inside(inside, [spec for spec in ins if spec is not None])
        return self._said(op, ins, outs)

    def _said(self, op: Op, ins: Sequence[Any], outs: Sequence[Any]) -> int:
        """Return what an op says that it takes; code of the user's may fail, or say no number."""
        try:
            return self._settled(op.flops(ins, outs))
        except Exception as error:
            raise GraphError(
                f"{op.name} does not say how much arithmetic it takes",
                facts=[f"its flops(ins, outs): {type(error).__name__}: {error}"],
                need="a number of 0 or more",
            ) from error

    def _turns(self, op: LoopOp, items: Sequence[Any]) -> int:
        rows = [x.shape[0] for x in items if not isinstance(x, SequenceSpec | OneOf)]
        length = rows[0] if rows else getattr(op, "length", None)
        return 1 if length is None else self._settled(length)

    def _inside(self, sub: SubGraph, given: Sequence[Any]) -> int:
        """Return what the nodes of a sub-graph take on inputs of these specs."""
        sizes: dict[str, Any] = {**self._sizes, **sub.sizes}
        for t, spec in zip(sub.inputs, given, strict=True):
            if getattr(t.spec, "rank", None) != getattr(spec, "rank", None) or not t.spec.rank:
                continue
            for d, n in zip(t.spec.shape, spec.shape, strict=True):
                if isinstance(d, Dim):
                    sizes.update(d.solve(n))
        return sum(self.of(node, sizes) for node in sub.nodes)

    def _settled(self, count: Any) -> int:
        """Return a count of symbols as a number: what nobody knows counts as 1."""
        if isinstance(count, Dim):
            count = count.substitute({s: self._sizes.get(s, 1) for s in count.symbols})
        return max(0, int(count))


def _at(spec: Any, sizes: Mapping[str, Any]) -> Any:
    return spec.substitute(sizes) if sizes and hasattr(spec, "substitute") else spec
