"""What a notebook does to widgets: a cell that runs again replaces those it made."""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

_apart = threading.local()
_made: dict[str, tuple[int, list[weakref.ref[Any]]]] = {}
"""Cell -> the execution in which it last made widgets, and these."""


def notebook_shell() -> Any:
    """Return IPython's shell, or None in a script."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def _cell(parent: dict[str, Any]) -> str | None:
    """Return the cell that a request to run comes from; only front ends that show cells say so."""
    found: str | None = parent.get("metadata", {}).get("cellId")
    return found


def is_executed() -> bool:
    """Tell whether a notebook is run with nobody in front of it, as nbconvert and Sphinx do."""
    shell = notebook_shell()
    return shell is not None and _cell(getattr(shell, "get_parent", dict)()) is None


def after_each_cell(widget: Any, action: Callable[[Any], object]) -> None:
    """Call ``action(widget)`` after every cell, until the widget is closed or forgotten."""
    shell = notebook_shell()
    if shell is None:
        return
    known = weakref.ref(widget)

    def after_cell(*_: Any) -> None:
        held = known()
        if held is None or held.comm is None:
            shell.events.unregister("post_run_cell", after_cell)
        else:
            action(held)

    shell.events.register("post_run_cell", after_cell)


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Have widgets that this thread makes in the block belong to no cell, whatever runs."""
    _apart.on = True
    try:
        yield
    finally:
        _apart.on = False


def close_predecessors(widget: Any) -> None:
    """Close the widgets that this cell made when it ran before: its new output has replaced them.

    Without this they would go on following their graph and trainer, unseen.
    """
    if getattr(_apart, "on", False):
        return
    shell = notebook_shell()
    parent: dict[str, Any] = getattr(shell, "get_parent", dict)()
    if (cell := _cell(parent)) is None:
        return
    count, known = _made.get(cell, (0, []))
    if count != shell.execution_count:
        for held in known:
            if (earlier := held()) is not None:
                earlier.close()
        known = []
    _made[cell] = (shell.execution_count, [*known, weakref.ref(widget)])
