"""What the tensor view says beside a picture: the code that gives the value, or how to get one."""

from __future__ import annotations

from ...host.desk import GraphDesk
from .slicing import Index


def code_of(name: str, origin: str, index: Index) -> str:
    """Return the code that gives what is shown.

    >>> from gradwright_widgets.panels.tensor.slicing import read_index
    >>> code_of("w", "values", read_index("[0, :]", (2, 3)))
    "g.values['w'][0, :]"
    """
    head = {"values": f"g.values[{name!r}]", "stepper": f"stepper.value({name!r})"}
    whole = all(part == slice(None) for part in index.parts)
    return head.get(origin, name) + ("" if whole else str(index))


def how_to_get(desk: GraphDesk, name: str) -> str:
    """Return what to do for the value of a tensor that is not known; a stepper may be at hand."""
    found, stepped = desk.graph.get(name), desk.hears("value")
    if found is None and stepped:
        return "Select a node in the drawing to see its value here."
    if found is None:
        return "The tensor that was shown is not in its graph any more."
    what = "is fed at each run" if found.kind == "placeholder" else "is computed at each run"
    if stepped:
        return f"{name} {what}. To see its value, step to it or run the stepper."
    return f"{name} {what}. Pass the array itself: TensorView(stepper.value(...))."
