"""Stepper: runs a graph node by node, forwards and backwards, into composites and gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import GraphError
from ...graph import Graph, Node, Tensor, Values, coerce
from ...spec import spec_of
from .breakpoints import Breakpoint
from .levels import frame_of, member
from .nonfinite import Origin, find_origin
from .turns import changes
from .watching import Watching


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


class Stepper(Watching):
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
        wanted = [member(graph, f) for f in chosen]
        frame = frame_of(
            graph,
            wanted,
            feeds or {},
            training=training,
            values=graph.values if values is None else values,
            key=(seed, step),
            max_bytes=max_bytes,
        )
        super().__init__(graph, wanted, frame)
        self.last_stop: Stop | None = None
        """How the last move ended, if it was a run or an op failed."""
        self.revision = 0
        """Grows whenever values change that were seen before: with edits and reruns."""
        self._pending: dict[Tensor, list[Node]] = {}

    def __repr__(self) -> str:
        place = "at the end" if self.current is None else f"before {self.path!r}"
        return f"<Stepper of graph {self.graph.name!r}: {place}>"

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
        Watching.__init__(made, self.graph, self.fetches, self._frames[0].copy())
        made.last_stop, made.revision, made._pending = None, self.revision, {}
        return made
