"""Between cells: when the panel imports, so that it never does while a cell may.

Of two threads that import modules of one package, each may hold what the other needs: Python then
lets one of them have a module half made, or fails its import, and that may be the cell's. No lock
of ours could order them, since a cell imports what it likes, ipywidgets for instance. So

- threads of pages import modules of this folder alone, which no cell imports, and of these only
  those that need nothing beyond gradwright's core, which is whole by then, and what it has loaded;
- all else, what views are made of, is imported by the kernel's main thread in its event loop, where
  no import can be under way: an import never waits for the loop.
"""

from __future__ import annotations

from collections.abc import Callable

from ..host.cells import notebook_shell


def between_cells(action: Callable[[], object]) -> None:
    """Have the kernel's main thread do something when no cell holds it; at once without a kernel.

    >>> between_cells(lambda: print("now"))
    now
    """
    loop = getattr(getattr(notebook_shell(), "kernel", None), "io_loop", None)
    if loop is None:
        action()
    else:
        loop.add_callback(action)
