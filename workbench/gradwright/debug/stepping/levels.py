"""Levels: the graph and what was stepped into, turn by turn, and what names mean there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from ...errors import GraphError
from ...graph import Graph, Node, Tensor, Values, ancestors, read_only
from ...ops.control.branch import Cond
from ...ops.control.loop_op import LoopOp
from ...spec import BOXED, TensorSpec
from ...spec.containers import to_python
from ..address import Address, Level, Part, check_turn, turns_of
from ..float64 import given
from ..inside import Edits, Inside, Opened
from .frame import Frame
from .turns import Turns

Array = np.ndarray[Any, Any]


class Levels(Turns):
    """A stack of frames, the graph's own at the bottom: where we are, and what is known there."""

    def __init__(self, graph: Graph, fetches: list[Tensor], frame: Frame) -> None:
        super().__init__()
        self.graph, self.fetches, self.training = graph, fetches, frame.training
        self._frames = [frame]

    # -- where we are ----------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        """The innermost level: the graph, or what was stepped into."""
        return self._frames[-1]

    @property
    def levels(self) -> tuple[Frame, ...]:
        """The graph and what was stepped into, outermost first."""
        return tuple(self._frames)

    @property
    def depth(self) -> int:
        """How many nodes enclose the place where we are; 0 in the graph itself."""
        return len(self._frames) - 1

    @property
    def current(self) -> Node | None:
        """The node that runs next."""
        return self.frame.current

    @property
    def path(self) -> str:
        """Address of the current node, such as ``decoder/scan:3:mul`` in a turn of a loop."""
        return "" if self.current is None else self.frame.path(self.current)

    @property
    def position(self) -> int:
        """How many nodes of this level have run."""
        return self.frame.position

    @property
    def done(self) -> bool:
        """Whether everything has run."""
        return self.depth == 0 and self.current is None

    @property
    def executed(self) -> int:
        """How many ops have run in all, re-executions included."""
        return sum(f.executed for f in self._frames)

    def nodes(self) -> list[Node]:
        """Return the nodes of this level in order of execution."""
        return list(self.frame.steps)

    def value(self, name: str | Tensor) -> Array:
        """Return the value of a tensor that is known here (read-only).

        A name means what it does in this level, or else in those above; an address such as
        ``scan:3:mul`` reaches into all that has run, and computes again what is inside.
        """
        frame, t = self._find(name)
        return read_only(frame.value(t))

    def tensor(self, name: str) -> Tensor:
        """Return the tensor that a name means here: of this level first, then of those above."""
        return self._find(name)[1]

    def is_known(self, name: str | Tensor) -> bool:
        """Tell whether ``value`` has a value; raises GraphError for what is nowhere."""
        if isinstance(name, str) and (address := address_of(name)[0]).levels:
            frame = self._level(address.levels)
            if frame is None:
                return self._has_run(address) is not None
            return frame.is_known(_tensor(frame, address, 0))
        frame, t = self._find(name)
        return frame.is_known(t)

    def spec(self, name: str) -> TensorSpec:
        """Return the spec of what a name or an address means, known or not, with sizes from here.

        Raises GraphError for what is nowhere.
        """
        address, index = address_of(name)
        if not address.levels or self._level(address.levels) is not None:
            frame, t = self._find(name)
            return frame.spec(t)
        outputs = address.find(self.graph).node.outputs
        check_turns(name, self._frames[0])
        if index >= len(outputs):
            raise GraphError(f"{str(address)!r} has {len(outputs)} outputs", need=f"no :{index}")
        return self._frames[0].spec(outputs[index])

    def results(self) -> list[Array]:
        """Return the fetched values, once everything has run."""
        found = [self.value(t) for t in self.fetches]
        return [to_python(a) if a.dtype == BOXED else a for a in found]

    # -- inside ----------------------------------------------------------------------------------

    def _inside(self, node: Node) -> Inside:
        """Return what the next node stands for."""
        return Inside(self.frame.op(node), self.frame.inputs(node))

    def _enter(self, node: Node, inside: Inside) -> None:
        """Step into what the next node stands for."""
        self._frames.append(_frame_in(self.frame, node.name, inside))

    # -- names -----------------------------------------------------------------------------------

    def _find(self, name: str | Tensor) -> tuple[Frame, Tensor]:
        """Return the frame and tensor that a name means: this level first, then those above."""
        if isinstance(name, Tensor):
            for frame in reversed(self._frames):
                if name.node in frame.index or frame.is_known(name):
                    return frame, name
            raise GraphError(f"{name.name!r} does not run here")
        address, index = address_of(name)
        if address.levels:
            frame = self._level(address.levels) or self._aside(address)
            return frame, _tensor(frame, address, index)
        for frame in reversed(self._frames[1:]):
            t = frame.tensor(address.node, index)
            if t is not None:
                return frame, t
        return self._frames[0], self.graph[name]

    def _level(self, levels: Sequence[Level]) -> Frame | None:
        """Return the level of those we are in that an address means; an open turn is this one."""
        frame = self._frames[len(levels)] if len(levels) <= self.depth else None
        return frame if frame is not None and leads(levels, frame.at) else None

    def _has_run(self, address: Address) -> tuple[Frame, Inside] | None:
        """Return what has run on the way to an address, inside of which level; None if nothing."""
        k = max(k for k, frame in enumerate(self._frames) if leads(address.levels[:k], frame.at))
        frame, (name, part) = self._frames[k], address.levels[k]
        node = frame.named(name)
        if node is None:
            address.find(self.graph)
            raise GraphError(f"{str(address)!r} does not run here", need="what fetches depend on")
        around = self._frames[k + 1].inside if k < self.depth else None
        if around is not None and self._frames[k + 1].at[-1].node == name:  # we are in it
            return (frame, around.back_to(part)) if part in around.parts[:-1] else None
        if not frame.is_known(node.outputs[0]) or (part is None and isinstance(node.op, LoopOp)):
            return None
        return frame, Inside(frame.op(node), frame.inputs(node))

    def _edits(self, frame: Frame) -> Edits:
        """Return what was edited inside of a level: in nodes that have run, and where we are."""
        inner = next((f for f in self._frames if len(f.at) == len(frame.at) + 1), None)
        found = dict(frame.edits)
        for turn in inner.edited.values() if inner is not None else ():
            found |= turn.all_edits()
        return found

    def _aside(self, address: Address) -> Frame:
        """Return the level of an address that has run, computed again beside those we are in.

        What was edited there has the value that it was given.
        """
        found = self._has_run(address)
        if found is None:
            raise GraphError(
                f"{str(address)!r} has not been computed yet",
                hint="step or run further; in a loop that has run say which turn, as scan:3:add",
            )
        frame, inside = found
        edits = self._edits(frame)
        for name, part in address.levels[len(frame.at) :]:
            node = frame.named(name)
            if node is None:
                address.find(self.graph)
                raise GraphError(f"{name!r} does not run in {frame.label!r}")
            if frame.is_known(node.outputs[0]):
                inside = Inside(frame.op(node), frame.inputs(node))
            while inside.sub is not None and part not in (None, inside.part):
                level = Opened(frame.address(node), inside, self.training, edits)
                inside.take(level.results())
            if inside.sub is None:
                raise no_part(frame.path(node), inside, part)
            frame = _frame_in(frame, name, inside)
            frame.take_edits(edits)
            while frame.current is not None:
                frame.forward()
        return frame


def leads(levels: Sequence[Level], at: Sequence[Level]) -> bool:
    """Tell whether levels of an address, which may leave parts open, are those of a place."""
    return len(levels) == len(at) and all(
        a.node == b.node and a.part in (None, b.part) for a, b in zip(levels, at, strict=True)
    )


def check_turns(text: str, frame: Frame) -> None:
    """Refuse a turn that a loop on the way of an address does not get to, as far as sizes tell.

    ``frame`` is the graph's own level. Turns after a wildcard or an open branch are not looked at.
    """
    parts = text.split(":")
    for i, part in enumerate(parts[1::2], 1):
        if part.isdecimal():
            address = Address.parse(":".join(parts[: 2 * i - 1]))
            try:
                node = address.find(frame.steps[0].graph).node
            except GraphError:
                return
            check_turn(address, int(part), turns_of(node, frame.spec))


def no_part(path: str, inside: Inside, part: Part) -> GraphError:
    """Return what says that a node has no such turn or branch in this run."""
    if isinstance(inside.op, Cond):
        return GraphError(f"{path!r} takes the branch {inside.parts[0]!r} here, not {part!r}")
    if isinstance(inside.op, LoopOp):
        return GraphError(
            f"{path!r} has no turn {part}" if part is not None else f"{path!r} makes no turn",
            facts=[f"it made {len(inside.parts)}"],
        )
    return GraphError(f"{inside.op.name} {path!r} is primitive: there is nothing inside")


def _frame_in(frame: Frame, name: str, inside: Inside) -> Frame:
    """Return the level of what runs next inside of a node of a frame."""
    assert inside.sub is not None
    made = Frame(
        (*frame.at, Level(name, inside.part)),
        inside.sub.nodes,
        dict(zip(inside.sub.inputs, inside.given, strict=True)),
        inside.sub.outputs,
        training=frame.training,
        max_bytes=frame.max_bytes,
        sizes=inside.sub.sizes,
    )
    made.inside = inside
    return made


def address_of(name: str) -> tuple[Address, int]:
    """Return the node that a tensor's name means, and which of its outputs it is."""
    if not isinstance(name, str):
        raise GraphError(f"{name!r} is no tensor", need="one, or a name or address: 'scan:3:mul'")
    head, _, last = name.rpartition(":")
    if name.count(":") % 2 and last.isdecimal() and len(last) < 10:
        return Address.parse(head), int(last)
    return Address.parse(name), 0


def _tensor(frame: Frame, address: Address, index: int) -> Tensor:
    t = frame.tensor(address.node, index)
    if t is None:
        close = get_close_matches(address.node, [n.name for n in frame.steps], 3, 0.5)
        raise GraphError(
            f"no node inside {frame.label!r} is called {address.node!r}",
            hint=" or ".join(map(repr, close)),
        )
    return t


def frame_of(
    graph: Graph,
    fetches: Sequence[Tensor],
    feeds: Mapping[Any, Any],
    *,
    training: bool,
    values: Values,
    key: tuple[int, int],
    max_bytes: int,
) -> Frame:
    """Return the frame of the graph itself, on a snapshot of values; ``key`` is (seed, step)."""
    snapshot = values.snapshot()
    arrays = given(graph, feeds)
    if "rng" in graph:
        arrays.setdefault(graph.rng, np.array(key, np.uint64))
    order = _forward_first(ancestors(fetches, stop=arrays))
    for node in order:
        if node.kind in ("variable", "constant"):
            arrays.setdefault(node.outputs[0], snapshot.stored(node))
    return Frame((), order, arrays, fetches, training=training, max_bytes=max_bytes)


def _forward_first(order: Sequence[Node]) -> list[Node]:
    """Put the user's nodes before gradients, unless the user built on gradients.

    Gradients stand as they were built, from the loss back to the parameters.
    """
    mixed = any(t is not None and t.node.derived for n in order if not n.derived for t in n.inputs)
    return list(order) if mixed else sorted(order, key=lambda n: n.derived and n.serial + 1)
