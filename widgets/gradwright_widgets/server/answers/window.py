"""What a page asks while one looks closer: a part of a picture finer, the value under a pointer.

What is asked for is all that is read, and of a large part of a large tensor one element in so
many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwright.formats.stored import Files, Stored, thinned

from ...panels.tensor.reduction import real_part
from ...panels.tensor.sheet import Sheet, Window
from ...panels.tensor.slicing import Index
from ..refused import RefusedError
from .asked import Asked
from .model import check_tensor
from .tensor import HELD, PASSED, check_shown, part_of, slice_of

Array = np.ndarray[Any, Any]


def window(asked: Asked) -> dict[str, Any]:
    """Return the cells of a part of the picture: eight bounds, as the page asks a kernel."""
    bounds = _numbers(asked, "window", 8)
    part, exact = part_of(asked)
    with Files(asked.file, asked.open) as files:
        sheet = _sheet(asked, files)
        real = real_part(sheet.array.dtype, part)
        facts, cells = sheet.cells(sheet.window(bounds), real, exact=exact)
    return {"part": facts, "buffers": [memoryview(cells.tobytes())]}


def element(asked: Asked) -> dict[str, Any]:
    """Return index and value of an element, or what a block holds: of a plane, by its bounds."""
    tile, *bounds = _numbers(asked, "at", 5)
    part, _ = part_of(asked)
    with Files(asked.file, asked.open) as files:
        sheet = _sheet(asked, files)
        row, column = divmod(tile, sheet.grid[1])
        window = sheet.window((row, row + 1, column, column + 1, *bounds))
        where, text = sheet.describe(tile, window, real_part(sheet.array.dtype, part))
    return {"where": where, "text": text}


def _numbers(asked: Asked, name: str, count: int) -> list[int]:
    """Return an argument that is so many integers from 0 on."""
    parts = asked.text(name).split(",")
    if len(parts) != count or not all(p.isascii() and p.isdecimal() and len(p) < 20 for p in parts):
        raise RefusedError(400, f"{name}={asked.text(name)[:60]!r}", need=f"{count} integers")
    return list(map(int, parts))


def _sheet(asked: Asked, files: Files) -> StoredSheet:
    stored = Stored(check_tensor(asked, asked.text("name")), files)
    check_shown(stored)
    if stored.dtype.kind == "T":
        raise RefusedError(422, "text is no picture")
    sheet = StoredSheet(stored, *slice_of(asked, stored))
    if sheet.empty:
        raise RefusedError(400, "this slice is empty")
    return sheet


class StoredSheet(Sheet):
    """A slice of a stored tensor, of which it reads what is looked at."""

    def __init__(self, stored: Stored, index: Index, plane: Sequence[int]) -> None:
        super().__init__(np.broadcast_to(np.zeros((), stored.dtype), stored.shape), index, plane)
        self._stored = stored

    def _planes(self, tiles: Sequence[int], window: Window) -> tuple[list[Array], tuple[int, int]]:
        each = self._stored.dtype.itemsize * len(tiles)
        shape = [end - start for start, end in (window.rows, window.columns)]
        down, across = thinned(shape, max(1, HELD // (2 * each)), max(1, PASSED // each))
        rows, columns = range(*window.rows, down), range(*window.columns, across)
        return [self._read(self._lead_of(tile), rows, columns) for tile in tiles], (down, across)

    def _read(self, lead: tuple[int, ...], rows: range, columns: range) -> Array:
        """Return rows and columns of a plane."""
        wanted: dict[int, int | range] = dict(zip(self._order, (*lead, rows, columns), strict=True))
        parts: list[int | slice] = []
        across = []
        for start, step, axis in self.index.axes():
            at = wanted[axis] if axis >= 0 else 0
            if isinstance(at, range):
                first, last = start + step * at[0], start + step * at[-1]
                by = step * at.step
                end = last + (1 if by > 0 else -1)
                parts.append(slice(first, end if end >= 0 else None, by))
                across.append(axis == self._order[-1])
            else:
                parts.append(start + step * at)
        found = self._stored.take(parts)
        if across == [True, False]:  # the axis that is drawn across comes first in the tensor
            found = found.T
        return found.reshape(len(rows), len(columns))
