"""A slice of an array as it is shown: drawn, measured, and told to a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...host.wire import Message
from .reduction import Summary, histogram, real_part, sample, summarize
from .sheet import LITERAL, READ, Sheet, literal, spec_text, type_name, wire_type
from .slicing import Index, part_text
from .still import statistics, tensor_svg

Array = np.ndarray[Any, Any]

STORED = 1_000_000  # bytes; a saved page holds each value of slices up to here


class Picture:
    """The slice ``index`` of ``array``, with the axes of ``plane`` down and across.

    Args:
        array: numbers of any shape.
        index: the slice.
        plane: two axes of the slice, or none for its last two.
        part: what is drawn of complex numbers: ``real``, ``imag``, ``abs`` or ``angle``.
        scope: what statistics and histogram are about, the whole ``tensor`` or the ``slice``.
        exact: whether every value of a large array is read.
    """

    def __init__(
        self,
        array: Array,
        index: Index,
        plane: Sequence[int] = (),
        *,
        part: str = "real",
        scope: str = "tensor",
        exact: bool = False,
    ) -> None:
        self.array, self.sheet = array, Sheet(array, index, plane)
        self.real = real_part(array.dtype, part)
        self._part, self._scope, self._exact = part, scope, exact
        self._about = self.sheet.slice if scope == "slice" else array
        self._key = memory_of(array), memory_of(self._about), part, exact
        self._measured: tuple[Summary, Array] | None = None

    def take_over(self, before: Picture | None) -> None:
        """Take the numbers of an earlier picture of the same memory, unwritten since then."""
        if before is not None and before._key == self._key:
            self._measured = before._measured

    def measured(self) -> tuple[Summary, Array]:
        """Return the statistics, and the bars of the histogram."""
        if self._measured is None:
            read, every = self._read()
            summary = summarize(read, self.real, every=every, size=self._about.size)
            whole = self.array.dtype.kind in "biu"
            counts = histogram(read, self.real, summary.low, summary.high, whole=whole)
            self._measured = summary, counts
        return self._measured

    def _read(self) -> tuple[Array, int]:
        return (self._about, 1) if self._exact else sample(self._about, READ)

    def message(self, *, complete: bool) -> Message:
        """Return what a page shows, ``complete`` with the values that it needs without a kernel."""
        array, sheet, index = self.array, self.sheet, self.sheet.index
        summary, counts = self.measured()
        facts: dict[str, Any] = {}
        buffers: list[Any] = []
        if not sheet.empty:
            small = complete and sheet.slice.size * 8 <= STORED
            facts["part"], cells = sheet.cells(
                sheet.whole(), self.real, complete=small, exact=self._exact
            )
            buffers.append(memoryview(cells.tobytes()))
            if complete and array.ndim > 2 and array.size * 8 <= STORED:
                facts["whole"] = wire_type(array.dtype)  # a page without a kernel cuts it anew
                values = self.real(array).astype(f"<{facts['whole']}")
                buffers.append(memoryview(values.tobytes()))
        exact_bytes = 4 if array.dtype.kind in "iu" else 8  # of numbers that a float64 holds
        return {
            **facts,
            "shape": list(array.shape),
            "dtype": type_name(array.dtype),
            "spec": spec_text(array),
            "complex": array.dtype.kind == "c",
            "asks": array.dtype.kind == "c" or array.dtype.itemsize > exact_bytes,
            "index": str(index),
            "parts": [part_text(part) for part in index.parts],
            "axes": [list(axis) for axis in index.axes()],
            "slice": list(sheet.slice.shape),
            "plane": list(sheet.plane),
            "tiles": sheet.tiles,
            "shown": sheet.shown,
            "grid": list(sheet.grid),
            "height": sheet.height,
            "width": sheet.width,
            "rows": statistics(array, summary),
            "every": summary.every,
            "about": self._about_text(summary),
            "low": _finite(summary.low),
            "high": _finite(summary.high),
            "robust": [_finite(summary.quantiles[0]), _finite(summary.quantiles[-1])],
            "bad": self._bad(summary),
            "counts": counts.tolist(),
            "literal": literal(sheet.slice) if sheet.slice.size <= LITERAL else "",
        }, buffers

    def _about_text(self, summary: Summary) -> str:
        what = " of slice" if self._scope == "slice" else ""
        part = f", {self._part}" if self.array.dtype.kind == "c" else ""
        if summary.every > 1:
            return f"1 of {summary.every} values{what}{part}"
        return f"{summary.size:,} value{'s' * (summary.size != 1)}{what}{part}"

    def _bad(self, summary: Summary) -> list[dict[str, Any]]:
        """Return how many values of each kind are not finite, and where the first is."""
        about, (read, _) = self._about, self._read()
        steps = [1] * about.ndim
        if read is not about:
            steps = [b // a if a else 1 for a, b in zip(about.strides, read.strides, strict=True)]
        out = []
        for kind, count in summary.bad.items():
            if not count:
                continue
            spot = np.unravel_index(summary.first_bad[kind], read.shape)
            position = [int(k) * step for k, step in zip(spot, steps, strict=True)]
            if self._scope == "slice":
                position = list(self.sheet.index.full(position))
            out.append({"kind": kind, "count": count, "at": position})
        return out

    def still(self, name: str) -> str:
        """Return picture and histogram as SVG text."""
        title = f"{name}{self.sheet.index}  {type_name(self.array.dtype)}{list(self.array.shape)}"
        return tensor_svg(self.sheet, self.real, *self.measured(), title)


def memory_of(array: Array) -> tuple[Any, ...]:
    """Return where an array is, which tells two apart while both are held."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _finite(value: float) -> float | None:
    """JSON has no NaN."""
    return value if np.isfinite(value) else None
