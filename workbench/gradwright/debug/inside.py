"""What runs inside of a node, on concrete arrays: one sub-graph, or the turns of a loop in order.

A composite stands for its expansion, a function's call for its body, a ``cond`` for the branch that
it takes, and a loop for its body, once for each turn. Turns come one after the other, each from
what came of the one before; none is computed before somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..graph import Constant, Node, SubGraph, Tensor, expansion
from ..graph.expand import bind_dims, run_node
from ..op import Op
from ..ops.control.branch import Cond
from ..ops.control.call import Call
from ..ops.control.loop_op import LoopOp
from .address import Address, Part
from .float64 import known_specs

Array = np.ndarray[Any, Any]
Edits = Mapping[tuple[Address, int], Array]
"""Values that were set by hand, by node and number of the output."""
NO_EDITS: Edits = MappingProxyType({})


def has_inside(op: Op) -> bool:
    """Tell whether an op stands for others: a composite, a call, a branch, a loop."""
    return op.is_composite() or isinstance(op, Cond | LoopOp)


def sources(op: Op, xs: Sequence[Array | None]) -> list[int]:
    """Return which inputs of an op what is inside of it is given, in order.

    A turn is given its number before them.
    """
    first = op.first_carry if isinstance(op, LoopOp) else 1 if isinstance(op, Cond) else 0
    return [i for i, x in enumerate(xs) if i >= first and x is not None]


class Inside:
    """What an op stands for on these arrays, as it is run: a sub-graph after the other.

    ``sub`` is the sub-graph that runs next, ``part`` which one that is (a turn, a branch), and
    ``given`` are the values of its inputs; ``take`` hands over what came of it. Where ``sub`` is
    None all has run, or there was nothing to run: a primitive op, a loop without turns.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> start = g.placeholder("start", ())
    >>> y = gw.while_loop(lambda c: c < 5.0, lambda c: c * 2.0, start)
    >>> inside = Inside(y.op, [np.array(True), None, np.array(1.0, "f4")])
    >>> while inside.sub is not None:
    ...     print(inside.part, [float(x) for x in inside.given])
    ...     inside.take(inside.sub.run(inside.given))
    0 [0.0, 1.0]
    1 [1.0, 2.0]
    2 [2.0, 4.0]
    >>> float(inside.outputs[0])
    8.0
    """

    def __init__(self, op: Op, xs: Sequence[Array | None]) -> None:
        self.op, self.xs = op, tuple(xs)
        self.outputs: tuple[Array, ...] = ()
        """The outputs of the op, once all has run."""
        self.found: list[Sequence[Array]] = []
        """What came of the sub-graphs that have run."""
        self.parts: list[Part] = []
        """Which ones these were, and which runs next."""
        self.sub: SubGraph | None = None
        self.given: list[Any] = [x for x in xs if x is not None]
        self._turns = op.turns(xs) if isinstance(op, LoopOp) else None
        if self._turns is not None:
            self._turn(None)
        elif isinstance(op, Cond):
            self.sub, self.given = op.chosen(xs[0]), self.given[1:]
            self.parts.append("then" if self.sub is op.then_branch else "else")
        elif isinstance(op, Call):
            self.sub = op.body
            self.parts.append(None)
        elif op.is_composite():
            self.sub = expansion(op, known_specs(op, xs))
            self.parts.append(None)

    @property
    def part(self) -> Part:
        """The turn or the branch that runs next; None for all else."""
        return self.parts[-1]

    def take(self, found: Sequence[Array]) -> None:
        """Take the results of ``sub``, and go on to the next turn."""
        self.found.append(found)
        self.sub = None
        if self._turns is None:
            self.outputs = tuple(found)
        else:
            self._turn(found)

    def _turn(self, found: Sequence[Array] | None) -> None:
        assert isinstance(self.op, LoopOp) and self._turns is not None
        try:
            self.given = self._turns.send(found)
        except StopIteration as end:
            self.outputs = end.value
        else:
            self.sub = self.op.body
            self.parts.append(int(self.given[0]))

    def back_to(self, part: Part) -> Inside:
        """Return this as it was before one of its parts ran; nothing is computed again."""
        made = Inside(self.op, self.xs)
        for found in self.found[: self.parts.index(part)]:
            made.take(found)
        return made


class Met(NamedTuple):
    """A node inside, as it ran."""

    address: Address
    node: Node
    op: Op
    """The op with mode and sizes settled."""
    inputs: list[Array | None]
    outputs: tuple[Array, ...]


class Opened:
    """One sub-graph inside of a node, run node by node as one goes through it.

    ``env`` holds the values of its tensors as far as they are known.
    """

    def __init__(self, at: Address, inside: Inside, training: bool, edits: Edits) -> None:
        assert inside.sub is not None
        self.at, self.part, self.sub, self.training = at, inside.part, inside.sub, training
        self._edits = edits
        self.env: dict[Tensor, Any] = {
            t: self._edited(t.node, [x])[0]
            for t, x in zip(self.sub.inputs, inside.given, strict=True)
        }
        self._steps = self._run()

    def __iter__(self) -> Iterator[Met]:
        return self._steps

    def _run(self) -> Iterator[Met]:
        env = self.env
        sizes = {**self.sub.sizes, **bind_dims({t: a.shape for t, a in env.items()})}
        for node in self.sub.nodes:
            if node.outputs[0] in env:
                continue
            if isinstance(node.op, Constant):
                env[node.outputs[0]] = node.graph.values.array(node.name)
                continue
            op = node.op.for_mode(self.training).bind(sizes)
            xs = [None if t is None else env[t] for t in node.inputs]
            with np.errstate(all="ignore"):
                ys = self._edited(node, run_node(node, op, xs, training=self.training))
            env.update(zip(node.outputs, ys, strict=True))
            yield Met(self.at.into(node.name, self.part), node, op, xs, ys)

    def _edited(self, node: Node, ys: Sequence[Any]) -> tuple[Any, ...]:
        if not self._edits:
            return tuple(ys)
        at = self.at.into(node.name, self.part)
        return tuple(self._edits.get((at, k), y) for k, y in enumerate(ys))

    def results(self) -> list[Array]:
        """Run what has not run yet, and return the values of the outputs."""
        for _ in self._steps:
            pass
        return [self.env[t] for t in self.sub.outputs]


def opened(
    op: Op,
    xs: Sequence[Array | None],
    at: Address,
    *,
    training: bool = False,
    edits: Edits = NO_EDITS,
) -> Iterator[Opened]:
    """Yield what runs inside of a node: one sub-graph, or those of all turns, one by one.

    ``op`` has its mode and sizes settled, ``xs`` are its inputs, ``at`` is where it stands. A turn
    need not be gone through before the next is asked for. Primitive ops have nothing inside. What
    was set by hand has that value.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (3,))
    >>> total, _ = gw.scan(lambda c, v: (c * v, None), 1.0, x, name="scan")
    >>> for turn in opened(total.op, [np.float32(1.0), np.array([2, 3, 4], "f4")], Address("scan")):
    ...     print([f"{met.address} = {met.outputs[0]}" for met in turn])
    ['scan:0:mul = 2.0']
    ['scan:1:mul = 6.0']
    ['scan:2:mul = 24.0']
    """
    inside = Inside(op, xs)
    while inside.sub is not None:
        level = Opened(at, inside, training, edits)
        yield level
        inside.take(level.results())
