"""Gaps of an arena while buffers are laid out: found by size, joined with their neighbours."""

from __future__ import annotations

import bisect

MOST = 512
"""Entries of a block of a sorted list: what one insertion moves at most."""


class Gaps:
    """Free parts of an arena that grows; taking and giving back cost the logarithm of their number.

    >>> gaps = Gaps()
    >>> [gaps.take(64), gaps.take(128), gaps.take(64)]
    [0, 64, 192]
    >>> gaps.give(0, 64)
    >>> gaps.give(64, 128)
    >>> gaps.take(192), gaps.top
    (0, 256)
    """

    def __init__(self) -> None:
        self.top = 0
        """Size of the arena so far."""
        self._sizes: dict[int, int] = {}
        """The size of the gap that begins at an offset."""
        self._starts: dict[int, int] = {}
        """Where the gap begins that ends at an offset."""
        self._blocks: list[list[tuple[int, int]]] = [[]]
        """(size, offset) of all gaps, sorted, in blocks."""
        self._firsts: list[tuple[int, int]] = [(0, 0)]
        """What no entry of a block is below."""

    def take(self, size: int) -> int:
        """Return the offset of the smallest gap that holds ``size``, the first of equal ones.

        Where there is none, the arena grows, by a gap at its end if there is one.
        """
        found = self._least(size)
        if found is not None:
            gap, offset = found
            self._remove(offset, gap)
            if gap > size:
                self._add(offset + size, gap - size)
            return offset
        offset = self._starts.get(self.top, self.top)
        if offset < self.top:
            self._remove(offset, self.top - offset)
        self.top = offset + size
        return offset

    def give(self, offset: int, size: int) -> None:
        """Take back a part; it becomes one gap with those beside it."""
        after = self._sizes.get(offset + size)
        if after is not None:
            self._remove(offset + size, after)
            size += after
        before = self._starts.get(offset)
        if before is not None:
            self._remove(before, offset - before)
            offset, size = before, offset + size - before
        self._add(offset, size)

    def _least(self, size: int) -> tuple[int, int] | None:
        entry = size, -1
        for block in self._blocks[self._place(entry) :]:
            k = bisect.bisect(block, entry)
            if k < len(block):
                return block[k]
        return None

    def _place(self, entry: tuple[int, int]) -> int:
        """Return the block that an entry belongs to."""
        return max(bisect.bisect(self._firsts, entry) - 1, 0)

    def _add(self, offset: int, size: int) -> None:
        self._sizes[offset], self._starts[offset + size] = size, offset
        entry = size, offset
        k = self._place(entry)
        block = self._blocks[k]
        bisect.insort(block, entry)
        if len(block) > MOST:
            half = len(block) // 2
            self._blocks.insert(k + 1, block[half:])
            self._firsts.insert(k + 1, block[half])
            del block[half:]

    def _remove(self, offset: int, size: int) -> None:
        del self._sizes[offset], self._starts[offset + size]
        entry = size, offset
        k = self._place(entry)
        block = self._blocks[k]
        del block[bisect.bisect_left(block, entry)]
        if not block and k:
            del self._blocks[k], self._firsts[k]
