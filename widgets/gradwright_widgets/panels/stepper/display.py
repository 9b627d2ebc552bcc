"""What a panel shows of its stepper: place, values, breakpoints, watches, and how a move ended."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradwright import Node, Stepper
from gradwright.debug import Breakpoint, Stop
from gradwright.debug.stepping.frame import Frame

from ...host.wire import Message
from . import facts

if TYPE_CHECKING:
    from .panel import StepPanel

_NEAR = 24  # rows sent after a jump, before anybody asks
_MOST_STOPS = 500  # names of nodes with a breakpoint that the drawing marks


class StepDisplay:
    """Brings the traits of a panel up to date with its stepper."""

    def __init__(self, panel: StepPanel) -> None:
        self.panel = panel
        self.chosen: Node | None = None
        """The node that somebody looks at, until the stepper moves."""
        self.found: tuple[Stop, str, Node | None] | None = None
        """The end of a search for NaN and Inf, with what it found in words, and where."""
        self._levels: weakref.WeakKeyDictionary[Frame, int] = weakref.WeakKeyDictionary()
        self._numbers = itertools.count(1)
        self._stood = -1, -1, -1  # level, position and revision that were shown last
        self._marked: Any = None

    def level(self, frame: Frame) -> int:
        """Return the number under which the page knows a level."""
        if frame not in self._levels:
            self._levels[frame] = next(self._numbers)
        return self._levels[frame]

    def level_message(self, frame: Frame) -> Message:
        """Return the names of the nodes of a level."""
        return facts.level_message(self.level(frame), frame)

    def show(self, stepper: Stepper, source: str, stale: str) -> None:
        """Bring the traits up to date; ``stale`` says what has changed since the run began."""
        frame, panel = stepper.frame, self.panel
        before = self._stood
        level, position, revision = self._stood = (
            self.level(frame), frame.position, stepper.revision,
        )  # fmt: skip
        if before[0] != level:
            panel.widget.send(*self.level_message(frame))
        if before == self._stood:
            rows = panel.stepping["rows"]
        else:
            near = before[0] == level and abs(position - before[1]) <= 1
            rows = facts.rows_between(frame, position - (2 if near else _NEAR), position)
        if before[:2] != (level, position):
            self.chosen = None
        with panel.widget.hold_sync():
            panel.current = stepper.path
            panel.stepping = {
                "mode": "ready",
                "level": level,
                "crumbs": [panel.desk.graph.name, *map(facts.crumb, stepper.levels[1:])],
                "prefix": frame.prefix,
                "position": position,
                "count": len(frame.steps),
                "epoch": revision,
                "rows": rows,
                "pending": len(stepper.pending),
                "focus": self._focus(stepper),
                "source": source,
                "stale": stale,
                **self._ending(stepper),
            }
            if before[2] != revision:
                panel.desk.tell("edited")
            elif before != self._stood:
                panel.desk.tell("stepped")
            self._show_breakpoints(stepper)
            panel.watches = [facts.watch_facts(stepper, text) for text in stepper.watched]

    def _show_breakpoints(self, stepper: Stepper) -> None:
        self.panel.breakpoints = [
            {"number": b.number, "text": str(b).partition(" ")[2], "on": b.enabled, "hits": b.hits}
            for b in stepper.breakpoints
        ]
        marked = [(b.number, b.enabled) for b in stepper.breakpoints], stepper
        if marked != self._marked:
            self._marked = marked
            self.panel.stops = _stopping(stepper.levels[0].steps, stepper.breakpoints)

    def _focus(self, stepper: Stepper) -> dict[str, Any] | None:
        """Return the node that is looked at: one that was chosen, else the one that runs next."""
        frame = stepper.frame
        stop, found = stepper.last_stop, self.found
        node = self.chosen
        if node is None and stop is not None:
            node = found[2] if found is not None and found[0] is stop else stop.node
        if node is None or (node not in frame.index and (stepper.depth or node.kind == "array")):
            node = frame.current or (frame.steps[-1] if frame.steps else None)
        return None if node is None else facts.focus_facts(frame, node)

    def _ending(self, stepper: Stepper) -> dict[str, Any]:
        """Return how the last move ended, in words."""
        stop = stepper.last_stop
        if self.found is not None and self.found[0] is stop:
            return {"say": self.found[1], "tone": "stop"}
        if stop is None or stop.reason in ("target", "end"):
            return {"say": "Everything has run." if stepper.done else "", "tone": ""}
        if stop.error is None or stop.node is None:
            return {"say": facts.ending_text(stop), "tone": "stop"}
        failed = stepper.frame.index.get(stop.node, -1)
        return {"say": facts.failure_text(stop), "tone": "error", "failed": failed}


def _stopping(nodes: Sequence[Node], breakpoints: Sequence[Breakpoint]) -> list[str]:
    """Return the names of nodes that a breakpoint is at or, by its full name, inside of."""
    placed = [b for b in breakpoints if b.enabled and (b.name or b.op or b.scope or b.regex)]
    found = (
        node.name
        for node in (nodes if placed else ())
        for b in placed
        if b.fits_place(node, node.name) or (b.name or "").startswith(node.name + ":")
    )
    return list(dict.fromkeys(found))[:_MOST_STOPS]
