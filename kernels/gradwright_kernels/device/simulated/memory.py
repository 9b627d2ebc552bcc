"""Memory of the simulated device: for each byte whether anybody has written it, and when.

Freed blocks stay for a while, unused, so that whoever still goes there is told so.
"""

from __future__ import annotations

import bisect
import collections
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwright.errors import LoweringError

Array = np.ndarray[Any, Any]
ALIGN = 256
KEPT = 1 << 26
"""Bytes of freed blocks that are kept from use."""
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class Use:
    """A range of a block that work of a stream has read or written."""

    stream: int
    number: int
    """Which work of that stream it was, counted."""
    low: int
    high: int
    writes: bool
    what: str


@dataclass(eq=False)
class Block:
    """An allocation: its bytes, and for each of them 1 where it has been written."""

    nbytes: int
    raw: Array = field(repr=False)
    written: Array = field(repr=False)
    is_alive: bool = True
    uses: list[Use] = field(default_factory=list, repr=False)

    @property
    def base(self) -> int:
        """Return its address, a multiple of 256."""
        address: int = self.raw.ctypes.data
        return address + -address % ALIGN

    def within(self, address: int, nbytes: int) -> slice:
        """Return where a range of addresses lies in it."""
        start = address - self.base
        return slice(start, start + nbytes)

    def unwritten(self, places: Array, size: int) -> Array:
        """Tell of which elements of ``size`` bytes, each at a multiple of it, bytes are unset."""
        found: Array
        if size not in BITS:
            found = self.written[places[:, None] + np.arange(size)].min(axis=1) == 0
        else:
            kind: Any = BITS[size]
            full = kind(sum(1 << 8 * n for n in range(size)))
            found = self.written.view(kind)[places // size] != full
        return found

    def write(self, places: Array, size: int) -> None:
        """Note that elements of ``size`` bytes are written."""
        for byte in range(size):
            self.written[places + byte] = 1


class Blocks:
    """All blocks, by address; ``total`` bytes may be taken at once."""

    def __init__(self, total: int) -> None:
        self.total, self.taken = total, 0
        self._blocks: list[tuple[int, Block]] = []
        """All of them, with their addresses, in order."""
        self._freed: collections.deque[Block] = collections.deque()
        self._changing = threading.RLock()

    def allocate(self, nbytes: int) -> int:
        """Return the address of a new block; raises MemoryError where none is left."""
        if self.taken + nbytes > self.total:
            left = self.total - self.taken
            raise MemoryError(f"the simulated GPU has {left:,} bytes left, not {nbytes:,}")
        whole = -(-max(nbytes, 1) // 8) * 8
        raw = np.empty(whole + ALIGN, np.uint8)
        block = Block(nbytes, raw, np.zeros(whole, np.uint8))
        with self._changing:
            self.taken += nbytes
            while sum(b.nbytes for b in self._freed) > KEPT:
                del self._blocks[self._at(self._freed.popleft().base)]
            self._blocks.insert(self._at(block.base) + 1, (block.base, block))
        return block.base

    def free(self, address: int) -> None:
        """Give a block back; raises LoweringError for what is none.

        It may be called at any time, even while another block is made: arrays die when they do.
        """
        block = self.find(address)
        if block is None or block.base != address or not block.is_alive:
            gone = "was freed before" if block is not None and not block.is_alive else "is no block"
            raise LoweringError(f"cannot free device memory: {address:#x} {gone}")
        block.is_alive = False
        self.taken -= block.nbytes
        self._freed.append(block)

    def find(self, address: int) -> Block | None:
        """Return the block that an address lies in."""
        with self._changing:
            at = self._at(address)
            block = self._blocks[at][1] if at >= 0 else None
        if block is None:
            return None
        return block if address < block.base + max(block.nbytes, 1) else None

    def _at(self, address: int) -> int:
        """Return which block begins last before an address, or there."""
        return bisect.bisect(self._blocks, (address + 1,)) - 1

    def alive(self, address: int, nbytes: int, what: str) -> Block:
        """Return the block that holds a range; raises LoweringError, saying what went there."""
        block = self.find(address)
        if block is None or address + nbytes > block.base + max(block.nbytes, 1):
            raise LoweringError(f"{what}: {nbytes:,} bytes at {address:#x} are no device memory")
        if not block.is_alive:
            raise LoweringError(
                f"{what}: the memory at {address:#x} has been freed",
                hint="hold it until all work that uses it is done",
            )
        return block
