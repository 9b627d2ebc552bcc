"""Memory of a plan: which values share a buffer, by the time they are alive."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

ALIGN = 64


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
