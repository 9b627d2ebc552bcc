"""What a notebook does to widgets: a cell that runs again replaces those it made."""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

_apart = threading.local()
_made: dict[str, tuple[int, list[weakref.ref[Any]]]] = {}
"""Cell -> the execution in which it last made widgets, and these."""


def notebook_shell() -> Any:
    """Return IPython's shell, or None in a script."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


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
    cell = parent.get("metadata", {}).get("cellId")
    if cell is None:
        return
    count, known = _made.get(cell, (0, []))
    if count != shell.execution_count:
        for held in known:
            if (earlier := held()) is not None:
                earlier.close()
        known = []
    _made[cell] = (shell.execution_count, [*known, weakref.ref(widget)])
