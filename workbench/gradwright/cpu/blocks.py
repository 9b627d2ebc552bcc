"""Blocks: the memory that a plan borrows for a run, where its arena does not last.

A plan is laid out once, as offsets in one block, and may lie in another block each run: so what is
computed, and how, to the bit, is the same however memory is managed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..program.ledger import Ledger
from ..program.program import Program
from ..program.row import names_of
from ..shared import default_bytes, module_lock
from ..spec import TensorSpec
from ..words.tables import size
from .places import address

Array = np.ndarray[Any, Any]
ALIGN = 64
"""Bytes: one cache line, and what AVX-512 loads and Triton's divisibility hints want."""
LARGER = "a larger one took its place"


def aligned(nbytes: int) -> Array:
    """Return an uninitialised byte buffer whose address is a multiple of 64."""
    raw = np.empty(nbytes + ALIGN, np.uint8)
    start = -address(raw) % ALIGN
    return raw[start : start + nbytes]


def aligned_for(spec: TensorSpec) -> Array:
    """Return an array of its own, at the start of a cache line."""
    shape: Any = spec.shape
    return np.ndarray(shape, spec.dtype, aligned(max(spec.nbytes, 1)))


class Blocks(Protocol):
    """Lends blocks to runs."""

    ledger: Ledger

    def take(self, nbytes: int, at: int, what: str) -> Array:
        """Return a block of so many bytes at least, the one at an address if that is free."""

    def give(self, block: Array) -> None:
        """Take a block back; nobody reads or writes it any more."""

    def release(self) -> None:
        """Let go of what is kept for runs to come."""


class Fresh:
    """A new block for each run, which is freed when the run ends."""

    def __init__(self) -> None:
        self.ledger = Ledger("none")

    def take(self, nbytes: int, at: int, what: str) -> Array:
        """Return a new block."""
        block = aligned(nbytes)
        self.ledger.took(block, what)
        return block

    def give(self, block: Array) -> None:
        """Say why the block is freed, as soon as the caller lets go of it."""
        self.ledger.because(block, "the run has ended")

    def release(self) -> None:
        """Nothing is kept."""


class Pool:
    """Blocks that plans of all sessions take turns in.

    A run gets the block that its plan had before, which costs nothing, else the smallest that is
    large enough. Where none is, the largest free one makes way for a larger one, so that there are
    as many blocks as runs have ever run at once, nested ones among them, and each is as large as
    the largest plan that needed it. Beyond ``most`` bytes those unused longest go.

    >>> pool = Pool()
    >>> one = pool.take(1000, 0, "a")
    >>> pool.give(one)
    >>> pool.take(500, 0, "b") is one
    True
    """

    def __init__(self, most: int | None = None) -> None:
        self.ledger = Ledger("caching")
        self.most = default_bytes() if most is None else most
        self._lock = module_lock()
        self._free: list[Array] = []
        """What was used last comes last."""

    def take(self, nbytes: int, at: int, what: str) -> Array:
        """Return a free block, or a new one."""
        with self._lock:
            fit = [b for b in self._free if b.nbytes >= nbytes]
            if fit:
                block = min(fit, key=lambda b: (address(b) != at, b.nbytes))
                self._remove(block)
                return block
            if self._free:
                largest = max(self._free, key=lambda b: b.nbytes)
                self._remove(largest)
                self.ledger.because(largest, LARGER)
                nbytes = max(nbytes, largest.nbytes + largest.nbytes // 4)
                del largest  # its memory first: the two need not be there together
            block = aligned(nbytes)
            self.ledger.took(block, what)
            return block

    def give(self, block: Array) -> None:
        """Keep a block for the next run, and let go of what is too much."""
        with self._lock:
            self._free.append(block)
            while sum(b.nbytes for b in self._free) > self.most:
                unused = self._free.pop(0)
                self.ledger.because(unused, f"more than {size(self.most)} were kept")

    def release(self) -> None:
        """Let all free blocks go."""
        with self._lock:
            self._free = []

    def _remove(self, block: Array) -> None:
        self._free = [b for b in self._free if b is not block]


class Loan:
    """The block of a segment for the time of a run; ``lie`` tells the segment where it lies."""

    @staticmethod
    def of(
        lender: Blocks | None, nbytes: int, program: Program, lie: Callable[[Array | None], None]
    ) -> Loan | None:
        """Return the loan of a segment that needs so many bytes; None if it needs none."""
        return None if lender is None or not nbytes else Loan(lender, nbytes, program, lie)

    def __init__(
        self, lender: Blocks, nbytes: int, program: Program, lie: Callable[[Array | None], None]
    ) -> None:
        self._lender, self._nbytes, self._lie = lender, nbytes, lie
        self._what, self._at = name_of(program), 0
        self._block: Array | None = None

    def begin(self) -> None:
        """Borrow a block, unless a run that was ended midway has left one here."""
        if self._block is None:
            block = self._lender.take(self._nbytes, self._at, self._what)
            self._block, self._at = block, address(block)
            self._lie(block)

    def end(self) -> None:
        """Give the block back."""
        block, self._block = self._block, None
        if block is not None:
            self._lie(None)
            self._lender.give(block)


def name_of(program: Program) -> str:
    """Return what a block is used for first, as a log tells it."""
    return names_of(program.outputs, 2)


POOL = Pool()
"""That of all sessions of this process that have ``memory="caching"``."""
