"""The hook in a kernel: the comm of the side panel, and errors that are drawn below themselves.

It is light, since it is set wherever ``gradwright_widgets`` is imported, and by JupyterLab in every
Python kernel; what it needs is imported when there is something to tell.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from typing import Any

TARGET = "gradwright.panel"
"""The comm that a page opens."""
_drawn: weakref.ref[BaseException] | None = None
"""The latest error that was drawn."""


def install(shell: Any = None) -> bool:
    """Have a kernel answer the side panel and draw errors; False where there is none.

    >>> install()
    False
    """
    ipython = sys.modules.get("IPython")
    if shell is None and ipython is not None:
        shell = ipython.get_ipython()
    manager = getattr(getattr(shell, "kernel", None), "comm_manager", None)
    if manager is None:
        return False
    if TARGET not in manager.targets:
        manager.register_target(TARGET, _opened)
        shell.events.register("post_run_cell", _after_cell)
    return True


def _opened(comm: Any, message: Any) -> None:
    from .session import Session

    Session.of_kernel().join(comm)


def _after_cell(result: Any) -> None:
    """Tell the pages what the cell has made, and draw what it has failed at."""
    errors = sys.modules.get("gradwright.errors")
    error = result.error_in_exec
    if errors is not None and isinstance(error, errors.GradwrightError):
        failed(error)
    session = sys.modules.get(f"{__package__}.session")
    if session is not None:
        session.Session.of_kernel().cell_ended(error)


def failed(error: BaseException) -> None:
    """Show an error of a graph as a drawing: below its traceback, when its cell has ended."""
    global _drawn
    if _drawn is not None and _drawn() is error:
        return
    _drawn = weakref.ref(error)
    from IPython.display import display

    from .failure import Failure

    with contextlib.suppress(Exception):  # whatever a drawing lacks, the traceback stands above
        failure = Failure.of(error)
        if failure is not None:
            display(failure)  # type: ignore[no-untyped-call]
