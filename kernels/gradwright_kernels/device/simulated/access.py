"""What the simulated device looks at: each access of a launch to memory.

The address of the k-th array carries k in its upper byte. Pointer arithmetic keeps it, so an access
tells which array it began with, also where it ends in another one. What goes wrong is an error that
names the kernel, the program, the line and the array.

Programs of a launch run one after the other here and in any order on a GPU. For each element that a
launch touches it is kept which program wrote it, and which one read it, or that several did. So two
programs of which one writes what the other touches are found in whatever order they run. That goes
by the first byte of an element: arrays of one memory but of elements of two sizes are not compared.
"""

from __future__ import annotations

import bisect
import linecache
import sys
from types import FrameType
from typing import Any

import numpy as np

from gradwright.errors import LoweringError

from ..cuda import Launch
from .interpret import Watch, program
from .memory import Block, Blocks
from .streams import Moment, Streams

Array = np.ndarray[Any, Any]
MARK, ADDRESS = 56, np.uint64((1 << 56) - 1)
MOST_ARRAYS = 255
_OURS = "triton.", __name__.rpartition(".")[0], "gradwright_kernels.seen."
SEVERAL = -1
"""What stands for more than one program."""


class Argument:
    """An array that a launch has: where it lies, and which part of it was read and written."""

    def __init__(self, parameter: str, name: str, block: Block, start: int, nbytes: int) -> None:
        self.parameter, self.name, self.block = parameter, name, block
        self.start, self.nbytes = start, nbytes
        self.read: tuple[int, int] | None = None
        self.wrote: tuple[int, int] | None = None

    def touched(self, low: int, high: int, *, writes: bool) -> None:
        """Widen the range of bytes that was read or written."""
        held = self.wrote if writes else self.read
        span = (low, high) if held is None else (min(low, held[0]), max(high, held[1]))
        if writes:
            self.wrote = span
        else:
            self.read = span


class Touched:
    """For each byte of a block the program of a launch that wrote it, and that read it; 0: none."""

    def __init__(self, nbytes: int) -> None:
        self.writer = np.zeros(nbytes, np.int32)
        self.reader = np.zeros(nbytes, np.int32)


class Looking(Watch):
    """Looks at each access of one launch."""

    def __init__(self, launch: Launch, addresses: list[int], blocks: Blocks) -> None:
        self._launch, self._blocks = launch, blocks
        pointers = launch.function.call.pointers
        if len(pointers) > MOST_ARRAYS:
            raise LoweringError(
                f"{launch.name} takes {len(pointers)} arrays", need=f"at most {MOST_ARRAYS}"
            )
        self._arguments = []
        self._found: dict[int, Argument] = {}
        """Arrays whose addresses were read in memory, by where they begin."""
        self._followed = sorted(launch.followed, key=lambda array: array[1])
        self._touched: dict[int, Touched] = {}
        named = zip(pointers, launch.tensors, addresses, strict=True)
        for (parameter, _), (name, low, nbytes), address in named:
            what = f"{launch.name} takes {name or parameter}"
            block = blocks.alive(address + low, nbytes, what)
            start = address + low - block.base
            self._arguments.append(Argument(parameter, name, block, start, nbytes))
        self.addresses = [a | n << MARK for n, a in enumerate(addresses, 1)]

    def load(self, at: Array, mask: Array, dtype: np.dtype[Any]) -> Array:
        """Refuse to read what is not there, not written, or written by another program."""
        for argument, places in self._places(at, mask, dtype.itemsize, "loads"):
            unset = argument.block.unwritten(places, dtype.itemsize)
            if unset.any():
                element = (int(places[unset][0]) - argument.start) // dtype.itemsize
                self._refuse(argument, f"loads element {element}, which nobody has written")
            touched, me = self._touches(argument.block), self._me()
            writer, reader = touched.writer[places], touched.reader[places]
            if ((writer != 0) & (writer != me)).any():
                self._refuse(argument, "loads what another program of the launch writes")
            touched.reader[places] = np.where((reader == 0) | (reader == me), me, SEVERAL)
        return at & ADDRESS

    def store(self, at: Array, mask: Array, values: Array) -> Array:
        """Refuse to write what is not there, or what another program touches."""
        size = values.dtype.itemsize
        for argument, places in self._places(at, mask, size, "stores"):
            self._disagree(argument, at, mask, values)
            touched, me = self._touches(argument.block), self._me()
            writer, reader = touched.writer[places], touched.reader[places]
            if ((writer != 0) & (writer != me)).any():
                self._refuse(argument, "stores what another program of the launch stores, too")
            if ((reader != 0) & (reader != me)).any():
                self._refuse(argument, "stores what another program of the launch loads")
            touched.writer[places] = me
            argument.block.write(places, size)
        return at & ADDRESS

    def atomic(self, at: Array, mask: Array, dtype: np.dtype[Any]) -> Array:
        """Refuse to change what is not there; several programs may."""
        for argument, places in self._places(at, mask, dtype.itemsize, "changes"):
            if argument.block.unwritten(places, dtype.itemsize).any():
                self._refuse(argument, "changes elements that nobody has written")
            touched = self._touches(argument.block)
            if ((touched.writer[places] > 0) & (touched.writer[places] != self._me())).any():
                self._refuse(argument, "changes what another program of the launch stores")
            touched.writer[places] = SEVERAL
            low, high = int(places.min()), int(places.max()) + dtype.itemsize
            argument.touched(low, high, writes=True)
        return at & ADDRESS

    def order(self, streams: Streams, moment: Moment) -> None:
        """Hold what the launch has touched against other streams."""
        for argument in (*self._arguments, *self._found.values()):
            for span, writes in ((argument.read, False), (argument.wrote, True)):
                if span is not None:
                    streams.use(argument.block, *span, moment, writes=writes)

    # -- what all have in common -----------------------------------------------------------------

    def _places(self, at: Array, mask: Array, size: int, how: str) -> list[tuple[Argument, Array]]:
        """Return the arrays that are gone to, and where in their blocks, all within them."""
        active = at[np.broadcast_to(mask, at.shape)]
        if not active.size:
            return []
        marks = active >> np.uint64(MARK)
        found = []
        for mark in [marks[0]] if (marks == marks[0]).all() else np.unique(marks):
            mine = active[marks == mark] & ADDRESS
            argument = self._argument(int(mark), int(mine[0]))
            places = mine.astype(np.int64) - argument.block.base
            low, high = int(places.min()), int(places.max())
            first = argument.start
            if low < first or high + size > first + argument.nbytes:
                element = ((low if low < first else high) - first) // size
                self._refuse(
                    argument,
                    f"{how} element {element} of {argument.nbytes // size}",
                    "a mask that ends where the array does",
                )
            if ((places - first) % size).any() or (places % size).any():
                self._refuse(argument, f"{how} elements that are no multiple of {size} bytes")
            argument.touched(low, high + size, writes=how == "stores")
            found.append((argument, places))
        return found

    def _argument(self, mark: int, address: int) -> Argument:
        """Return the array behind a mark; an address without one was read from memory."""
        if mark:
            return self._arguments[mark - 1]
        at = bisect.bisect(self._followed, address, key=lambda array: array[1]) - 1
        name, start, nbytes = self._followed[at] if at >= 0 else ("", address, 1)
        what = f"{self._launch.name} follows a pointer"
        block = self._blocks.alive(address if at < 0 else start, nbytes, what)
        if at < 0:
            start, nbytes = block.base, block.nbytes
        if start not in self._found:
            first = start - block.base
            self._found[start] = Argument("a pointer in memory", name, block, first, nbytes)
        return self._found[start]

    def _touches(self, block: Block) -> Touched:
        """Return who has touched a block; pages of it that nobody has take no memory."""
        if block.base not in self._touched:
            self._touched[block.base] = Touched(max(block.nbytes, 1))
        return self._touched[block.base]

    def _disagree(self, argument: Argument, at: Array, mask: Array, values: Array) -> None:
        """Refuse two lanes of one store that write different numbers to one element."""
        active = np.broadcast_to(mask, at.shape)
        places, given = at[active], np.broadcast_to(values, at.shape)[active]
        order = np.argsort(places, kind="stable")
        places, given = places[order], given[order]
        twice = places[1:] == places[:-1]
        if twice.any():
            kind = f"u{given.dtype.itemsize}" if given.dtype.kind == "f" else given.dtype
            bits = given.view(kind)
            if (bits[1:][twice] != bits[:-1][twice]).any():
                self._refuse(argument, "stores different numbers in one element at once")

    def _me(self) -> int:
        x, y, z = program()
        nx, ny, _ = self._launch.function.call.grid
        return x + nx * (y + ny * z) + 1

    def _refuse(self, argument: Argument, text: str, hint: str = "") -> None:
        """Raise what is wrong with an access; who looks on may note it instead."""
        name = f": {argument.name!r}" if argument.name else ""
        raise LoweringError(
            f"{self._launch.name} {text}",
            facts=[f"{argument.parameter}{name}", f"program {program()}, {_line()}"],
            hint=hint,
        )


def kernel_frame() -> FrameType:
    """Return the frame of the kernel that is being run."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(_OURS):
            break
        frame = frame.f_back
    return frame


def _line() -> str:
    """Return the line of the kernel that is being run, with its text."""
    frame = kernel_frame()
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line, frame.f_globals).strip()
    return f"{file.rpartition('/')[2]}:{line}: {text}"
