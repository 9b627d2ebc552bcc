"""Moving: one node forwards or back, into what has an inside and out of it, turn by turn; edits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import GradwrightError, GraphError
from ...graph import Graph, Node, Tensor, coerce
from ...spec import spec_of
from ..address import Part
from ..arguments import WHOLE
from ..inside import Inside
from .breakpoints import Breakpoint
from .frame import Frame
from .levels import no_part
from .turns import changes
from .watching import Watching


@dataclass(frozen=True)
class Stop:
    """Why a run stopped, and where.

    ``reason`` is ``end``, ``breakpoint``, ``target``, ``error``, or ``stopped`` if it was asked to.
    ``path`` is the address of the node.
    """

    reason: str
    node: Node | None = None
    breakpoint: Breakpoint | None = None
    error: Exception | None = None
    path: str = ""

    def __repr__(self) -> str:
        place = f" at {self.path!r}" if self.path else ""
        detail = f" by {self.breakpoint}" if self.breakpoint else ""
        return f"<Stop: {self.reason}{place}{detail}{f': {self.error}' if self.error else ''}>"


class Moving(Watching):
    """Watching, and single moves; edits take effect with the next one."""

    def __init__(self, graph: Graph, fetches: list[Tensor], frame: Frame) -> None:
        super().__init__(graph, fetches, frame)
        self.last_stop: Stop | None = None
        """How the last move ended, if it was a run or an op failed."""
        self.revision = 0
        """Grows whenever values change that were seen before: with edits and reruns."""
        self._pending: dict[Tensor, list[Node]] = {}

    # -- moving ----------------------------------------------------------------------------------

    @changes
    def step(self, n: int = 1) -> Node | None:
        """Run ``n`` nodes of this level; from its end go to the next turn, or the level above."""
        WHOLE.check(n=n)
        for _ in range(n):
            self._begin()
            if self.current is None:
                if self.depth == 0:
                    break
                self._leave_or_turn()
            else:
                self._forward()
                if self.current is None and self.depth:
                    self._leave_or_turn()
        return self.current

    @changes
    def back(self, n: int = 1) -> Node | None:
        """Go back ``n`` nodes; from the start of a turn into the one before it, or out."""
        WHOLE.check(n=n)
        for _ in range(n):
            self._begin()
            if self.frame.position > 0:
                self.frame.backward()
            elif self.depth and len(self.frame.turns) > 1:
                self._turn_back(self.frame.turns[-2])
                self.frame.position = max(0, self.frame.position - 1)
            elif self.depth:
                self._leave()
            else:
                break
        return self.current

    @changes
    def reset(self) -> None:
        """Go back to before the first node; edits stay."""
        self._begin()
        while self.depth:
            self._leave()
        self.frame.position = 0

    @changes
    def into(self) -> Node | None:
        """Step into the current node: a composite, a call, the branch taken, a loop's first turn.

        Raises GraphError where there is nothing inside.
        """
        self._begin()
        node = self.current
        if node is None:
            raise GraphError("everything has run", hint="back() first")
        inside = self._inside(node)
        if inside.sub is None:
            error = no_part(self.path, inside, None)
            error.hint = "step()"
            raise error
        self._enter(node, inside)
        return self.current

    @changes
    def out(self) -> Node | None:
        """Finish what is around, all turns of a loop, and return to the level above, after it."""
        depth = self.depth
        if not depth:
            raise GraphError("already at the graph itself")
        self._begin()
        while self.depth == depth:
            while self.frame.current is not None:
                self._forward()
            self._leave_or_turn()
        return self.current

    def _leave_or_turn(self) -> None:
        """Go on from the end of a level: to the next turn, else to what comes after the node."""
        inner, inside = self.frame, self.frame.inside
        outer = self._frames[-2]
        node = outer.steps[outer.position]
        assert inside is not None
        if inner.overrides:
            inner.edited[inside.part] = inner
        try:
            inside.take([inner.value(t) for t in inner.outputs])
        except GradwrightError as error:  # the turn has changed a carry's shape
            inner.inside, path = inside.back_to(inside.part), outer.path(node)
            error.met_at(node.op.name, path, node.where)
            self.last_stop = Stop("error", node, error=error, path=path)
            raise
        if inside.sub is not None:
            self._turn_to(inside)
            return
        self._leave()
        if inner.edited:  # what was edited inside is an edit of the results here
            outer.keep_edits(node, inner.edited.values())
            for t, y in zip(node.outputs, inside.outputs, strict=True):
                self._pending[t] = outer.override(t, y)
        outer.finish_with(inside.outputs)

    def _turn_back(self, part: Part) -> None:
        """Go to the end of a turn that has run: as it was where it was edited, else run again."""
        inner = self.frame
        assert inner.inside is not None
        self._turn_to(inner.inside.back_to(part), inner.edited.get(part))
        while self.current is not None:
            self._forward()

    def _turn_to(self, inside: Inside, held: Frame | None = None) -> None:
        """Take the level of another turn for this one; what was edited in it is so again."""
        inner, outer = self._frames.pop(), self.frame
        if held is None:
            self._enter(outer.steps[outer.position], inside)
            before = inner.edited.get(inside.part)
            for t, array in before.overrides.items() if before is not None else ():
                self.frame.override(t, array)
        else:
            self._frames.append(held)
        self.frame.inside, self.frame.edited = inside, inner.edited
        self.frame.executed = inner.executed

    def _leave(self) -> None:
        """Go to the level above; edits inside that were not run yet go with this one."""
        self._pending = {}
        inner = self._frames.pop()
        self.frame.executed += inner.executed

    def _begin(self) -> None:
        self.last_stop = None
        self._settle_edits()

    def _forward(self) -> None:
        node = self.frame.steps[self.frame.position]
        try:
            self.frame.forward()
        except Exception as error:
            self._fail(error, node)
            raise

    def _fail(self, error: Exception, node: Node) -> None:
        self.last_stop = Stop("error", node, error=error, path=self.frame.path(node))

    # -- editing ---------------------------------------------------------------------------------

    @changes
    def edit(self, name: str | Tensor, value: Any) -> list[str]:
        """Replace a value; returns the names of the nodes that depend on it.

        Placeholders, variables and activations can be edited; the graph's own values stay. The
        new value takes effect with ``rerun()``, or with the next move. Editing what belongs to a
        level above goes back to there.
        """
        frame, t = self._find(name)
        if frame not in self._frames:
            raise GraphError(f"{name!r} is not in a level where we are", hint=f"run_to({name!r})")
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
            self.last_stop = Stop("error", self.current, error=error, path=self.path)
            raise

    def _settle_edits(self) -> None:
        if self._pending:
            self.rerun()
