"""Stepper: runs a graph node by node, forwards and backwards, into all that has an inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import ContractError, GraphError
from ...graph import Graph, Node, Tensor, Values, member
from ...ops.control.loop_op import LoopOp
from ..address import Address
from ..arguments import BYTES, HOOK, check_run
from ..inside import Inside
from .breakpoints import held
from .frame import Frame
from .levels import address_of, check_turns, frame_of, leads, no_part
from .moving import Moving, Stop
from .nonfinite import Origin, Ran, find_origin
from .turns import changes


class Stepper(Moving):
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
        check_run("Stepper(graph, fetches, feeds)", graph, training, values, seed=seed, step=step)
        BYTES.check(max_bytes=max_bytes)
        chosen = list(fetches) if isinstance(fetches, (list, tuple)) else [fetches]
        wanted = [member(graph, f) for f in chosen]
        frame = frame_of(
            graph,
            wanted,
            {} if feeds is None else feeds,
            training=training,
            values=graph.values if values is None else values,
            key=(seed, step),
            max_bytes=max_bytes,
        )
        super().__init__(graph, wanted, frame)

    def __repr__(self) -> str:
        place = "at the end" if self.current is None else f"before {self.path!r}"
        return f"<Stepper of graph {self.graph.name!r}: {place}>"

    # -- moving ----------------------------------------------------------------------------------

    @changes
    def run(self, *, stop: Callable[[], bool] | None = None) -> Stop:
        """Run to the next breakpoint, an error, or the end.

        A node is entered if a breakpoint fits one inside that does not fit the node itself.
        ``stop()`` is asked before every op whether to stop there. An op that fails ends the run;
        one whose result is not what it declared raises ContractError.
        """
        HOOK.check(stop=stop)
        return self._run(None, stop)

    @changes
    def run_to(
        self, target: str | Tensor | Node, *, stop: Callable[[], bool] | None = None
    ) -> Stop:
        """Run until ``target`` is the next node to run; goes back if it has run already.

        It may be inside of others, as an address such as ``path`` is one: ``scan:3:mul`` is in turn
        3 of a loop, ``scan::mul`` in the turn where we are, else in the first. A mere name is the
        graph's own node, where there is one, else one of this level.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", (4,))
        >>> total, _ = gw.scan(lambda c, v: (c * v, None), 1.0, x, name="walk")
        >>> s = gw.Stepper(g, fetches=[total], feeds={"x": [1.0, 2.0, 3.0, 4.0]})
        >>> s.run_to("walk:2:mul")
        <Stop: target at 'walk:2:mul'>
        >>> float(s.value("walk:1:mul")), s.back(2) and s.path
        (2.0, 'walk:0:mul')

        Raises GraphError where it does not run: it is nowhere, or in a turn or branch not taken.
        """
        HOOK.check(stop=stop)
        address = self._target(target)
        self._begin()
        while depth := self.depth:
            at, to = self.frame.at, address.levels[:depth]
            if leads(to, at):
                break
            same = len(to) == depth and leads(to[:-1], at[:-1]) and to[-1].node == at[-1].node
            if same:  # another turn of this loop: one that has run, or one to come
                if to[-1].part in self.frame.turns:
                    self._turn_back(to[-1].part)
                break
            self._leave()
        node = self.frame.named((*(n for n, _ in address.levels), address.node)[self.depth])
        if node is not None and leads(address.levels[: self.depth], self.frame.at):
            self.frame.position = min(self.frame.position, self.frame.index[node])
        return self._run(address, stop)

    def _target(self, target: str | Tensor | Node) -> Address:
        """Return the address that is meant; raises GraphError for what does not run here."""
        if isinstance(target, str) and (address := address_of(target)[0]).levels:
            frame = self._level(address.levels)
            held = None if frame is None else frame.named(address.node)
            node = address.find(self.graph).node if held is None else held
            check_turns(target, self._frames[0])
            if self._frames[0].named(address.levels[0].node) and node.kind == "array":
                return address
        elif isinstance(target, str) and self._frames[0].named(target) is not None:
            return Address(target)
        else:
            node = target if isinstance(target, Node) else self._find(target)[1].node
            for frame in reversed(self._frames):
                if node in frame.index:
                    return frame.address(node)
        raise GraphError(
            f"{getattr(target, 'name', target)!r} does not run here",
            hint="fetch something that depends on it",
        )

    @changes
    def into_gradient(
        self,
        of: str | Tensor | Node | None = None,
        *,
        stop: Callable[[], bool] | None = None,
    ) -> Stop:
        """Run to the first gradient node, or to the first one that belongs to the node ``of``.

        What is no op, such as a parameter, gets its gradient from the ops that it goes into. ``of``
        may be an address: the gradient of ``scan:3:mul`` is in turn 3 of the gradient of ``scan``.
        """
        HOOK.check(stop=stop)
        while self.depth:
            self._leave()
        address = address_of(of)[0] if isinstance(of, str) else None
        if address is not None and address.levels:
            address.find(self.graph)
            of = address.levels[0].node
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
                at: Address | None = Address(node.name)
                if address is not None and address.levels:
                    at = gradient_inside(node, Address(node.name), address)
                if at is not None:
                    return self.run_to(str(at), stop=stop)
        raise GraphError(
            f"no gradient goes through {str(address or origin.name)!r} here",
            need="a node on the way from a parameter to the loss",
        )

    @changes
    def find_nonfinite(self, *, stop: Callable[[], bool] | None = None) -> Origin | None:
        """Run to the end and return the first origin of a NaN or Inf, forward or backward.

        It is looked for inside of loops, branches, calls and composites, too, turn by turn, with
        what was edited there and run. An Inf that a feed or a constant holds, as a mask does, is an
        origin only if it reaches a fetch. Returns None, too, if ``stop()`` ended the run;
        ``last_stop`` then says so.
        """
        HOOK.check(stop=stop)
        while self.depth:
            self._leave()
        held, self.breakpoints = self.breakpoints, []
        try:
            ended = self._run(None, stop)
        finally:
            self.breakpoints = held
        if ended.error is not None:
            raise ended.error
        if ended.reason == "stopped":
            return None
        frame = self.frame
        how = frame.training, frame.edits
        return find_origin(Ran(frame.steps, frame.value, frame.op, self.fetches, *how))

    def _run(self, target: Address | None, stop: Callable[[], bool] | None = None) -> Stop:
        try:
            self._begin()
            found = self._run_until(target, stop)
        except Exception as error:
            if self.last_stop is None or isinstance(error, ContractError):  # not an op's own
                raise
            found = self.last_stop
        self.last_stop = found
        return found

    def _run_until(self, target: Address | None, stop: Callable[[], bool] | None) -> Stop:
        standing = True  # the breakpoint where we stand has stopped us before
        while (node := self.current) is not None or self.depth:
            if node is None:
                inner, depth = self.frame, self.depth
                self._leave_or_turn()
                if self.depth == depth:  # in the next turn
                    continue
                node = self.frame.steps[self.position - 1]
                self._refuse_passing(target, inner)
            else:
                path = self.frame.path(node)
                if target is not None and target.covers(self.frame.address(node)):
                    return Stop("target", node, path=path)
                if stop is not None and stop():
                    return Stop("stopped", node, path=path)
                b = next((b for b in self._here(node) if not b.is_conditional), None)
                if b is not None and not standing:
                    b.hits += 1
                    return Stop("breakpoint", node, b, path=path)
                standing = False
                if (inside := self._to_enter(node, target)) is not None:
                    self._enter(node, inside)
                    continue
                self._forward()
            for b in self._here(node):
                if b.is_conditional and self._fits(b, node):
                    b.hits += 1
                    return Stop("breakpoint", node, b, path=self.frame.path(node))
        return Stop("end")

    def _to_enter(self, node: Node, target: Address | None) -> Inside | None:
        """Return what the next node stands for, if what is looked for may be inside."""
        depth = self.depth
        if target is None or len(target.levels) <= depth or target.levels[depth].node != node.name:
            return self._stops_inside(node)
        if not leads(target.levels[:depth], self.frame.at):
            return self._stops_inside(node)
        inside, part = self._inside(node), target.levels[depth].part
        turns = isinstance(inside.op, LoopOp)
        if inside.sub is None or (part not in (None, inside.part) and not turns):
            raise no_part(self.frame.path(node), inside, part)
        return inside

    def _refuse_passing(self, target: Address | None, inner: Frame) -> None:
        """Raise GraphError where a loop has ended that a target should have been in."""
        depth = len(inner.at) - 1
        if target is None or inner.inside is None or len(target.levels) <= depth:
            return
        if leads(target.levels[:depth], inner.at[:depth]):
            name, part = target.levels[depth]
            if name == inner.at[depth].node and part not in inner.turns:
                raise no_part(self.frame.prefix + name, inner.inside, part)

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
        Moving.__init__(made, self.graph, self.fetches, self._frames[0].copy())
        made.revision = self.revision
        return made


def gradient_inside(node: Node, at: Address, of: Address) -> Address | None:
    """Return where the gradient of ``of`` begins in a gradient node that belongs to its outermost.

    In a loop's gradient the turns have the numbers of the loop's own.
    """
    depth = len(at.levels)
    wanted = (*(level.node for level in of.levels), of.node)[depth + 1]
    for text, sub in held(node):
        part = text.strip(":") or of.levels[depth].part
        for inner in sub.nodes:
            if inner.origin is None or inner.origin.name != wanted:
                continue
            here = at.into(inner.name, part)
            found = here if depth + 1 == len(of.levels) else gradient_inside(inner, here, of)
            if found is not None:
                return found
    return None
