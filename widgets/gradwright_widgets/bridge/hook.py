"""The hook in a kernel: the comm of the side panel, and errors that are drawn below themselves.

It is light, since it is set wherever ``gradwright_widgets`` is imported, and by JupyterLab in every
Python kernel; what it needs is imported when there is something to tell: see ``between``.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from typing import Any

from ..host.cells import notebook_shell
from .between import between_cells

TARGET = "gradwright.panel"
"""The comm that a page opens."""
_drawn: weakref.ref[BaseException] | None = None
"""The latest error that was drawn."""


def install(shell: Any = None) -> bool:
    """Have a kernel answer the side panel and draw errors; False where there is none.

    >>> install()
    False
    """
    shell = notebook_shell() if shell is None else shell
    manager = getattr(getattr(shell, "kernel", None), "comm_manager", None)
    if manager is None:
        return False
    if TARGET not in manager.targets:
        manager.register_target(TARGET, _opened)
        shell.events.register("post_run_cell", _after_cell)
    return True


def _opened(comm: Any, message: Any) -> None:
    """Let a page join; where nothing of gradwright is at work, as soon as it is.

    A page opens a comm in every kernel, and to load what it needs takes a second and 40 MB.
    """
    if _is_at_work():
        _joined(comm)
        return
    waiting = Waiting(comm)
    threading.Thread(target=waiting.wait, name="gradwright side panel", daemon=True).start()


def _is_at_work() -> bool:
    """Tell whether gradwright has been imported, to its last line."""
    module = sys.modules.get("gradwright")
    return module is not None and not getattr(module.__spec__, "_initializing", False)


def _joined(comm: Any) -> Any:
    from .session import Session

    session = Session.of_kernel()
    session.join(comm)
    return session


class Waiting:
    """A page that waits until gradwright is imported, or until it asks for something."""

    EVERY = 0.3
    """Seconds between two looks."""

    def __init__(self, comm: Any) -> None:
        self._comm, self._heard = comm, list[Any]()
        self._session: Any = None
        """What has taken over."""
        self._lock, self._over = threading.Lock(), threading.Event()
        comm._reply_subshell_for = lambda data, chosen: chosen  # as of widgets: see BaseWidget.open
        comm.on_msg(self._hear)
        comm.on_close(lambda message: self._over.set())

    def wait(self) -> None:
        """Join when gradwright is imported, unless the page has gone."""
        while not self._over.wait(self.EVERY):
            if _is_at_work():
                self._join()

    def _hear(self, message: Any) -> None:
        data = message["content"]["data"]
        with self._lock:  # it may come while the session takes over
            if self._session is not None:
                self._session.receive(self._comm, data)
                return
            self._heard.append(data)
        if "id" in data:
            between_cells(self._join)  # which may be what imports gradwright

    def _join(self) -> None:
        """Have the session take over, and hear what was said meanwhile."""
        with self._lock:
            if not self._over.is_set():
                self._over.set()
                self._session = _joined(self._comm)
                for data in self._heard:
                    self._session.receive(self._comm, data)


def _after_cell(result: Any) -> None:
    """Tell the pages what the cell has made, and draw what it has failed at."""
    errors = sys.modules.get("gradwright.errors")
    error = result.error_in_exec
    if errors is not None and isinstance(error, errors.GradwrightError):
        failed(error)
    session = getattr(sys.modules.get(f"{__package__}.session"), "Session", None)
    if session is not None:  # nor half imported, by the thread of a page
        session.of_kernel().cell_ended(error)


def failed(error: BaseException) -> None:
    """Show an error of a graph as a drawing: below its traceback, when its cell has ended."""
    global _drawn
    if _drawn is not None and _drawn() is error:
        return
    _drawn = weakref.ref(error)
    from IPython import get_ipython
    from IPython.display import display

    if not hasattr(get_ipython(), "kernel"):
        return  # a terminal shows no drawing

    from .failure import Failure

    with contextlib.suppress(Exception):  # whatever a drawing lacks, the traceback stands above
        failure = Failure.of(error)
        if failure is not None:
            display(failure)  # type: ignore[no-untyped-call]
