"""Builds a graph again with products in fewer bits: node by node, each under its rule."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...graph import Constant, Graph, Node, Source, SubGraph, Tensor, ancestors
from ...graph.expand import expansion, stand_in
from ...op import Op
from ...ops.control.branch import Cond
from ...ops.control.call import Call
from ...ops.control.loop_op import LoopOp
from ...ops.core.movement import Cast
from ...spec import dtype, dtype_name, kind
from ...spec.rounding import rounded
from .policy import Precision
from .rules import APART, FREE, HIGH, LOW, Rule, rule_of

if TYPE_CHECKING:
    from .products import Products

FLOAT32 = dtype("float32")
KEPT = Rule(HIGH, "kept in float32 by name")
HELD = Rule(HIGH, "its sub-graph holds no product")
WIDE = Rule(FREE, "inputs of 64 bits stay as they are")
Inputs = list[Tensor | None]


class Row(NamedTuple):
    """How a node computes."""

    node: str
    op: str
    computes: str
    gives: str
    reason: str


class Rebuild:
    """Stand-ins for tensors of a graph, made as they are asked for.

    With a ``prefix`` they are nodes of the derived layer beside those they stand for, which stay in
    use wherever nothing changes; without one, nodes of a body that is built anew.
    """

    def __init__(
        self, graph: Graph, precision: Precision, products: Products | None, prefix: str = ""
    ) -> None:
        self.graph, self.precision, self.products = graph, precision, products
        self.prefix, self.rows = prefix, list[Row]()
        self.made: dict[Tensor, Tensor] = {}
        self._casts: dict[tuple[Tensor, np.dtype[Any]], Tensor] = {}
        self._at: Callable[[str, Node | None], None] = lambda prefix, origin: None
        self._origin: Node | None = None

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Let what is built in the block go to its layer."""
        if not self.prefix:
            with self.graph:
                yield
            return
        with self.graph.deriving(self.prefix) as at:
            self._at = at
            yield

    def reach(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the stand-ins of tensors, each of the dtype of what it stands for."""
        with self.building():
            self.build(ancestors(tensors, stop=self.made), self.made)
            return [self.cast(self.made[t], t.dtype) for t in tensors]

    def build(self, nodes: Iterable[Node], known: dict[Tensor, Tensor], path: str = "") -> None:
        """Add the stand-ins of what nodes make to those that are known."""
        for node in nodes:
            if all(t in known for t in node.outputs):
                continue
            self._origin = node if node.graph is self.graph else None
            if isinstance(node.op, Source):
                known.update((t, self._source(t)) for t in node.outputs)
                continue
            xs = [None if t is None else known[t] for t in node.inputs]
            name = f"{path}/{node.name}" if path else node.name
            known.update(zip(node.outputs, self._node(node, xs, name), strict=True))

    def _source(self, t: Tensor) -> Tensor:
        """Return a source itself, or a constant of a sub-graph as one of this graph."""
        if t.graph is self.graph:
            return t
        array = t.graph.values.array(t.node.name)
        if not t.rank and kind(t.dtype) in "fiub":
            return self.graph.scalar(array[()].item(), t.dtype)
        return self.graph.constant(array)

    # -- one node --------------------------------------------------------------------------------

    def _node(self, node: Node, xs: Inputs, name: str) -> Sequence[Tensor]:
        rule = self._rule(node, xs, name)
        if rule.what == APART:
            return self._opened(node, xs, name)
        products = self.products
        if rule.what == LOW and products is not None and products.takes(node.op, xs, name):
            ys = products.build(self, xs, name, self.precision.low_of(name))
            self._note(node, name, products.computes, ys, products.reason)
            return ys
        given = self._cast(node, xs, rule, self.precision.low_of(name))
        same = node.graph is self.graph and all(
            a is b for a, b in zip(given, node.inputs, strict=True)
        )
        ys = node.outputs if same else self.put(node.op, given, name)
        self._note(node, name, _computes(given), ys, rule.reason)
        return ys

    def _rule(self, node: Node, xs: Inputs, name: str) -> Rule:
        """Return what happens to a node here."""
        op = node.op
        if self.precision.keeps(name):
            return KEPT
        rule = rule_of(op, [None if t is None else t.spec for t in node.inputs])
        if isinstance(op, Call):
            return rule._replace(what=APART)
        if rule.what == FREE and any(isinstance(v, SubGraph) for v in op.attributes().values()):
            return HELD
        if rule.what == LOW and any(x is not None and x.dtype.itemsize > 4 for x in _floats(xs)):
            return WIDE
        if self.products is not None and self.products.opens(op, name):
            return rule._replace(what=APART)
        return rule

    def _cast(self, node: Node, xs: Inputs, rule: Rule, low: np.dtype[Any]) -> Inputs:
        """Return the inputs in the dtypes that the rule asks for; others than float32 stay."""
        if not self.precision.narrow:
            return xs
        mine = [
            i
            for i, (x, t) in enumerate(zip(xs, node.inputs, strict=True))
            if x is not None and t is not None and t.dtype == FLOAT32
        ]
        out = list(xs)
        if rule.what == LOW:
            to = low
        elif rule.what == HIGH:
            to = FLOAT32
        else:
            came = {i: x.dtype for i in mine if (x := xs[i]) is not None}
            narrow = self.precision.narrow.intersection(came.values())
            if not narrow:
                return xs
            full = [i for i, came_as in came.items() if came_as == FLOAT32]
            (to,) = narrow if len(narrow) == 1 else (FLOAT32,)
            to = to if all(self._holds(to, xs[i]) for i in full) else FLOAT32
        for i in mine:
            x = xs[i]
            assert x is not None
            out[i] = self.cast(x, to)
        return out

    def _holds(self, low: np.dtype[Any], x: Tensor | None) -> bool:
        """Return whether x is one number that the dtype holds; so numbers widen nothing."""
        if x is None or not isinstance(x.op, Constant) or x.rank:
            return False
        value = x.graph.values.array(x.node.name)
        with np.errstate(over="ignore", under="ignore"):
            held = value.astype(low).astype(value.dtype)
        return bool(np.isfinite(held) == np.isfinite(value) and (held == 0) == (value == 0))

    def cast(self, t: Tensor, to: np.dtype[Any]) -> Tensor:
        """Return a tensor in a dtype: one cast for all uses, none for numbers."""
        if t.dtype == to:
            return t
        found = self._casts.get((t, to))
        if found is None:
            origin, self._origin = self._origin, t.node.origin or t.node
            if isinstance(t.op, Constant) and not t.rank:
                found = self.graph.scalar(rounded(t.graph.values.array(t.node.name), to).item(), to)
            else:
                name = t.name.replace(":", "_").removeprefix(self.prefix + "/")
                fresh = bool(self.prefix) and not t.name.startswith(self.prefix + "/")
                name = name if fresh else f"{name}/{dtype_name(to)}"
                found = self.put(Cast(dtype=to), [t], name)[0]
            self._origin = origin
            self._casts[t, to] = found
        return found

    def put(self, op: Op, xs: Sequence[Any], name: str) -> tuple[Tensor, ...]:
        """Add a node and return all that it makes."""
        self._at(self.prefix, self._origin)
        full = f"{self.prefix}/{name}" if self.prefix else name
        self.graph.add(op, xs, None if full in self.graph else name)
        return self.graph.latest.outputs

    def _note(
        self, node: Node, name: str, computes: str, ys: Sequence[Tensor], reason: str
    ) -> None:
        if _floats(ys):
            gives = ", ".join(dict.fromkeys(dtype_name(y.dtype) for y in _floats(ys)))
            self.rows.append(Row(name, node.op.name, computes, gives, reason))

    # -- sub-graphs ------------------------------------------------------------------------------

    def _opened(self, node: Node, xs: Inputs, name: str) -> Sequence[Tensor]:
        """Build what a composite stands for in its place, or control flow with other bodies."""
        if isinstance(node.op, Cond | LoopOp):
            return self._controlled(node, xs, name)
        sub = (
            node.op.body
            if isinstance(node.op, Call)
            else expansion(node.op, [None if t is None else t.spec for t in node.inputs])
        )
        known = dict(zip(sub.inputs, [x for x in xs if x is not None], strict=True))
        self.build(sub.nodes, known, name)
        return [known[t] for t in sub.outputs]

    def _controlled(self, node: Node, xs: Inputs, name: str) -> Sequence[Tensor]:
        """Build a branch or a loop whose bodies cast; what they only read in 16 bits comes so.

        So a weight is cast once, not once per step. Carries stay in float32 from step to step.
        """
        op = node.op
        attrs = {k: v for k, v in op.attributes().items() if isinstance(v, SubGraph)}
        shift, first = 1, 0
        if isinstance(op, LoopOp):
            shift, first = op.first_carry - 1, 1 + op.n_carry
        bodies = {k: self._body(sub, name, frozenset()) for k, sub in attrs.items()}
        narrow = frozenset(
            i
            for i in range(first, len(next(iter(attrs.values())).inputs))
            if all(i in wish for _, wish, _ in bodies.values())
        )
        if narrow:
            bodies = {k: self._body(sub, name, narrow) for k, sub in attrs.items()}
        given: Inputs = []
        for i, (x, t) in enumerate(zip(xs, node.inputs, strict=True)):
            to = None if t is None else self.precision.low if i - shift in narrow else t.dtype
            given.append(x if x is None or to is None else self.cast(x, to))
        for _, _, rows in bodies.values():
            self.rows += rows
        return self.put(op.replace(**{k: made for k, (made, _, _) in bodies.items()}), given, name)

    def _body(
        self, sub: SubGraph, name: str, narrow: frozenset[int]
    ) -> tuple[SubGraph, frozenset[int], list[Row]]:
        """Return a body built anew, the inputs of which it reads only casts, and its rows."""
        low = self.precision.low
        inner = Rebuild(Graph(sub.graph.name, scratch=True), self.precision, self.products)
        specs = [
            t.spec.with_dtype(low) if i in narrow else t.spec for i, t in enumerate(sub.inputs)
        ]
        inputs = [stand_in(inner.graph, f"x{i}", s) for i, s in enumerate(specs)]
        known = dict(zip(sub.inputs, inputs, strict=True))
        with inner.building():
            inner.build(sub.nodes, known, name)
            outputs = [inner.cast(known[t], t.dtype) for t in sub.outputs]
        made = SubGraph(inputs, outputs)
        made.sizes = sub.sizes
        wish = frozenset(
            i
            for i, x in enumerate(inputs)
            if x.dtype == FLOAT32
            and x not in set(outputs)
            and x.uses
            and all(isinstance(u.op, Cast) and u.op.dtype == low for u in x.uses)
        )
        return made, wish, inner.rows


def _floats(xs: Iterable[Tensor | None]) -> list[Tensor]:
    return [x for x in xs if x is not None and kind(x.dtype) in "fc"]


def _computes(xs: Inputs) -> str:
    """Return the dtypes in which a node reads its floating inputs."""
    return ", ".join(dict.fromkeys(dtype_name(x.dtype) for x in _floats(xs))) or "-"
