"""Places: where the values of a bound segment lie, and who has to know when one moves.

A `Fixed` value lies in the arena, or is a constant: calls name its address once and for all. A
`Moving` value lies in another array each run, of one shape: a variable, a large feed, a result
that leaves. Calls name its address, which is changed in their blocks when it is another one. A
`Loose` value is known to Python alone: text, sequences, and what has another size each run. Where
the arena is another block each run, it is a `Moving` place itself, the ground, and what is fixed in
it lies `Within`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..spec import TensorSpec

Array = np.ndarray[Any, Any]
STAGED = 1 << 16
"""Bytes up to which a feed is copied to a fixed address: 2 µs, where moving it takes up to 2 µs."""


def address(array: Array) -> int:
    """Return where the first element of an array lies."""
    return int(array.ctypes.data)


class Fixed:
    """A value with one array for good; what comes in is copied there."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def put(self, value: Array) -> None:
        """Take a value over."""
        self.array[...] = value

    again = put
    is_used = False

    def release(self) -> None:
        """Nothing is held that is not its own."""


class Within:
    """A value with a place for good in an arena that is another block each run.

    ``template`` is where it lies until calls are bound.
    """

    def __init__(self, ground: Moving, template: Array) -> None:
        self._ground, self.template = ground, template
        self._part = template.shape, template.dtype, address(template) - ground.at

    def put(self, value: Array) -> None:
        """Take a value over."""
        shape, dtype, offset = self._part
        np.ndarray(shape, dtype, self._ground.array, offset)[...] = value

    again = put
    is_used = False

    def release(self) -> None:
        """Nothing is held that is not its own."""


class Loose:
    """A value that only calls of Python read: they find it in their lists of arguments."""

    def __init__(self) -> None:
        self.array: Any = None
        self._uses: list[tuple[list[Any], int]] = []

    def use(self, arguments: list[Any], position: int) -> None:
        """Fill an argument of a call whenever a value comes."""
        self._uses.append((arguments, position))

    def put(self, value: Any) -> None:
        """Take a value over."""
        self.array = value
        for arguments, position in self._uses:
            arguments[position] = value

    again = put

    @property
    def is_used(self) -> bool:
        """Whether a call reads it."""
        return bool(self._uses)

    def release(self) -> None:
        """Hold the value no longer."""
        self.put(None)


class Moving:
    """A value that lies elsewhere from run to run, dense and aligned wherever it is.

    ``template`` has its shape, strides and, until the first value comes, its address; calls are
    bound to it. ``table`` holds their blocks.
    """

    def __init__(self, spec: TensorSpec, template: Array | None = None) -> None:
        shape: Any = spec.shape
        self.template = np.empty(shape, spec.dtype) if template is None else template
        self.array: Any = None
        self.at = address(self.template)
        """The address that is in the blocks now."""
        self.is_owned = False
        """Whether it is an array as it came, and part of no other."""
        self.table: Any = None
        self._slots: list[tuple[int, int]] = []
        self._uses: list[tuple[list[Any], int, Any]] = []
        self._stage: Any = None
        self._is_staged = False

    def name(self, slot: int, named: int) -> None:
        """Write an address, now ``named``, to a place of the table whenever the value moves."""
        self._slots.append((slot, named - address(self.template)))

    def use(self, arguments: list[Any], position: int, view: Array) -> None:
        """Fill an argument of a call of Python with the part that ``view`` is of the template."""
        part = None
        if view is not self.template:
            offset = address(view) - address(self.template)
            part = view.shape, view.dtype, offset, view.strides
        self._uses.append((arguments, position, part))

    def bind(self, table: memoryview) -> None:
        """Take the table, when all calls are known; the template is needed no more."""
        self.table = table
        del self.template

    @property
    def is_used(self) -> bool:
        """Whether a call of Python reads it."""
        return bool(self._uses)

    def put(self, value: Array) -> None:
        """Take a value over, as it lies if it is dense and aligned."""
        flags = value.flags
        is_fit = flags.c_contiguous and flags.aligned
        self.is_owned, self._is_staged = is_fit and value.base is None, not is_fit
        if not is_fit:
            if self._stage is None:
                self._stage = np.empty(value.shape, value.dtype)
            self._stage[...] = value
            value = self._stage
        self.place(value, address(value))

    def again(self, value: Array) -> None:
        """Take over the value that was put here last, unchanged."""
        self._fill(self._stage if self._is_staged else value)

    def place(self, value: Array, at: int) -> None:
        """Take over a dense and aligned value whose address is known."""
        self.move(at)
        self._fill(value)

    def _fill(self, value: Array) -> None:
        self.array = value
        for arguments, position, part in self._uses:
            if part is not None:
                shape, dtype, offset, strides = part
                arguments[position] = np.ndarray(shape, dtype, value, offset, strides)
            else:
                arguments[position] = value

    def move(self, at: int) -> None:
        """Let machine code look at another address."""
        if at != self.at:
            self.at = 0  # whatever ends the loop, the next move writes all places
            table = self.table
            for slot, offset in self._slots:
                table[slot] = at + offset
            self.at = at

    def release(self) -> None:
        """Hold the array no longer; its address is still in the blocks, and may be right again."""
        self.array = None
        for arguments, position, _ in self._uses:
            arguments[position] = None


Place = Fixed | Within | Loose | Moving
