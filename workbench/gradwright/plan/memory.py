"""Memory of a plan: which values share a buffer, by the time they are alive, and what is let go."""

from __future__ import annotations

import bisect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..spec import TensorSpec

Array = np.ndarray[Any, Any]
ALIGN = 64
LARGE = 1 << 16
"""Bytes from which a result is worth being written where an earlier one was."""


@dataclass(frozen=True)
class Interval:
    """A buffer that is needed from step ``start`` to step ``end``, both included."""

    value: int
    nbytes: int
    start: int
    end: int


@dataclass(frozen=True)
class Layout:
    """Offsets of all buffers in one arena."""

    offsets: dict[int, int]
    nbytes: int
    """Size of the arena."""
    unshared: int
    """What the buffers would take without sharing."""


def lay_out(intervals: Sequence[Interval]) -> Layout:
    """Assign offsets: best fit among the free gaps, in order of birth.

    Two buffers overlap in the arena only if they are never alive together. Linear in the number of
    buffers times the number of gaps, which stays small because neighbours are merged.
    """
    free: list[tuple[int, int]] = []  # (offset, size), by offset
    ends: list[tuple[int, int, int]] = []  # (end step, offset, size), by end step
    offsets: dict[int, int] = {}
    top = unshared = 0
    for item in sorted(intervals, key=lambda i: i.start):
        while ends and ends[0][0] < item.start:
            _, offset, size = ends.pop(0)
            _release(free, offset, size)
        size = -(-max(item.nbytes, 1) // ALIGN) * ALIGN
        unshared += size
        fitting = [(gap, k) for k, (_, gap) in enumerate(free) if gap >= size]
        if fitting:
            gap, k = min(fitting)
            offset = free[k][0]
            free[k : k + 1] = [(offset + size, gap - size)] if gap > size else []
        elif free and free[-1][0] + free[-1][1] == top:  # grow the last gap instead of the arena
            offset = free.pop()[0]
            top = offset + size
        else:
            offset, top = top, top + size
        offsets[item.value] = offset
        bisect.insort(ends, (item.end, offset, size))
    return Layout(offsets, top, unshared)


def _release(free: list[tuple[int, int]], offset: int, size: int) -> None:
    k = bisect.bisect(free, (offset, size))
    if k < len(free) and offset + size == free[k][0]:
        size += free.pop(k)[1]
    if k and sum(free[k - 1]) == offset:
        start, before = free[k - 1]
        free[k - 1] = start, before + size
    else:
        free.insert(k, (offset, size))


class Spares:
    """Arrays for one result: one that nobody holds any more is written again.

    Fresh memory costs a page fault for every 4 kB: 250 µs for 1 MB, in which a product takes 30.
    Two arrays are kept, for a variable's value is held while its next one is written.
    """

    def __init__(self, spec: TensorSpec, make: Callable[[TensorSpec], Array]) -> None:
        self._spec, self._make = spec, make
        self._made: list[Array] = []

    def take(self) -> Array:
        """Return an array to write, which nobody else sees."""
        spec = self._spec
        for number in range(len(self._made)):
            if _references(self._made, number) > _HELD_BY_LIST:
                continue
            array = self._made[number]
            if array.shape == spec.shape and array.dtype == spec.dtype:  # its owner may set them
                array.flags.writeable = True
                return array
        array = self._make(spec)
        if spec.nbytes >= LARGE and array.base is None:
            self._made = [*self._made[-1:], array]
        return array


def _references(arrays: list[Array], number: int) -> int:
    return sys.getrefcount(arrays[number])


_HELD_BY_LIST = _references([np.empty(0)], 0)
