"""Levels: the graph and the composites that were stepped into, and what names mean there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError
from ...graph import Graph, Node, SubGraph, Tensor, Values, ancestors, expansion, read_only
from ...ops.control.branch import Cond
from ...ops.control.loop_op import LoopOp
from ...ops.control.unroll import unrolled
from ...session import as_feed
from ...spec import BOXED, known_spec
from ...spec.containers import to_python
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
        """The innermost level: the graph, or a composite that was stepped into."""
        return self._frames[-1]

    @property
    def levels(self) -> tuple[Frame, ...]:
        """The graph and the composites that were stepped into, outermost first."""
        return tuple(self._frames)

    @property
    def depth(self) -> int:
        """How many composites deep we are; 0 in the graph itself."""
        return len(self._frames) - 1

    @property
    def current(self) -> Node | None:
        """The node that runs next."""
        return self.frame.current

    @property
    def path(self) -> str:
        """Full name of the current node, such as ``layer_norm/mean`` inside a composite."""
        return self._path(self.current) if self.current is not None else ""

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
        """Return the value of a tensor that is known here (read-only); names inside count, too."""
        frame, t = self._find(name)
        return read_only(frame.value(t))

    def tensor(self, name: str) -> Tensor:
        """Return the tensor that a name means here: of this level first, then of those above."""
        return self._find(name)[1]

    def results(self) -> list[Array]:
        """Return the fetched values, once everything has run."""
        found = [self.value(t) for t in self.fetches]
        return [to_python(a) if a.dtype == BOXED else a for a in found]

    # -- inside ----------------------------------------------------------------------------------

    def _inside(self, node: Node) -> tuple[SubGraph, list[Array]] | None:
        """Return what the next node stands for and its inputs; None for a primitive."""
        op = self.frame.op(node)
        if isinstance(op, Cond):
            pred, *captured = self.frame.inputs(node)
            return op.chosen(pred), [x for x in captured if x is not None]
        xs = self.frame.inputs(node)
        if isinstance(op, LoopOp):
            return unrolled(op, xs), [x for x in xs if x is not None]
        if not op.is_composite():
            return None
        inner = expansion(op, [None if x is None else known_spec(x) for x in xs])
        return inner, [x for x in xs if x is not None]

    def _enter(self, node: Node) -> bool:
        """Step into what the next node stands for; False for a primitive."""
        found = self._inside(node)
        if found is None:
            return False
        inner, arrays = found
        self._frames.append(
            Frame(
                self._path(node),
                inner.nodes,
                dict(zip(inner.inputs, arrays, strict=True)),
                inner.outputs,
                training=self.training,
                max_bytes=self.frame.max_bytes,
                sizes=inner.sizes,
            )
        )
        return True

    # -- names -----------------------------------------------------------------------------------

    def _path(self, node: Node) -> str:
        return f"{self.frame.label}/{node.name}" if self.frame.label else node.name

    def _find(self, name: str | Tensor) -> tuple[Frame, Tensor]:
        """Return the frame and tensor that a name means: this level first, then those above."""
        if isinstance(name, Tensor):
            for frame in reversed(self._frames):
                if name.node in frame.index or frame.is_known(name):
                    return frame, name
            raise GraphError(f"{name.name!r} does not run here")
        for frame in reversed(self._frames):
            short = name.removeprefix(frame.label + "/") if frame.label else name
            head, _, tail = short.rpartition(":")
            numbered = head and tail.isdecimal() and len(tail) < 10
            base, index = (head, int(tail)) if numbered else (short, 0)
            for node in frame.steps if frame.label else ():
                if node.name == base and index < len(node.outputs):
                    return frame, node.outputs[index]
        found = self.graph[name]
        return self._frames[0], found


def member(graph: Graph, key: str | Tensor) -> Tensor:
    """Return the tensor of this graph that is meant, by its name or itself."""
    return graph[key] if isinstance(key, str) else graph.check_member(key)


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
    given = {member(graph, name): value for name, value in feeds.items()}
    arrays = {t: as_feed(t, value) for t, value in given.items()}
    if "rng" in graph:
        arrays.setdefault(graph.rng, np.array(key, np.uint64))
    order = _forward_first(ancestors(fetches, stop=arrays))
    for node in order:
        if node.kind in ("variable", "constant"):
            arrays.setdefault(node.outputs[0], snapshot.stored(node))
    return Frame("", order, arrays, fetches, training=training, max_bytes=max_bytes)


def _forward_first(order: Sequence[Node]) -> list[Node]:
    """Put the user's nodes before gradients, unless the user built on gradients.

    Gradients stand as they were built, from the loss back to the parameters.
    """
    mixed = any(t is not None and t.node.derived for n in order if not n.derived for t in n.inputs)
    return list(order) if mixed else sorted(order, key=lambda n: n.derived and n.serial + 1)
