"""A slice of an array laid out as a picture: one plane, or many planes side by side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwright.errors import DTypeError, GraphError
from gradwright.spec import dtype_name, spec_of

from .reduction import FIELDS, KINDS, Real, reduce_planes
from .slicing import Index

Array = np.ndarray[Any, Any]

CELLS = 256
"""Most cells of a picture, down and across; a screen shows few more than this side by side."""
STRIP = 1024  # most cells of a picture with one row
TILES = 4096  # most planes side by side
READ = 10_000_000  # larger arrays are sampled unless all of it is asked for; reading takes 0.2 s
LITERAL = 200  # most values that are written out as code
_WIDE = 1.6  # width of many planes side by side, in heights


def as_array(value: Any) -> Array:
    """Return numbers as an array.

    Raises:
        DTypeError: the value cannot be read as an array of numbers.

    >>> as_array([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"a {type(value).__name__} cannot be read as an array: {error}",
            hint="rows of equal length, or an array in the memory of this process",
        ) from None
    if array.dtype.kind not in "biufc" and array.dtype.type.__module__ != "ml_dtypes":
        raise DTypeError(
            f"only numbers can be shown, not {array.dtype}",
            need="bool, integers, floats or complex numbers",
            hint="one field of a record, or codes instead of strings",
        )
    return array


def type_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype, also of those that a graph does not have."""
    try:
        return dtype_name(dtype)
    except KeyError:
        return dtype.name


def spec_text(array: Array) -> str:
    """Return shape and dtype as a graph writes them.

    >>> spec_text(np.zeros((2, 3), "float32"))
    'f32[2, 3]'
    """
    try:
        return str(spec_of(array))
    except (DTypeError, AttributeError):  # of a dtype, or an object, that graphs do not have
        return f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"


def number_text(value: Any) -> str:
    """Return one element at full precision: the shortest text that reads back as the same value.

    >>> number_text(np.float32(0.1)), number_text(np.complex64(3 - 4j))
    ('0.1', '3.0 - 4.0i, magnitude 5.0')
    """
    if np.iscomplexobj(value):
        sign = "-" if np.signbit(value.imag) else "+"
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.abs(value)
        return f"{value.real!s} {sign} {np.abs(value.imag)!s}i, magnitude {size!s}"
    return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}.get(text := str(value), text)


def literal(array: Array) -> str:
    """Return a small array as numpy code.

    >>> literal(np.array([[1.0, np.nan]], "f4"))
    'np.array([[1.0, np.nan]], dtype="float32")'
    """
    name = type_name(array.dtype)
    foreign = array.dtype.type.__module__ == "ml_dtypes"
    kind = f"ml_dtypes.{name}" if foreign else f'"{name}"'
    if not array.size:
        return f"np.zeros({array.shape}, dtype={kind})"
    return f"np.array({_nested(array)}, dtype={kind})"


def _nested(array: Array) -> str:
    if array.ndim:
        return f"[{', '.join(_nested(np.asarray(row)) for row in array)}]"
    value = array[()]
    if np.iscomplexobj(value):
        return f"complex({_plain(value.real)}, {_plain(value.imag)})"
    return _plain(value)


def _plain(value: Any) -> str:
    text = str(value)
    return text.replace("nan", "np.nan") if text == "nan" else text.replace("inf", "np.inf")


@dataclass(frozen=True)
class Window:
    """Part of a sheet: tiles by row and column, and the same rows and columns in each of them."""

    tile_rows: tuple[int, int]
    tile_columns: tuple[int, int]
    rows: tuple[int, int]
    columns: tuple[int, int]


class Sheet:
    """The slice ``index`` of ``array``, seen as planes of two of its axes.

    >>> sheet = Sheet(np.arange(24).reshape(2, 3, 4), Index((slice(None),) * 3, (2, 3, 4)), ())
    >>> sheet.tiles, sheet.height, sheet.width, sheet.position(1, 0, 2)
    (2, 3, 4, (1, 0, 2))
    """

    def __init__(self, array: Array, index: Index, plane: Sequence[int]) -> None:
        self.array, self.index = array, index
        self.slice = index.of(array)
        rank = self.slice.ndim
        view = self.slice
        if rank < 2:
            self.plane: tuple[int, ...] = ()
            view = view.reshape((1, 1) if rank == 0 else (1, len(view)))
            self._order: tuple[int, ...] = (-1,) * (2 - rank) + tuple(range(rank))
        else:
            self.plane = _checked(plane, rank) if plane else (rank - 2, rank - 1)
            others = tuple(k for k in range(rank) if k not in self.plane)
            self._order = (*others, *self.plane)
            view = view.transpose(self._order)
        self._view = view
        self.lead = view.shape[:-2]
        self.height, self.width = view.shape[-2:]
        self.tiles = math.prod(self.lead)
        self.shown = min(self.tiles, TILES)
        ratio = math.sqrt(max(1, self.shown) * self.height * _WIDE / max(1, self.width))
        across = max(1, min(self.shown, round(ratio)))
        self.grid = (-(-self.shown // across), across)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not self.slice.size

    def position(self, tile: int, row: int, column: int) -> tuple[int, ...]:
        """Return where in the whole array a place of the sheet is."""
        spot = (*map(int, np.unravel_index(tile, self.lead)), row, column)
        found = [0] * self.slice.ndim
        for axis, at in zip(self._order, spot, strict=True):
            if axis >= 0:
                found[axis] = at
        return self.index.full(found)

    def whole(self) -> Window:
        """Return the window that shows everything."""
        return Window((0, self.grid[0]), (0, self.grid[1]), (0, self.height), (0, self.width))

    def window(self, bounds: Sequence[int]) -> Window:
        """Return a window from eight numbers of the page, kept inside the sheet."""
        if len(bounds) != 8:
            raise GraphError(f"a window has 8 bounds, not {len(bounds)}")
        limits = (self.grid[0], self.grid[1], self.height, self.width)
        pairs = []
        for k, limit in enumerate(limits):
            low, high = bounds[2 * k : 2 * k + 2]
            low = max(0, min(low, limit - 1))
            pairs.append((low, max(low + 1, min(high, limit))))
        return Window(*pairs)

    def cells(
        self, window: Window, real: Real, *, complete: bool = False, exact: bool = False
    ) -> tuple[dict[str, Any], Array]:
        """Return what a window holds: its facts, and the numbers of its cells.

        A cell is a value where there is room for all (or ``complete``), and ``FIELDS`` of several
        values otherwise. Arrays above ``READ`` elements are then sampled, unless ``exact``.
        """
        (r0, r1), (c0, c1) = window.tile_rows, window.tile_columns
        tiles = [
            tile
            for row in range(r0, r1)
            for column in range(c0, c1)
            if (tile := row * self.grid[1] + column) < self.shown
        ]
        height, width = (end - start for start, end in (window.rows, window.columns))
        most = (1, STRIP) if self.height == self.tiles == 1 else (CELLS, CELLS)
        rows = height if complete else min(height, max(1, most[0] // (r1 - r0)))
        columns = width if complete else min(width, max(1, most[1] // (c1 - c0)))
        planes, (down, across) = self._planes(tiles, window)
        rows, columns = (min(n, m) for n, m in zip((rows, columns), planes[0].shape, strict=True))
        reduced, every = (rows, columns) != (height, width), down * across
        if reduced:
            limit = None if exact else READ
            numbers, skipped = reduce_planes(planes, rows, columns, real, most=limit)
            every *= skipped
            if not numbers[3:].any():
                numbers = numbers[:3]
        else:
            numbers = np.stack([real(plane) for plane in planes])[None]
        facts = {
            "window": [r0, r1, c0, c1, *window.rows, *window.columns],
            "cells": [rows, columns],
            "fields": list(FIELDS[: len(numbers)]) if reduced else ["value"],
            "every": every,
        }
        kind = _reduced_type(numbers) if reduced else wire_type(self.array.dtype)
        return {**facts, "type": kind}, numbers.astype(f"<{kind}")

    def describe(self, tile: int, window: Window, part: Real) -> tuple[str, str]:
        """Return the index and the exact value of an element, or what a block of them holds."""
        (top, bottom), (left, right) = window.rows, window.columns
        (block,), (down, across) = self._planes([tile], window)
        if bottom - top == right - left == 1:
            return index_text(self.position(tile, top, left)), number_text(block[0, 0])
        values = part(block)
        good = np.isfinite(values)
        first = self.position(tile, top, left)
        last = self.position(tile, bottom - 1, right - 1)
        spans = (str(a) if a == b else f"{a}…{b}" for a, b in zip(first, last, strict=True))

        def spot(flat: int) -> str:
            row, column = divmod(flat, block.shape[1])
            return index_text(self.position(tile, top + row * down, left + column * across))

        def at(flat: int) -> str:
            return f"{number_text(block.flat[flat])} at {spot(flat)}"

        words = []
        if good.any():
            known = np.where(good, values, np.nan)
            words.append(f"min {at(int(np.nanargmin(known)))}")
            words.append(f"max {at(int(np.nanargmax(known)))}")
        masks = (np.isnan(values), np.isposinf(values), np.isneginf(values))
        for name, mask in zip(KINDS, masks, strict=True):
            if count := int(mask.sum()):
                words.append(f"{count} {name}, first at {spot(int(mask.argmax()))}")
        read = f", 1 of {down * across:,} read" if down * across > 1 else ""
        size = (bottom - top) * (right - left)
        return f"[{', '.join(spans)}], {size:,} values{read}", " · ".join(words)

    def _planes(self, tiles: Sequence[int], window: Window) -> tuple[list[Array], tuple[int, int]]:
        """Return the window of some planes, and of how many rows and columns one is read."""
        part = slice(*window.rows), slice(*window.columns)
        return [np.asarray(self._view[self._lead_of(tile)])[part] for tile in tiles], (1, 1)

    def _lead_of(self, tile: int) -> tuple[int, ...]:
        """Return where a plane is along the axes that are not in it."""
        if not 0 <= tile < self.shown:
            raise GraphError(f"this slice has no plane {tile}", need=f"0 to {self.shown - 1}")
        return tuple(map(int, np.unravel_index(tile, self.lead)))


def index_text(position: Sequence[int]) -> str:
    """Return an index as code.

    >>> index_text((3, 0)), index_text(())
    ('[3, 0]', '[()]')
    """
    return f"[{', '.join(map(str, position)) or '()'}]"


def _checked(plane: Sequence[int], rank: int) -> tuple[int, int]:
    rows, columns = (k + rank if k < 0 else k for k in plane)
    if rows == columns or not (0 <= rows < rank and 0 <= columns < rank):
        return rank - 2, rank - 1  # a slice of another rank came since these were chosen
    return rows, columns


def wire_type(dtype: np.dtype[Any]) -> str:
    """Return the float type that the page gets values in, which holds them exactly if one does.

    >>> [wire_type(np.dtype(name)) for name in ("float16", "complex64", "int16", "int32")]
    ['f4', 'f4', 'f4', 'f8']
    """
    room = {"c": 8, "i": 2, "u": 2}.get(dtype.kind, 4)
    return "f4" if dtype.itemsize <= room else "f8"


def _reduced_type(numbers: Array) -> str:
    """Float32 is enough for a colour, where it has the range."""
    sizes = np.abs(numbers[:3])
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return "f4" if not sizes.size or (sizes.max() < 1e38 and sizes.min() > 1e-37) else "f8"
