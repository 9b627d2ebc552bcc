"""Values and breakpoints that were set on a page, listed so that they can be taken back."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwright.debug import Breakpoint

from ...drawing.values import ranges
from ...host.desk import GraphDesk
from ...host.typed import parse_index, parse_number, parse_value
from .facts import span_text

if TYPE_CHECKING:
    from .panel import StepPanel


def edit_by_hand(panel: StepPanel, content: dict[str, Any]) -> None:
    """Replace a value, its elements at an index, or scale it, as a page asks."""
    name, how = str(content.get("name")), content.get("how")
    value = parse_value(str(content.get("value", "")))
    typed = str(content.get("index", "")) if how == "element" else ""
    index = parse_index(typed)
    stepper = panel.stepper
    before = stepper.value(name)
    panel.walk.edit(name, value, index, parse_number(value) if how == "scale" else None)
    held = weakref.ref(panel)

    def undo(desk: GraphDesk) -> None:
        if (stands := held()) is not None:
            stands.walk.edit(name, before, (), None)
            stands.walk.attempt(stands.walk.rerun)

    at = f"[{typed.strip().removeprefix('[').removesuffix(']')}]" if index else ""
    was, now = _briefly(before), _briefly(stepper.value(name))
    note = panel.desk.changes.note
    note(f"value {name}", name + at, was, now, undo, owner=stepper, exact=False)


def note_stop(panel: StepPanel, made: Breakpoint) -> None:
    """List a breakpoint, which stays when the stepper begins anew."""
    held, number = weakref.ref(panel), made.number

    def undo(desk: GraphDesk) -> None:
        stepper = None if (stands := held()) is None else stands.walk.stepper
        if stepper is not None and any(b.number == number for b in stepper.breakpoints):
            stepper.clear(number)

    text = str(made).partition(" ")[2]
    panel.desk.changes.note(f"stop {number}", "stop at", "", text, undo, owner=panel)


def _briefly(array: np.ndarray[Any, Any]) -> str:
    """Return a value in a word or two."""
    return f"{array.item():.4g}" if array.size == 1 else span_text(ranges(array))
