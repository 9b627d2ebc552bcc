"""Stepper: runs a graph node by node, forwards and backwards, into composites and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..containers import to_python
from ..control import Cond, LoopOp, unrolled
from ..errors import GraphError
from ..graph import Graph, Node, SubGraph, Tensor, Values, ancestors, coerce, expansion, read_only
from ..op import OPS
from ..session import as_feed
from ..spec import BOXED, known_spec, spec_of
from .breakpoints import Breakpoint, fits_within, make_breakpoint
from .expression import Expression
from .frame import Frame
from .nonfinite import Origin, find_origin
from .turns import Turns, changes

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Stop:
    """Why a run stopped, and where.

    ``reason`` is ``end``, ``breakpoint``, ``target``, ``error``, or ``stopped`` if it was asked to.
    """

    reason: str
    node: Node | None = None
    breakpoint: Breakpoint | None = None
    error: Exception | None = None

    def __repr__(self) -> str:
        place = f" at {self.node.name!r}" if self.node is not None else ""
        detail = f" by {self.breakpoint}" if self.breakpoint else ""
        return f"<Stop: {self.reason}{place}{detail}{f': {self.error}' if self.error else ''}>"


class Stepper(Turns):
    """Executes what ``fetches`` need, one node at a time, and keeps every value at hand.

    It works on a snapshot: neither stepping nor editing changes the graph's values. Nodes of the
    user's layer come first, then gradients. Memory beyond ``max_bytes`` is saved by keeping
    checkpoints; going back then re-executes at most √n ops. One thread moves at a time: another
    that tries meanwhile gets a GraphError.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (2,))
    >>> y = (gw.exp(x, name="e") * 3.0).sum(name="y")
    >>> s = gw.Stepper(g, fetches=[y], feeds={"x": [0.0, 0.0]})
    >>> _ = s.break_at(op="sum")
    >>> s.run()
    <Stop: breakpoint at 'y' by #1 op sum>
    >>> s.edit("e", [1.0, 3.0])
    ['mul', 'y']
    >>> s.rerun(), s.value("mul").tolist()
    (1, [3.0, 9.0])
    """

    def __init__(
        self,
        graph: Graph,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        *,
        training: bool = False,
        values: Values | None = None,
        seed: int = 0,
        step: int = 0,
        max_bytes: int = 1 << 30,
    ) -> None:
        chosen = list(fetches) if isinstance(fetches, (list, tuple)) else [fetches]
        super().__init__()
        self.last_stop: Stop | None = None
        """How the last move ended, if it was a run or an op failed."""
        self.revision = 0
        """Grows whenever values change that were seen before: with edits and reruns."""
        self.graph = graph
        self.fetches = [graph[f] if isinstance(f, str) else graph.check_member(f) for f in chosen]
        self.training, self._max_bytes = training, max_bytes
        snapshot = (graph.values if values is None else values).snapshot()
        given = {self._tensor(k): v for k, v in (feeds or {}).items()}
        arrays = {t: as_feed(t, v) for t, v in given.items()}
        if "rng" in graph:
            arrays.setdefault(graph.rng, np.array([seed, step], np.uint64))
        order = _forward_first(ancestors(self.fetches, stop=arrays))
        for node in order:
            if node.kind in ("variable", "constant"):
                arrays.setdefault(node.outputs[0], snapshot.array(node.name))
        self.breakpoints: list[Breakpoint] = []
        self._watches: dict[str, Expression] = {}
        self._pending: dict[Tensor, list[Node]] = {}
        self._numbers = 0
        self._frames = [
            Frame("", order, arrays, self.fetches, training=training, max_bytes=max_bytes)
        ]

    def __repr__(self) -> str:
        place = "at the end" if self.current is None else f"before {self.path!r}"
        return f"<Stepper of graph {self.graph.name!r}: {place}>"

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

    # -- moving ----------------------------------------------------------------------------------

    @changes
    def step(self, n: int = 1) -> Node | None:
        """Run ``n`` nodes of this level; at the end of a composite return to the level above."""
        for _ in range(n):
            self._begin()
            if self.current is None:
                if self.depth == 0:
                    break
                self.out()
            else:
                self._forward()
                if self.current is None and self.depth:
                    self.out()
        return self.current

    @changes
    def back(self, n: int = 1) -> Node | None:
        """Go back ``n`` nodes; from the start of a composite to before it."""
        for _ in range(n):
            self._begin()
            if self.frame.position > 0:
                self.frame.backward()
            elif self.depth:
                self._leave()
        return self.current

    @changes
    def run(self, *, stop: Callable[[], bool] | None = None) -> Stop:
        """Run to the next breakpoint, an error, or the end.

        A composite is entered if a breakpoint fits a node inside that does not fit the composite
        itself. ``stop()`` is asked before every op whether to stop there.
        """
        return self._run(None, stop)

    @changes
    def run_to(
        self, target: str | Tensor | Node, *, stop: Callable[[], bool] | None = None
    ) -> Stop:
        """Run until ``target`` is the next node to run; goes back if it has run already."""
        node = target if isinstance(target, Node) else self._find(target)[1].node
        if node not in self.frame.index:
            raise GraphError(
                f"{node.name!r} does not run here",
                hint="fetch something that depends on it, or out() of this composite first",
            )
        while self.frame.position > self.frame.index[node]:
            self.back()
        return self._run(node, stop)

    @changes
    def reset(self) -> None:
        """Go back to before the first node; edits stay."""
        self._begin()
        while self.depth:
            self._leave()
        self.frame.position = 0

    @changes
    def into(self) -> Node | None:
        """Step into the current node: a composite's expansion, or the branch that a cond takes."""
        self._begin()
        node = self.current
        if node is None:
            raise GraphError("everything has run", hint="back() first")
        if not self._enter(node):
            raise GraphError(
                f"{node.op.name} {node.name!r} is primitive: there is nothing inside", hint="step()"
            )
        return self.current

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
                max_bytes=self._max_bytes,
                sizes=inner.sizes,
            )
        )
        return True

    @changes
    def out(self) -> Node | None:
        """Finish this composite and return to the level above, after it."""
        if not self.depth:
            raise GraphError("already at the graph itself")
        self._begin()
        inner = self.frame
        while inner.current is not None:
            self._forward()
        ys = [inner.value(t) for t in inner.outputs]
        self._leave()
        node = self.frame.steps[self.frame.position]
        if inner.overrides:  # what was edited inside is an edit of the results here
            for t, y in zip(node.outputs, ys, strict=True):
                self._pending[t] = self.frame.override(t, y)
        self.frame.finish_with(ys)
        return self.current

    def _leave(self) -> None:
        """Go to the level above; edits inside that were not run yet go with this one."""
        self._pending = {}
        inner = self._frames.pop()
        self.frame.executed += inner.executed

    @changes
    def into_gradient(
        self,
        of: str | Tensor | Node | None = None,
        *,
        stop: Callable[[], bool] | None = None,
    ) -> Stop:
        """Run to the first gradient node, or to the first one that belongs to the node ``of``.

        What is no op, such as a parameter, gets its gradient from the ops that it goes into.
        """
        while self.depth:
            self._leave()
        origin = None if of is None else of if isinstance(of, Node) else self._find(of)[1].node
        derived = [node for node in self.frame.steps if node.derived]
        if not derived:
            raise GraphError(
                "the fetches hold no gradient",
                hint="Stepper(g, fetches=[loss, *gw.gradients(loss, [w])])",
            )
        if origin is None:
            return self.run_to(derived[0], stop=stop)
        users = [user for t in origin.outputs for user in t.uses]
        around = [origin] if origin.kind == "array" else users
        for node in derived:
            if node.origin in around:
                return self.run_to(node, stop=stop)
        raise GraphError(
            f"no gradient goes through {origin.name!r} here",
            need="a node on the way from a parameter to the loss",
        )

    def _begin(self) -> None:
        self.last_stop = None
        self._settle_edits()

    def _forward(self) -> None:
        node = self.frame.steps[self.frame.position]
        try:
            self.frame.forward()
        except Exception as error:
            self.last_stop = Stop("error", node, error=error)
            raise

    def _run(self, target: Node | None, stop: Callable[[], bool] | None = None) -> Stop:
        try:
            self._begin()
            found = self._run_until(target, stop)
        except Exception:
            if self.last_stop is None:  # not an op's error
                raise
            found = self.last_stop
        self.last_stop = found
        return found

    def _run_until(self, target: Node | None, stop: Callable[[], bool] | None) -> Stop:
        standing = True  # the breakpoint where we stand has stopped us before
        while (node := self.current) is not None or self.depth:
            if node is None:
                self.out()
                node = self.frame.steps[self.position - 1]
            else:
                if node is target:
                    return Stop("target", node)
                if stop is not None and stop():
                    return Stop("stopped", node)
                b = next((b for b in self._here(node) if not b.is_conditional), None)
                if b is not None and not standing:
                    b.hits += 1
                    return Stop("breakpoint", node, b)
                standing = False
                if self._is_to_enter(node):
                    self._enter(node)
                    continue
                self._forward()
            for b in self._here(node):
                if b.is_conditional and self._fits(b, node):
                    b.hits += 1
                    return Stop("breakpoint", node, b)
        return Stop("end")

    def _here(self, node: Node) -> list[Breakpoint]:
        path = self._path(node)
        return [b for b in self.breakpoints if b.fits_place(node, path)]

    def _is_to_enter(self, node: Node) -> bool:
        path = self._path(node)
        inward = [b for b in self.breakpoints if b.points_into(node, path)]
        try:
            found = self._inside(node) if inward else None
        except GraphError:  # a loop of too many steps to walk through
            return False
        return found is not None and fits_within(inward, found[0], path)

    def _fits(self, b: Breakpoint, node: Node) -> bool:
        tensors = _Lookup(self)
        return any(b.fits_value(read_only(self.frame.value(t)), tensors) for t in node.public)

    # -- breakpoints and watches -----------------------------------------------------------------

    @changes
    def break_at(
        self,
        name: str | None = None,
        *,
        op: str | None = None,
        scope: str | None = None,
        regex: str | None = None,
        nan: bool = False,
        inf: bool = False,
        above: float | None = None,
        when: str | Expression | None = None,
    ) -> Breakpoint:
        """Stop where all given places fit and, if conditions are given, one of them holds.

        ``name`` is a pattern such as ``"hidden/*"``; ``above`` bounds |max|; ``when`` is an
        expression such as ``"abs(value).mean() > 3"`` (see :class:`Expression`).
        """
        made = make_breakpoint(
            self._numbers + 1,
            {n.op.name for n in self.frame.steps} | set(OPS),
            [n.name for n in self._frames[0].steps],
            name=name,
            op=op,
            scope=scope,
            regex=regex,
            nan=nan,
            inf=inf,
            above=above,
            when=when,
        )
        self._numbers += 1
        self.breakpoints.append(made)
        return made

    @changes
    def clear(self, breakpoint: Breakpoint | int | None = None) -> None:
        """Remove one breakpoint, or all."""
        number = breakpoint.number if isinstance(breakpoint, Breakpoint) else breakpoint
        self.breakpoints = [b for b in self.breakpoints if number not in (None, b.number)]

    @changes
    def watch(self, expression: str) -> Expression:
        """Add an expression to ``watches()``."""
        parsed = Expression(expression)
        for name in parsed.tensors:
            self._find(name)
        self._watches[expression] = parsed
        return parsed

    @changes
    def unwatch(self, expression: str) -> None:
        """Remove a watch."""
        self._watches.pop(expression, None)

    @property
    def watched(self) -> list[str]:
        """The expressions that are watched."""
        return list(self._watches)

    def watches(self) -> dict[str, Any]:
        """Return the value of every watch here; None where something is not computed yet."""
        return {text: self.evaluate(parsed) for text, parsed in self._watches.items()}

    def evaluate(self, expression: str | Expression) -> Any:
        """Return an expression's value here, or None while a tensor in it is not computed yet."""
        parsed = Expression(expression) if isinstance(expression, str) else expression
        for name in parsed.tensors:
            frame, t = self._find(name)
            if not frame.is_known(t):
                return None
        return parsed.evaluate(_Lookup(self))

    @changes
    def find_nonfinite(self, *, stop: Callable[[], bool] | None = None) -> Origin | None:
        """Run to the end and return the first origin of a NaN or Inf, forward or backward.

        An Inf that a feed or a constant holds, as a mask does, is an origin only if it reaches a
        fetch. Returns None, too, if ``stop()`` ended the run; ``last_stop`` then says so.
        """
        while self.depth:
            self._leave()
        held, self.breakpoints = self.breakpoints, []
        try:
            ended = self._run(None, stop)
        finally:
            self.breakpoints = held
        if ended.error is not None:
            raise ended.error
        return None if ended.reason == "stopped" else find_origin(self.frame, self.fetches)

    # -- editing ---------------------------------------------------------------------------------

    @changes
    def edit(self, name: str | Tensor, value: Any) -> list[str]:
        """Replace a value; returns the names of the nodes that depend on it.

        Placeholders, variables and activations can be edited; the graph's own values stay. The
        new value takes effect with ``rerun()``, or with the next move. Editing what belongs to a
        level above goes back to there.
        """
        frame, t = self._find(name)
        held = frame.value(t)
        array = coerce(value, spec_of(held), f"{t.kind} {t.name!r}").copy()
        while self.frame is not frame:
            self._leave()
        self._pending[t] = frame.override(t, array)
        self.revision += 1
        return [n.name for n in self._pending[t]]

    @property
    def pending(self) -> list[Node]:
        """The nodes that had run, depend on an edit, and wait for ``rerun()`` or the next move."""
        affected = {n for nodes in self._pending.values() for n in nodes}
        return [n for n in self.frame.steps[: self.position] if n in affected]

    @changes
    def rerun(self) -> int:
        """Run again exactly the nodes that depend on the edits and had run; returns how many."""
        pending, self._pending = self._pending, {}
        affected = {n for nodes in pending.values() for n in nodes}
        order = sorted(affected, key=self.frame.index.__getitem__)
        self.revision += 1
        try:
            return self.frame.rerun(pending, order)
        except Exception as error:
            self.last_stop = Stop("error", self.current, error=error)
            raise

    def _settle_edits(self) -> None:
        if self._pending:
            self.rerun()

    # -- other runs ------------------------------------------------------------------------------

    def copy(self) -> Stepper:
        """Return a stepper at the start of the same run, with the edits made at the graph's level.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> s = gw.Stepper(g, gw.exp(g.constant(0.0), name="y"))
        >>> again = s.copy()
        >>> _ = again.run()
        >>> float(again.value("y")), s.position
        (1.0, 0)
        """
        made = object.__new__(Stepper)
        made.__dict__.update(self.__dict__)
        Turns.__init__(made)
        made.last_stop, made._pending = None, {}
        made.breakpoints, made._watches = [], {}
        made._frames = [self._frames[0].copy()]
        return made

    def adopt(self, other: Stepper) -> None:
        """Take over the breakpoints and watches of another stepper of this graph."""
        self.breakpoints, self._numbers = list(other.breakpoints), other._numbers
        self._watches = dict(other._watches)

    # -- names -----------------------------------------------------------------------------------

    def _path(self, node: Node) -> str:
        return f"{self.frame.label}/{node.name}" if self.frame.label else node.name

    def _tensor(self, key: Any) -> Tensor:
        return self.graph[key] if isinstance(key, str) else self.graph.check_member(key)

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


class _Lookup(Mapping[str, Any]):
    """Tensors of a stepper by name, computed when asked."""

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper

    def __getitem__(self, name: str) -> Any:
        return self._stepper.value(name)

    def __iter__(self) -> Iterator[str]:
        return (n.name for n in self._stepper.nodes())

    def __len__(self) -> int:
        return len(self._stepper.nodes())


def _forward_first(order: Sequence[Node]) -> list[Node]:
    """Put the user's nodes before gradients, unless the user built on gradients.

    Gradients stand as they were built, from the loss back to the parameters.
    """
    mixed = any(t is not None and t.node.derived for n in order if not n.derived for t in n.inputs)
    return list(order) if mixed else sorted(order, key=lambda n: n.derived and n.serial + 1)
