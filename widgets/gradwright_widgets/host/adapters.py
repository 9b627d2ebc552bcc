"""Adapters that are switched by a hand, wherever they are shown."""

from __future__ import annotations

import functools
from typing import Any

from gradwright.errors import GraphError, TrainingError

from ..drawing.adapters import adapters_of
from .desk import GraphDesk


def adapter_called(desk: GraphDesk, name: Any) -> Any:
    """Return the adapter of a name; raises GraphError if the graph has none."""
    found = adapters_of(desk.graph)
    if name not in found:
        raise GraphError(
            f"graph {desk.graph.name!r} has no adapter {name!r}",
            hint=f"there are {', '.join(map(repr, found))}" if found else "gw.adapters.add(...)",
        )
    return found[name]


def check_idle(desk: GraphDesk, name: str) -> None:
    """Raise TrainingError while a training runs that the adapter of a name is part of."""
    if desk.commands.busy and getattr(desk.trainer, "status", "") == "running":
        raise TrainingError(f"adapter {name!r} is being trained", hint="pause first")


def switch(desk: GraphDesk, name: str, on: bool, *, note: bool = False) -> None:
    """Switch an adapter on or off; ``note`` lists it among the changes of a hand.

    Raises GraphError if the graph has none, TrainingError while a training runs, to whose loss it
    would not belong any more.
    """
    adapted = adapter_called(desk, name)
    check_idle(desk, name)

    def command() -> None:
        desk.widget.guarded(adapted.enable if on else adapted.disable)
        desk.refresh()

    if note and adapted.is_enabled != on:
        undo = functools.partial(switch, name=name, on=not on)
        was, now = ("off", "on") if on else ("on", "off")
        desk.changes.note(f"adapter {name}", f"adapter {name}", was, now, undo)
    desk.commands.submit(command)
