"""What one program of a kernel computes, line by line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl

from ..device.simulated.access import ADDRESS, MARK
from ..device.simulated.interpret import is_kernel
from .tracing import Place, Tracing

Array = np.ndarray[Any, Any]
MOST = 2_000
"""Lines that are kept; a loop may have any number of turns."""


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable of a kernel after a line has set it."""

    name: str
    kind: str
    """Its type, as ``f32[16, 64]``; "" for what is no tensor of Triton's."""
    value: Array = field(repr=False)
    """Its elements; of pointers where they point, in bytes from the start of their array."""
    argument: int | None = None
    """Into which array pointers go."""
    text: str = ""
    """What it is, where it is no number."""


@dataclass(frozen=True)
class Line:
    """A line that was run: what it set, and which accesses it made."""

    place: Place
    depth: int
    """0 in the kernel, 1 in a function that it calls."""
    changed: tuple[Variable, ...]
    accesses: tuple[int, int]
    """From which to which access of the program."""


class Lines:
    """Writes down the lines that run in a kernel, while it is the thread's trace function."""

    def __init__(self, tracing: Tracing) -> None:
        self.tracing, self._depth = tracing, 0
        self.lines: list[Line] = []
        self.codes: dict[tuple[str, int, str], None] = {}
        """File, first line and name of the functions that ran."""
        self.is_cut = False

    def record(self, run: Callable[[], None]) -> None:
        """Call a function that runs one program."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            run()
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not is_kernel(frame.f_code):
            return None
        code = frame.f_code
        self.codes[code.co_filename, code.co_firstlineno, code.co_name] = None
        depth, self._depth = self._depth, self._depth + 1
        known: dict[str, Any] = dict(frame.f_locals)
        running: tuple[int, int] | None = None
        if not depth:
            shown = tuple(_variable(name, value, self.tracing) for name, value in known.items())
            place = frame.f_code.co_filename, frame.f_code.co_firstlineno
            self.lines.append(Line(place, 0, shown, (0, 0)))

        def follow(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal known, running
            if event in ("line", "return"):
                if running is not None:
                    self._ran(frame, depth, running, known)
                known = dict(frame.f_locals)
                running = frame.f_lineno, len(self.tracing.accesses)
            if event == "return":
                self._depth = depth
            return follow

        return follow

    def _ran(
        self, frame: FrameType, depth: int, running: tuple[int, int], known: dict[str, Any]
    ) -> None:
        if len(self.lines) >= MOST:
            self.is_cut = True
            return
        new = {n: v for n, v in frame.f_locals.items() if known.get(n, _NOTHING) is not v}
        changed = tuple(_variable(name, value, self.tracing) for name, value in new.items())
        line, first = running
        place = frame.f_code.co_filename, line
        self.lines.append(Line(place, depth, changed, (first, len(self.tracing.accesses))))


_NOTHING = object()


def _variable(name: str, value: Any, tracing: Tracing) -> Variable:
    """Return what a variable holds, in words and numbers."""
    if isinstance(value, tl.constexpr):
        value = value.value
    if not isinstance(value, tl.tensor):
        if isinstance(value, bool | int | float):
            return Variable(name, "", np.array(value))
        return Variable(name, "", np.array(np.nan), text=f"{value}")
    data, kind = value.handle.data, value.handle.dtype.scalar
    shape = [int(n) for n in value.shape]
    said = f"{_said(kind, data)}{shape}" if shape else _said(kind, data)
    data = data.reshape(shape)
    if kind.is_ptr():
        marks = data >> np.uint64(MARK)
        mark = int(marks.flat[0])
        if mark and (marks == mark).all():
            start = tracing.start_of(mark - 1)
            return Variable(name, said, (data & ADDRESS).astype(np.int64) - start, mark - 1)
        return Variable(name, said, data.astype(np.int64))
    if kind == tl.bfloat16:
        return Variable(name, said, data.view(ml_dtypes.bfloat16).astype(np.float32))
    return Variable(name, said, data.copy())


def _said(kind: Any, data: Array) -> str:
    """Return a type of Triton's in few letters.

    >>> _said(tl.float32, np.zeros(1)), _said(tl.int32, np.zeros(1, bool))
    ('f32', 'bool')
    """
    if data.dtype == bool:
        return "bool"
    text = str(kind.element_ty if kind.is_ptr() else kind)
    short = text.replace("fp", "f").replace("uint", "u").replace("int", "i")
    return f"*{short}" if kind.is_ptr() else short
