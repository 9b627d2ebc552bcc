"""What a launch does to memory, access by access; it goes on where something is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..device.cuda import Launch
from ..device.simulated.access import ADDRESS, MARK, Argument, Looking, kernel_frame
from ..device.simulated.memory import Blocks

Array = np.ndarray[Any, Any]
Place = tuple[str, int]
"""File and line."""
SECTOR, WARP = 32, 32
"""Bytes that memory moves at least, and neighbours of a tile that ask for them at once."""
MASKED, TOUCHES, OUTSIDE = 0, 1, 2
"""What a lane of an access does."""


@dataclass(frozen=True, eq=False)
class Access:
    """One load, store or atomic change of a program."""

    program: int
    place: Place
    argument: int
    """Number of the array; -1 for one behind a pointer that was read from memory."""
    how: str
    lanes: Array = field(repr=False)
    """For each element of the tile whether it is masked off, touches the array, or is outside."""
    elements: Array = field(repr=False)
    """Where the lanes go that are not masked off, in elements from where the array's memory is."""
    size: int
    """Bytes of an element."""
    sectors: int
    least: int
    """How many sectors of 32 bytes its groups of 32 neighbours ask for, and how few would do."""

    @property
    def masked(self) -> int:
        """How many lanes are masked off."""
        return int((self.lanes == MASKED).sum())


@dataclass(frozen=True)
class Finding:
    """What is wrong with an access."""

    text: str
    parameter: str
    name: str
    program: int
    place: Place

    def __str__(self) -> str:
        line = self.place[1]
        of = f" ({self.name})" if self.name else ""
        who = f", program {self.program}" if self.program >= 0 else ""
        return f"line {line}{who}: {self.parameter}{of} {self.text}"


class Tracing(Looking):
    """Notes each access of a launch; lanes that go outside read NaN, and write nowhere."""

    def __init__(self, launch: Launch, addresses: list[int], blocks: Blocks) -> None:
        super().__init__(launch, addresses, blocks)
        self.accesses: list[Access] = []
        self.findings: dict[tuple[str, str, Place], Finding] = {}
        """The first of each kind at each place."""
        self._pit = np.empty(8, np.uint8)

    def load(self, at: Array, mask: Array, dtype: np.dtype[Any]) -> Array:
        """Note a load."""
        inside = self._note("loads", at, mask, dtype.itemsize)
        self._pit[:] = 0xFF
        found = super().load(at, mask & inside, dtype)
        return np.where(inside, found, np.uint64(self._pit.ctypes.data))

    def store(self, at: Array, mask: Array, values: Array) -> Array:
        """Note a store."""
        inside = self._note("stores", at, mask, values.dtype.itemsize)
        found = super().store(at, mask & inside, values)
        return np.where(inside, found, np.uint64(self._pit.ctypes.data))

    def atomic(self, at: Array, mask: Array, dtype: np.dtype[Any]) -> Array:
        """Note what reads and writes at once."""
        inside = self._note("changes", at, mask, dtype.itemsize)
        found = super().atomic(at, mask & inside, dtype)
        return np.where(inside, found, np.uint64(self._pit.ctypes.data))

    def start_of(self, argument: int) -> int:
        """Return the address of the lowest byte of an array."""
        found = self._arguments[argument]
        return found.block.base + found.start

    def _note(self, how: str, at: Array, mask: Array, size: int) -> Array:
        """Write an access down; return which lanes stay inside of their array."""
        active = np.broadcast_to(mask, at.shape)
        marks = (at >> np.uint64(MARK)).astype(np.int64)
        inside = np.ones(at.shape, bool)
        for mark in np.unique(marks[active]) if active.any() else [0]:
            mine = active & (marks == mark)
            if not mark:  # it was read from memory: only what it points to is looked at
                self._write_down(how, -1, mine, inside, np.zeros(0, np.int64), at, size)
                continue
            argument = self._arguments[mark - 1]
            offset = (at & ADDRESS).astype(np.int64) - self.start_of(int(mark) - 1)
            wrong = mine & ((offset < 0) | (offset + size > argument.nbytes))
            inside &= ~wrong
            if wrong.any():
                n, first = argument.nbytes // size, int(offset[wrong].flat[0]) // size
                self._refuse(argument, f"{how} element {first} of {n}")
            self._write_down(how, int(mark) - 1, mine, inside, offset[mine] // size, at, size)
        return inside

    def _write_down(
        self,
        how: str,
        argument: int,
        mine: Array,
        inside: Array,
        elements: Array,
        at: Array,
        size: int,
    ) -> None:
        frame = kernel_frame()
        place = frame.f_code.co_filename, frame.f_lineno
        lanes = np.where(mine, np.where(inside, TOUCHES, OUTSIDE), MASKED).astype(np.uint8)
        sectors = _sectors(at, mine, size)
        made = Access(self._me() - 1, place, argument, how, lanes, elements, size, *sectors)
        self.accesses.append(made)

    def _refuse(self, argument: Argument, text: str, hint: str = "") -> None:
        """Note what is wrong."""
        frame = kernel_frame()
        place = frame.f_code.co_filename, frame.f_lineno
        kind = re.sub(r"\d+", "", text)
        found = Finding(text, argument.parameter, argument.name, self._me() - 1, place)
        self.findings.setdefault((argument.parameter, kind, place), found)


def _sectors(at: Array, active: Array, size: int) -> tuple[int, int]:
    """Return how many sectors groups of 32 neighbours ask for, and how few would do.

    That neighbours along the last axis are lanes of one warp is assumed: how a tile is dealt out is
    up to the compiler.
    """
    flat = (at & ADDRESS).astype(np.int64).reshape(-1) // SECTOR
    on = active.reshape(-1)
    rest = -flat.size % WARP
    groups = np.pad(flat, (0, rest)).reshape(-1, WARP)
    live = np.pad(on, (0, rest)).reshape(-1, WARP)
    ordered = np.sort(np.where(live, groups, -1), axis=1)
    new = (ordered[:, 1:] != ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    asked = int(new.sum() + (ordered[:, 0] >= 0).sum())
    least = int(-(-live.sum(axis=1) * size // SECTOR).sum())
    return asked, least
