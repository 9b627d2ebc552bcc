"""From arrays to loops: strides collapse into at most four outer loops and one column loop.

Axes of size one go, neighbours that every operand runs through at one pace become one axis. What is
left splits into a `Pattern`, which machine code is made for, and numbers (sizes, strides), which it
reads from its block when called. So a batch of another size runs the same code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import LoweringError
from .ir import Kernel, Operand

Array = np.ndarray[Any, Any]
MAX_OUTER = 4
FEW, NARROW = 4, 24
"""Columns of which masked vectors are made, from and up to: a row of 10 takes half the time."""
WHOLE = 64
"""Columns that are whole vectors anyway, several at a time, whatever the vector."""


@dataclass(frozen=True, slots=True)
class Access:
    """How an operand is walked: along the columns, and over which outer loops it moves."""

    column: Literal["unit", "zero", "strided"]
    outer: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """What machine code depends on beside the kernel: one access for each operand."""

    accesses: tuple[Access, ...]
    is_narrow: bool = False
    """Whether there are too few columns to fill vectors, so that the last one is masked."""

    @property
    def n_outer(self) -> int:
        """Return the number of outer loops."""
        return len(self.accesses[0].outer)


@dataclass(frozen=True, slots=True)
class Loops:
    """A loop nest: ``strides[operand]`` holds bytes for each outer loop, then for a column."""

    pattern: Pattern
    outer: tuple[int, ...]
    columns: int
    strides: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class CopyFirst:
    """An input no loop nest fits: copy it into a contiguous array of ``shape``, then try again."""

    operand: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slots:
    """Where things stand in the int64 block of a kernel.

    addresses of the operands, scratch address, columns, outer sizes, then for each operand its
    strides in bytes: outer loops first, the column last. If indices name places, the address of
    an `Alarm` follows, and for each named axis of an operand its size and its stride.
    """

    n_operands: int
    n_outer: int
    n_named: tuple[int, ...] = ()

    @classmethod
    def of(cls, kernel: Kernel, pattern: Pattern) -> Slots:
        """Return the slots of a kernel."""
        named = tuple(len(operand.named) for operand in kernel.operands)
        return cls(len(kernel.operands), pattern.n_outer, named)

    @property
    def scratch(self) -> int:
        """Return the slot of the scratch address; an operand's address has the operand's number."""
        return self.n_operands

    @property
    def columns(self) -> int:
        """Return the slot of the number of columns."""
        return self.n_operands + 1

    def outer(self, loop: int) -> int:
        """Return the slot of the size of an outer loop, the outermost being 0."""
        return self.n_operands + 2 + loop

    def stride(self, operand: int, loop: int) -> int:
        """Return the slot of a stride; loop ``n_outer`` is the column loop."""
        return self.n_operands + 2 + self.n_outer + operand * (self.n_outer + 1) + loop

    @property
    def alarm(self) -> int:
        """Return the slot of the address where wrong indices are told."""
        return self.stride(self.n_operands, 0)

    def named(self, operand: int, axis: int) -> int:
        """Return the slot of the size of a named axis, which its stride follows."""
        return self.alarm + 1 + 2 * (sum(self.n_named[:operand]) + axis)


def block(
    loops: Loops, addresses: Sequence[int], scratch: int = 0, named: Sequence[int] = ()
) -> Array:
    """Return the block that a kernel is called with; `Slots` says what stands where."""
    strides = [s for strides in loops.strides for s in strides]
    return np.array([*addresses, scratch, loops.columns, *loops.outer, *strides, *named], np.int64)


def has_border(kernel: Kernel) -> bool:
    """Tell whether rows and columns must stay apart: something happens once a row, or by column."""
    return any(v.op in ("reduce", "column") for v in kernel.values) or any(
        store.mode == "sum_rows" or store.by_row for store in kernel.stores
    )


def lay_out(
    kernel: Kernel, arrays: Sequence[Array], shape: Sequence[int], narrow: int = NARROW
) -> Loops | CopyFirst:
    """Return the loops of a kernel over an index space of ``shape``, inputs then outputs.

    Every array has an axis for each of the space's, of size 1 where it stands still; an input may
    also be repeated along such an axis, as `CopyFirst` asks.

    Raises:
        LoweringError: The arrays do not fit the kernel, or copying no input would help.

    Examples:
        >>> from gradwright.fuse.ir import Level, Store, Value
        >>> f32 = np.dtype("f4")
        >>> x = Operand(f32, (True, True))
        >>> load = Value("load", (), f32, Level.ELEMENT, 0)
        >>> copy = Kernel(2, 1, (x, x), 1, (load,), (Store(1, 0),))
        >>> loops = lay_out(copy, [np.ones((8, 4), "f4"), np.ones((8, 4), "f4")], (8, 4))
        >>> loops.outer, loops.columns, loops.pattern.accesses[0].column
        ((), 32, 'unit')
    """
    sizes = tuple(shape)
    _check(kernel, arrays, sizes)
    for number, array in enumerate(arrays):
        if not array.flags.aligned:
            return _copy(kernel, number, array.shape)
    steps = [
        tuple(0 if n == 1 else s for s, n in zip(_strides(a), a.shape, strict=True)) for a in arrays
    ]
    bordered = has_border(kernel)
    border = kernel.rank - kernel.n_columns if bordered else 0
    wide = [axis for axis in range(kernel.rank) if sizes[axis] != 1]
    if not any(store.places for store in kernel.stores):  # what goes to one place has an order
        wide.sort(key=lambda axis: -sum(abs(s[axis]) for s in steps))
    rows = _merge([axis for axis in wide if axis < border], sizes, steps)
    columns = _merge([axis for axis in wide if axis >= border], sizes, steps)
    if bordered:  # columns are counted in their own order, and are one loop
        order = [axis for axis in range(border, kernel.rank) if sizes[axis] != 1]
        columns = _merge(order, sizes, steps)
        if len(columns) > 1:
            late = next(i for i, s in enumerate(steps) if len(_merge(order, sizes, [s])) > 1)
            return _copy(kernel, late, (*arrays[late].shape[:border], *sizes[border:]))
    nest = [*rows, *(columns or [[]])]
    if len(nest) > MAX_OUTER + 1:
        loops = [len(_merge(wide, sizes, [s])) for s in steps[: kernel.n_inputs]]
        worst = max(loops, default=1)
        return _copy(kernel, loops.index(worst) if worst > 1 else kernel.n_inputs, sizes)
    strides = tuple(tuple(s[axes[-1]] if axes else 0 for axes in nest) for s in steps)
    accesses = tuple(
        Access(_column(o, s[-1], border, bool(columns)), tuple(step != 0 for step in s[:-1]))
        for o, s in zip(kernel.operands, strides, strict=True)
    )
    counts = [math.prod(sizes[axis] for axis in axes) for axes in nest]
    # What is joined to a row soon after a masked store waits for it: 9 ns, not 3.
    whole = 8 if any(store.places for store in kernel.stores) else WHOLE
    pattern = Pattern(accesses, FEW <= counts[-1] <= narrow and counts[-1] % whole > 0)
    return Loops(pattern, tuple(counts[:-1]), counts[-1], strides)


def _check(kernel: Kernel, arrays: Sequence[Array], sizes: tuple[int, ...]) -> None:
    """Refuse arrays that are not the operands of a kernel over an index space."""
    for number, (operand, array) in enumerate(zip(kernel.operands, arrays, strict=True)):
        needed = kernel.shape_of(number, sizes)
        fits = len(array.shape) == len(sizes) and all(
            n in (need, full) for n, need, full in zip(array.shape, needed, sizes, strict=True)
        )
        if array.dtype != operand.dtype or not fits:
            raise LoweringError(
                f"operand {number} does not fit its kernel",
                need=f"{operand.dtype} of shape {needed}, got {array.dtype} of {array.shape}",
            )


def _strides(array: Array) -> tuple[int, ...]:
    """Return the strides in bytes; those of an empty array may be anything."""
    if array.size:
        return array.strides
    tail = [max(n, 1) for n in array.shape] + [array.itemsize]
    return tuple(math.prod(tail[axis + 1 :]) for axis in range(array.ndim))


def _merge(
    axes: Sequence[int], sizes: Sequence[int], steps: Sequence[tuple[int, ...]]
) -> list[list[int]]:
    """Join neighbours among ``axes`` which, in every operand, are one axis walked at one pace."""
    groups: list[list[int]] = []
    for axis in axes:
        if groups and all(s[groups[-1][-1]] == sizes[axis] * s[axis] for s in steps):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


def _column(
    operand: Operand, stride: int, border: int, is_wide: bool
) -> Literal["unit", "zero", "strided"]:
    """Return how an operand is walked; a single column counts as a dense row of length one."""
    if not is_wide:
        return "unit" if any(operand.moves[border:]) else "zero"
    if stride == operand.dtype.itemsize:
        return "unit"
    return "strided" if stride else "zero"


def _copy(kernel: Kernel, operand: int, shape: tuple[int, ...]) -> CopyFirst:
    if operand >= kernel.n_inputs:
        raise LoweringError("no loops fit the outputs of a kernel", need="contiguous outputs")
    return CopyFirst(operand, shape)
