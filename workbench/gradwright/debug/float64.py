"""A run in float64: the nodes behind some tensors copied at full precision, with all their values.

Every floating source becomes float64 (complex: complex128), and so does every dtype attribute: a
cast to bfloat16 does nothing here. What is examined is the formulas, not their rounding. Feeds are
first brought to the dtype of their placeholder, so a tie in the real run is a tie here.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import FeedError
from ..graph import (
    Constant,
    Graph,
    Node,
    Rng,
    Source,
    SubGraph,
    Tensor,
    Values,
    ancestors,
    expansion,
)
from ..graph.expand import bind_dims, run_node, stand_in
from ..op import Op, run_forward
from ..ops.control.branch import Cond
from ..ops.core.identity import Identity, StopGradient
from ..session import as_feed
from ..spec import SMALL, TensorSpec, dtype, is_floating, kind, known_spec, spec_of
from ..spec.containers import OptionalSpec, SequenceSpec
from .arguments import placeholder_named
from .surrogates import declared, holds_surrogate

Array = np.ndarray[Any, Any]
_FLOAT64, _COMPLEX128 = dtype("float64"), dtype("complex128")


def wide(given: np.dtype[Any]) -> np.dtype[Any]:
    """Return float64 for floats, complex128 for complex dtypes, and others as they are."""
    if not is_floating(given):
        return given
    return _COMPLEX128 if kind(given) == "c" else _FLOAT64


def widened(value: Any) -> Any:
    """Return an attribute, an op or a sub-graph with every floating dtype in it made wide."""
    if isinstance(value, np.dtype):
        return wide(value)
    if isinstance(value, tuple):
        return tuple(map(widened, value))
    if isinstance(value, SubGraph):
        return _widened_graph(value)
    if isinstance(value, Op) and type(value).attrs:
        free = {k: v for k, v in value.attributes().items() if not type(value).attrs[k].exact}
        changes = {k: w for k, v in free.items() if (w := widened(v)) is not v}
        return value.replace(**changes) if changes else value
    return value


def _wide_spec(spec: TensorSpec) -> TensorSpec:
    """Return a spec with every floating dtype in it made wide, those of items, too."""
    if isinstance(spec, SequenceSpec):
        return SequenceSpec(spec.item_shape, wide(spec.item_dtype))
    if isinstance(spec, OptionalSpec):
        return OptionalSpec(_wide_spec(spec.element))
    return spec.with_dtype(wide(spec.dtype))


def _widened_graph(sub: SubGraph) -> SubGraph:
    graph = Graph("float64", scratch=True)
    copies: dict[Tensor, Tensor] = {}
    for i, t in enumerate(sub.inputs):
        name = t.node.name if graph.get(t.node.name) is None else f"input_{i}"
        copies[t] = stand_in(graph, name, _wide_spec(t.spec))
    for node in sub.nodes:
        if node.outputs[0] in copies:
            continue
        if isinstance(node.op, Constant):
            array = node.graph.values.array(node.name)
            copies[node.outputs[0]] = graph.constant(array.astype(wide(array.dtype)), node.name)
            continue
        ins = [None if t is None else copies[t] for t in node.inputs]
        graph.add(widened(node.op), ins, node.name)
        graph.latest.site, graph.latest.origin = node.site, node.origin
        copies.update(zip(node.outputs, graph.latest.outputs, strict=True))
    return SubGraph([copies[t] for t in sub.inputs], [copies[t] for t in sub.outputs])


class Float64Run:
    """The copy of what ``targets`` need, and the value of every tensor in it.

    ``copies`` maps tensors of the user's graph to tensors of ``graph``, which has concrete sizes
    throughout, and ``env`` these to their values. ``nodes`` are the copied nodes without sources,
    inputs first, their ops with mode and sizes settled. Random ops draw as in step ``step`` of a
    session with this ``seed``.

    Who has little time at once takes it node by node: ``at_once=False`` leaves all to ``coming``.
    """

    def __init__(
        self,
        targets: Sequence[Tensor],
        feeds: Mapping[Any, Any],
        *,
        values: Values,
        seed: int = 0,
        step: int = 0,
        training: bool = False,
        at_once: bool = True,
    ) -> None:
        self._source = targets[0].graph
        self.graph = Graph(self._source.name, scratch=True)
        self.copies: dict[Tensor, Tensor] = {}
        self.env: dict[Tensor, Array] = {}
        self.nodes: list[Node] = []
        self.opened: set[Node] = set()
        """``stop_gradient`` inside a vjp: constant for what is built on it, not for differences."""
        self.training = training
        self._sizes: dict[str, int] = {}
        self.fed = given(self._source, feeds)
        for t, array in self.fed.items():
            self._hold(t, array)
        self._order = ancestors(targets, stop=set(self.copies))
        self.coming: Iterator[Node] = self._copying(values, (seed, step))
        """The copied nodes, each when its value is there; what is left of them."""
        if at_once:
            collections.deque(self.coming, 0)

    def let_go(self) -> None:
        """Forget the user's graph: what is left knows copies alone, and keeps no graph alive."""
        self.copies, self.fed, self._order, self.coming = {}, {}, [], iter(())
        del self._source

    def _copying(self, values: Values, key: tuple[int, int]) -> Iterator[Node]:
        for node in self._order:
            if isinstance(node.op, Source):
                self._hold(node.outputs[0], stored(node, values, key))
            else:
                yield self._copy(node)

    def settled_array(self, array: Array) -> Array:
        """Return a given value as this run takes it."""
        return array.astype(wide(array.dtype))

    def settled_op(self, op: Op) -> Op:
        """Return an op as this run takes it."""
        return widened(op)  # type: ignore[no-any-return]

    def _hold(self, t: Tensor, array: Array) -> None:
        """Copy a tensor whose value is given."""
        array = self.settled_array(array)
        if isinstance(t.op, Rng):
            copy = self.graph.rng
        else:
            copy = self.graph.placeholder(t.name.replace(":", "_"), array.shape, array.dtype)
            copy.node.site = t.node.site
        copy.spec = known_spec(array)
        self.copies[t], self.env[copy] = copy, array
        self._sizes.update(bind_dims({t: array.shape}))

    def settled(self, node: Node) -> Op:
        """Return the op of a node of the user's graph as a copy has it: as it is defined now."""
        return self.settled_op(node.op.for_mode(self.training).bind(self._sizes))

    def _copy(self, node: Node) -> Node:
        op = self.settled(node)
        ins = [None if t is None else self.copies[t] for t in node.inputs]
        with np.errstate(all="ignore"):
            xs = [None if t is None else self.env[t] for t in ins]
            ys = run_node(node, op, xs, training=self.training)
        self.graph.add(op, ins, node.name)
        copy = self.graph.latest
        copy.site = node.site
        self.nodes.append(copy)
        if node.derived and isinstance(op, StopGradient):
            self.opened.add(copy)
        for t, made, y in zip(node.outputs, copy.outputs, ys, strict=True):
            made.spec = known_spec(y)
            self.copies.setdefault(t, made)
            self.env[made] = y
            self._sizes.update(bind_dims({t: y.shape}))
        return copy

    def dependents(self, tensors: Sequence[Tensor]) -> list[Node]:
        """Return the copied nodes whose values depend on these copied tensors, inputs first."""
        changed, found = set(tensors), []
        for node in self.nodes:
            if isinstance(node.op, StopGradient) and node not in self.opened:
                continue  # a constant as far as gradients go, whatever its input does
            shapes = () if node.op.has_surrogate() else node.op.shape_only
            if any(t in changed for i, t in enumerate(node.inputs) if i not in shapes):
                found.append(node)
                changed.update(node.outputs)
        return found


class Calls:
    """Ops as a flat list of calls on registers; composites and conds are opened.

    ``stop_gradient`` and the choice of a cond keep the values they had when the list was made, as
    they do for the gradient. An op with a declared gradient moves as what it declares does, from
    the value it had. Where registers are filled ``anew`` with other values, stopped ones are
    computed again, too, and declarations are not looked at.
    """

    def __init__(self, training: bool, *, anew: bool = False) -> None:
        self.training, self.anew = training, anew
        self.registers: list[Any] = [None]
        """Number 0 stands for an absent input."""
        self.calls: list[Call] = []
        self.declared: set[str] = set()
        """Labels of calls whose op declares a gradient."""
        self.veiled: set[str] = set()
        """Labels of loops in whose bodies an op does: their differences say nothing."""
        self.decisive: list[int] = []
        """Registers whose content decided which calls there are: choices of conds, and sizes."""

    def new(self, array: Array) -> int:
        """Return a new register."""
        self.registers.append(array)
        return len(self.registers) - 1

    def open(self, op: Op, ins: Sequence[int], label: str) -> list[int]:
        """Append what an op does, and return the registers of its outputs."""
        arrays = [self.registers[i] for i in ins]
        if op.has_surrogate():
            self.declared.add(label)
        if op.has_surrogate() and not self.anew:
            forward, ys = declared(op, arrays, run_forward(op, arrays, training=self.training))
            outs = [self.new(y) for y in ys]
            self.calls.append(Call(forward, tuple(ins), tuple(outs), label))
            return outs
        sub = inside(op, arrays)
        chosen = isinstance(op, Cond)
        self.decisive += [
            i for n, i in enumerate(ins) if i and (n in op.needs_values or (chosen and not n))
        ]
        if sub is None or (op.is_composite() and type(op).forward is not Op.forward):
            outs = [self.new(y) for y in run_forward(op, arrays)]
            if holds_surrogate(op):
                self.veiled.add(label)
            if self.anew or not isinstance(op, StopGradient):
                self.calls.append(Call(op.forward, tuple(ins), tuple(outs), label))
            return outs
        given = ins[1:] if isinstance(op, Cond) else [i for i in ins if i]
        numbers = dict(zip(sub.inputs, given, strict=True))
        for node in sub.nodes:
            if isinstance(node.op, Constant):
                numbers[node.outputs[0]] = self.new(node.graph.values.array(node.name))
            elif node.outputs[0] not in numbers:
                settled = node.op.for_mode(self.training)
                xs = [0 if t is None else numbers[t] for t in node.inputs]
                made = self.open(settled, xs, f"{label}/{node.name}")
                numbers.update(zip(node.outputs, made, strict=True))
        return [numbers[t] for t in sub.outputs]

    @property
    def surrogates(self) -> tuple[str, ...]:
        """Labels of the calls with a declared gradient."""
        return tuple(c.label for c in self.calls if c.label in self.declared)

    def prune(self, targets: Sequence[int]) -> None:
        """Drop the calls that no target needs."""
        needed, kept = set(targets), []
        for call in reversed(self.calls):
            if not needed.isdisjoint(call.outs):
                needed.update(call.ins)
                kept.append(call)
        self.calls = kept[::-1]

    def run(self) -> list[Any]:
        """Run all calls and return the registers."""
        run_calls(self.calls, self.registers)
        return self.registers


class Call(NamedTuple):
    """One forward: registers in, registers out, and the node it belongs to."""

    forward: Callable[..., Any]
    ins: tuple[int, ...]
    outs: tuple[int, ...]
    label: str

    @property
    def op(self) -> Op:
        """The op whose forward it is."""
        return self.forward.__self__  # type: ignore[attr-defined, no-any-return]


def run_calls(calls: Sequence[Call], held: list[Any]) -> None:
    """Run calls on registers."""
    for forward, ins, outs, _ in calls:
        ys = forward(*[held[i] for i in ins])
        if type(ys) is tuple:
            for out, y in zip(outs, ys, strict=True):
                held[out] = y if type(y) is np.ndarray else np.asarray(y)
        else:
            held[outs[0]] = ys if type(ys) is np.ndarray else np.asarray(ys)


class Function:
    """The part of a run between some tensors and others: arrays of ``given`` -> of ``targets``.

    What does not depend on ``given`` keeps the run's values.
    """

    def __init__(self, run: Float64Run, given: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
        needed = set(ancestors(targets, stop=set(given)))
        self.calls = Calls(run.training)
        numbers: dict[Tensor, int] = {}

        def number(t: Tensor | None) -> int:
            if t is None:
                return 0
            if t not in numbers:
                numbers[t] = self.calls.new(run.env[t])
            return numbers[t]

        self._given = [number(t) for t in given]
        for node in run.dependents(given):
            if node in needed and not all(t in numbers for t in node.outputs):
                op = Identity() if node in run.opened else node.op
                outs = self.calls.open(op, [number(t) for t in node.inputs], node.name)
                for t, out in zip(node.outputs, outs, strict=True):
                    numbers.setdefault(t, out)
        self.targets = [number(t) for t in targets]
        self.calls.prune(self.targets)

    def registers(self, *arrays: Array) -> list[Any]:
        """Run with other values of the given tensors and return all registers."""
        for number, array in zip(self._given, arrays, strict=True):
            self.calls.registers[number] = np.asarray(array)  # arithmetic on 0-d gives scalars
        return self.calls.run()

    def __call__(self, *arrays: Array) -> list[Array]:
        """Return the targets' values for other values of the given tensors."""
        held = self.registers(*arrays)
        return [held[i] for i in self.targets]


def inside(op: Op, xs: Sequence[Array | None]) -> SubGraph | None:
    """Return the graph that an op stands for on these arrays, if it stands for one."""
    if isinstance(op, Cond):
        return op.chosen(xs[0])
    return expansion(op, known_specs(op, xs)) if op.is_composite() else None


def known_specs(op: Op, xs: Sequence[Array | None]) -> list[TensorSpec | None]:
    """Return the specs of an op's inputs, with the integers that may decide output shapes."""
    specs: list[TensorSpec | None] = []
    for i, x in enumerate(xs):
        decides = i in op.needs_values or (op.is_composite() and x is not None and x.size <= SMALL)
        value = x if decides and x is not None and x.dtype.kind == "i" else None
        known = None if x is None else spec_of(x)
        if value is not None and known is not None:
            known.value = value
        specs.append(known)
    return specs


def given(graph: Graph, feeds: Mapping[Any, Any]) -> dict[Tensor, Array]:
    """Return feeds by tensor, each as an array that fits it."""
    if not isinstance(feeds, Mapping):
        raise FeedError(
            f"the feeds are a {type(feeds).__name__}", need="a dict by placeholder or name"
        )
    found = {}
    for key, value in feeds.items():
        t = graph.check_member(key) if isinstance(key, Tensor) else placeholder_named(graph, key)
        found[t] = as_feed(t, value)
    return found


def stored(node: Node, values: Values, key: tuple[int, int]) -> Array:
    """Return what a source gives: a stored value, or the random key."""
    if isinstance(node.op, Rng):
        return np.array(key, np.uint64)
    if node.kind == "placeholder":
        raise FeedError(f"placeholder {node.name!r} is not fed", need=str(node.outputs[0].spec))
    return values.stored(node)
