"""Every error gradwright raises, and the user's line it points to.

A message has four parts: what is wrong and where, what came in, what was needed, what to try::

    ShapeError: matmul 'scores': inner dimensions differ
      a : f32[8, 64] from 'q' (model.py:3)
      b : f32[8, 64] from 'k' (model.py:4)
      need: a.shape[-1] == b.shape[-2], got 64 and 8
      try:  a @ b.mT
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any, Self

Site = tuple[CodeType, int]
"""Where the user asked for something: code object and line number, formatted only when shown."""

_OWN = {"gradwright", "gradwright_widgets", "gradwright_kernels", "traitlets", "ipywidgets"}
_OWN |= {"contextlib"}  # between us and who calls what a context manager decorates
_HOSTS = {"threading", "ipykernel", "asyncio", "tornado"}
"""Below these frames nobody has written a line for us: a button was pressed, a thread works."""


def user_site() -> Site | None:
    """Return the innermost line outside gradwright, 0.3 us and up, by depth; None without one."""
    frame = user_frame()
    return None if frame is None else (frame.f_code, frame.f_lineno)


def user_frame() -> FrameType | None:
    """Return the innermost frame outside gradwright, which has asked for what goes on."""
    frame = sys._getframe(1)
    while frame is not None:
        name: str = frame.f_globals.get("__name__", "").partition(".")[0]
        if name in _HOSTS:
            return None
        if name not in _OWN:
            return frame
        frame = frame.f_back  # type: ignore[assignment]
    return None


def describe_site(site: Site | None) -> str:
    """Format a site as ``cell 12, line 3`` in a notebook and ``model.py:3`` elsewhere."""
    if site is None:
        return ""
    filename, line = site[0].co_filename, site[1]
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    cells = getattr(getattr(shell, "compile", None), "_filename_map", {})
    if filename in cells:
        return f"cell {cells[filename]}, line {line}"
    return f"{filename.replace(chr(92), '/').rpartition('/')[2]}:{line}"


def raised_at(error: BaseException) -> str:
    """Return the innermost line of the user's file in which an error came up, or ""."""
    found: Site | None = None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if found is None:
            own = frame.f_globals.get("__name__", "").partition(".")[0] in _OWN
            found = None if own else (frame.f_code, trace.tb_lineno)
        elif frame.f_code.co_filename == found[0].co_filename:
            found = frame.f_code, trace.tb_lineno
        trace = trace.tb_next
    return describe_site(found)


class GradwrightError(Exception):
    """Base of every error raised by gradwright; the message is built from its parts.

    ``problem`` is one line; ``facts`` are lines of what came in; ``need`` and ``hint`` say what was
    expected and what to try. ``where`` names the node and is added by the graph, so that an op's
    ``infer`` need not know its own name.
    """

    node: Any = None
    """The ``Node`` at fault, as the user has written it, where there is one; an error while it was
    built leaves it out of the graph, but it knows its inputs. Copies in other processes have none.
    """

    def __init__(
        self,
        problem: str,
        *,
        where: str = "",
        facts: Iterable[str] = (),
        need: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(problem)
        self.problem, self.where, self.facts = problem, where, list(facts)
        self.need, self.hint = need, hint
        self.place, self.part = "", ""
        """The address of the node in ``where``, and which turn or branch of the next one it is in.
        """

    def __reduce__(self) -> Any:
        return type(self), self.args, {**vars(self), "node": None}

    def of(self, node: Any) -> Self:
        """Say which node it is about, for who draws it; of nodes in each other, the outermost."""
        self.node = node
        return self

    def met_at(self, op: str, place: str, line: str = "") -> Self:
        """Say at which node it came up, by its op, its address and the user's line."""
        self.place, self.where = place, f"{op} {place!r}" + (f" ({line})" if line else "")
        return self

    def inside(self, node: str) -> Self:
        """Say that what it names is inside of a node: ``scan`` makes ``log`` ``scan:3:log``."""
        if self.place:
            outer = f"{node}:{self.part}:{self.place}"
            self.where = self.where.replace(repr(self.place), repr(outer), 1)
            self.place = outer
        self.part = ""
        return self

    def __str__(self) -> str:
        head = f"{self.where}: {self.problem}" if self.where else self.problem
        lines = [head, *(f"  {fact}" for fact in self.facts)]
        if self.need:
            lines.append(f"  need: {self.need}")
        if self.hint:
            lines.append(f"  try:  {self.hint}")
        return "\n".join(lines)


class GraphError(GradwrightError, ValueError):
    """A graph cannot be built or edited as asked, such as mixing tensors of two graphs."""


class ShapeError(GraphError):
    """Shapes do not fit, such as ``x @ w`` with ``x: f32[B, 3]`` and ``w: f32[4, 2]``."""


class DTypeError(GraphError):
    """Dtypes do not fit, such as ``f32[3] + int-only op``; ``gw.cast`` converts."""


class CycleError(GraphError):
    """An edit would make a node depend on itself."""


class FeedError(GraphError):
    """A placeholder is missing, unknown, or fed with a wrong dtype or shape."""


class IdError(GraphError):
    """An id, such as the number of a class or a token, is none: ``id``, at ``at`` of its array."""

    def __init__(self, what: str, id: int, at: tuple[int, ...], *, need: str, hint: str) -> None:
        super().__init__(f"{id} at {list(at)} is no {what}", need=need, hint=hint)
        self.id, self.at = id, at


class GradientError(GraphError):
    """A gradient was asked for that does not exist: unreachable, integer, or not differentiable."""


class LoweringError(GraphError):
    """A device or one of its lowerings is not available, or computed something else."""


class ContractError(LoweringError):
    """An op's ``forward`` gave another number, shape or dtype of outputs than its ``infer``."""


class UnsupportedOpError(GraphError):
    """A graph holds ops that this installation cannot run; all of them are named at once."""


class GraphBusyError(GraphError):
    """The graph is running, so the edit has to wait for the next step boundary."""


class ArchiveError(GradwrightError, ValueError):
    """A file is damaged, unsafe or newer than this version; nothing was loaded."""


class TrainingError(GradwrightError, RuntimeError):
    """Training cannot start or go on; parameters are those of the last finished step."""


class Terminated(SystemExit):
    """SIGTERM has ended a fit, after the step that was running.

    Nobody who catches errors catches it. When callbacks have been told, so that the last checkpoint
    is on the disk and a run knows its outcome, ``"terminated"``, it ends the process with status
    143, as shells report the signal.
    """

    def __init__(self) -> None:
        super().__init__(143)


class TraceError(GradwrightError, TypeError):
    """Traced code asks for what a graph cannot hold, such as a value that is not computed yet."""


class MemoryLimitError(GradwrightError, MemoryError):
    """A plan needs more memory than there is; the message names the arrays that take most."""
