"""Convolutions whose weights stand in blocks of channels: constants for good, others in each run.

Images are taken into a place, unless windows read them where they lie. For some rows at a time and
all blocks a product goes to the result, through what follows if a tile can do it in registers; else
to a scratch, and from there through what follows, some blocks at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...blocks import aligned
from ...call import Call
from ..repeat import Turn
from .geometry import Lying, Padded, Slide, copied, offsets
from .lanes import LANES, compiled, tile_for
from .machine import machine, numbers
from .product import SCRATCH, TAPS_AT_ONCE, Giving, Job, Part, moving
from .rooms import is_constant, kept, shared
from .turning import turning

Array = np.ndarray[Any, Any]
SEEN = 1 << 20
"""Bytes of an image beyond which some of its rows go through all channels before the next ones."""
AT_A_TIME = 1 << 18
"""Bytes of such rows."""
SLOWER = 1.3
"""How many times as long products of ``taps`` take as their arithmetic: loads cross cache lines."""
SUMS = 1 << 11
"""Bytes of the sums of a tile: 32 registers."""
PASSING = 40
"""Cycles that a vector of results takes on its way through a scratch and what follows."""
PAYING = 256
"""Positions of all images from which on it pays to put a weight in order in each run."""


def vectors_for(
    weight: Array, channels: int, positions: int, taps: int, slide: Slide, after: Giving | None
) -> int:
    """Return how many vectors of channels blocks of a weight should have; 0: ``taps`` are faster.

    Windows give so many positions, those of all images.
    """
    has = machine(weight.dtype.char)
    if not has.masks or (positions < PAYING and not is_constant(weight)):
        return 0
    _, height, width = slide.n_out
    pitch = width + slide.kernel[2] // 2
    if slide.kernel == slide.stride == (1, 1, 1):
        height, width, pitch = 1, height * width, 0
    passing = 0.0 if after is None else PASSING * channels * height * width / has.width
    best, least = 0, SLOWER * taps * has.cycles(channels, (height - 1) * pitch + width) + passing
    for vectors in has.blocks:
        if channels >= vectors * has.width:
            _, cost = tile_for(has, vectors, channels, width, taps)
            is_whole = channels % (vectors * has.width) == 0
            passes = after is not None and not (is_whole and after.following)
            cost = cost * height + passing * passes
            best, least = (vectors, cost) if cost < least else (best, least)
    return best


@dataclass
class Blocks:
    """Kernels ``[channels, *taps]`` as ``[blocks, taps, n]``, and perhaps a bias.

    The last block is full, too: it has channels of the one before. Those of a ``constant`` are put
    in order here, others by calls, as the ``number``-th of a job.
    """

    given: Array
    operand: int
    vectors: int
    bias: Array | None = None
    number: int = 0
    constant: Array | None = None
    array: Array = field(init=False)
    n: int = field(init=False)

    def __post_init__(self) -> None:
        dtype, channels = self.given.dtype, len(self.given)
        self.n = self.vectors * machine(dtype.char).width
        self._shape = -(-channels // self.n), math.prod(self.given.shape[1:]), self.n
        if self.constant is None:
            self.array = shared(("blocks", self.number, self._shape, dtype), self._room)
        else:
            start = self.given.ctypes.data - self.constant.ctypes.data
            lie = start, self.given.shape, self.given.strides  # a transpose reads other numbers
            self._kept = kept(self.constant, (self._shape, lie), self._in_order)
            self.array = self._kept.array
        self.nothing = np.zeros(self.n, dtype)

    def taking(self) -> list[Call]:
        """Return the calls that put kernels in order, where they do not stand so for good."""
        if self.constant is not None:
            return []
        return [call for pair in self._pairs(self.array) for call in self._moving(*pair)]

    def _room(self) -> Array:
        dtype = self.given.dtype
        return aligned(math.prod(self._shape) * dtype.itemsize).view(dtype).reshape(self._shape)

    def _moving(self, given: Array, to: Array) -> list[Call]:
        if not given.flags.c_contiguous:
            return copied(given, to, self.operand)
        rows, turned = given.reshape(*given.shape[:2], -1), np.moveaxis(to, 1, -1)
        target = turned.reshape(len(to), -1, self.n).swapaxes(0, 1)
        return turning(rows, target, self.operand)

    def _in_order(self) -> Array:
        array = self._room()
        for some, to in self._pairs(array):
            to[...] = some
        return array

    def _pairs(self, array: Array) -> Iterator[tuple[Array, Array]]:
        """Yield kernels, and where they belong."""
        taps = self.given.shape[1:]
        target = np.moveaxis(array.reshape(len(array), *taps, self.n), -1, 1)
        whole, rest = divmod(len(self.given), self.n)
        if whole:
            given = self.given[: whole * self.n]
            yield given.reshape(whole, self.n, *taps), target[:whole]
        if rest:
            yield self.given[None, -self.n :], target[-1:]


@dataclass
class Blocked(Job[Blocks]):
    """What slides over images, some blocks of channels at a time; there is one group."""

    share: tuple[int, int] = (0, 1)
    """Which part of the rows of results it makes, and of how many."""

    @property
    def units(self) -> range:
        """All blocks."""
        return range(len(self.parts[0].rows.array))

    @property
    def grain(self) -> int:
        """Of how many blocks a piece is a multiple."""
        return 1

    def pieces(self, parts: int) -> list[Call]:
        """Return calls for some images, some blocks, or some rows, where there is one block."""
        if max(len(self.x), len(self.units)) >= parts:
            return super().pieces(parts)
        parts = min(parts, self.y.shape[3])
        jobs = [replace(self, share=(number, parts)) for number in range(parts)]
        every = range(len(self.x)), self.units
        return [job.call(*every, number) for number, job in enumerate(jobs)]

    def turns(self, first: int, n: int, units: range, piece: int) -> Iterator[Turn]:
        """Yield the calls of n images, from ``first`` on."""
        xs, ys = (a[first : first + n] for a in (self.x, self.y))
        place: Lying | Padded
        if self.is_lying:
            place = Lying(xs[0])
        else:
            place = self.place(xs.shape[1], n, piece)
            yield from moving(place.taking(xs), self.operands[0], self.x.strides[0] * n)
        for part in self.parts:
            into = ys[(slice(None), slice(None), *part.into)]
            height, seen = into.shape[3], place.channel * self.n_in
            some = -(-height // -(-seen // AT_A_TIME)) if seen > SEEN else height
            number, parts = self.share
            stop = height * (number + 1) // parts
            for start in range(height * number // parts, stop, some):
                rows = slice(start, min(start + some, stop))
                product = _Product(self, place, part, into[..., rows, :], rows, first, piece)
                yield from product.turns(units)


class _Product:
    """A product of kernels with what windows see in a place, for results ``[n, O, D, H, W]``."""

    def __init__(
        self,
        job: Blocked,
        place: Lying | Padded,
        part: Part[Blocks],
        into: Array,
        rows: slice,
        first: int,
        piece: int,
    ) -> None:
        self.job, self.place, self.part = job, place, part
        self.rows, self.first, self.piece = rows, first, piece
        self.offsets = offsets(place, job.n_in, part.taps)
        self.following = None
        if job.after is not None and job.n_out % part.rows.n == 0 and len(job.parts) == 1:
            self.following = job.after.following
        if self.following is not None:
            into = self.following.results[first : first + len(into), :, :, rows]
        self.into = into
        is_last = job.after is None or self.following is not None
        self.is_direct = is_last and into.strides[4] == into.itemsize

    def turns(self, units: range) -> Iterator[Turn]:
        """Yield the calls for some blocks: into the result, or into a scratch and from there."""
        n, job = self.part.rows.n, self.job
        if self.is_direct:
            some = slice(self._first(units.start), min(units.stop * n, job.n_out))
            yield self._turn(units, self.into[:, some])
            return
        images, _, *size = self.into.shape
        block = n * images * math.prod(size) * self.into.itemsize
        at_a_time = max(1, SCRATCH // block)
        for start in range(units.start, units.stop, at_a_time):
            blocks = range(start, min(start + at_a_time, units.stop))
            first, stop = self._first(start), min(blocks.stop * n, job.n_out)
            y = job.scratch((stop - first, images, *size), self.piece).swapaxes(0, 1)
            yield self._turn(blocks, y)
            seen, where = y[:, start * n - first :], slice(start * n, stop)
            if job.after is not None:
                yield from job.after.calls(seen, self.first, where, self.rows)
                continue
            moved = copied(self.into[:, where], seen, 0, back=True)
            yield from moving(moved, job.operands[1], job.y.strides[0] * images)

    def _first(self, block: int) -> int:
        """Return the first channel of a block; the last one is full, too."""
        n = self.part.rows.n
        return min(block * n, int(self.job.n_out) - n)

    def _turn(self, blocks: range, y: Array) -> Turn:
        """Return the product for some blocks, whose channels are all that y has."""
        job, place, kernels = self.job, self.place, self.part.rows
        item, (n, channels, depth, height, along) = y.itemsize, y.shape
        planes, x_plane, y_plane = depth, place.plane, y.strides[2]
        if n > 1:
            planes, y_plane = n, y.strides[0]
            x_plane = job.x.strides[0] if job.is_lying else place.plane
        rows, length = height, along
        if place.row == y.strides[3] == along * item:  # what is behind a row is the next one
            rows, length = 1, height * along
        char, taps = y.dtype.char, len(self.offsets)
        tile, _ = tile_for(machine(char), kernels.vectors, channels, length, taps)
        tiles = -(-length // tile.positions)
        sums = shared(("sums", self.piece), lambda: aligned(SUMS))
        bias, bias_step, slots = kernels.nothing, 0, list[tuple[int, int]]()
        if kernels.bias is not None:
            bias = kernels.bias[self._first(blocks.start) :]
            bias_step = item
            slots.append((LANES.index("bias"), kernels.operand + 1))
        steps = dict.fromkeys((operand for _, operand in slots), 0)
        if job.is_lying:
            slots.append((LANES.index("x"), job.operands[0]))
            steps[job.operands[0]] = job.x.strides[0] * n
        behind = list[int]()
        if self.following is not None:
            for slot, operand, array, step in self._others(blocks, n):
                slots.append((slot, operand))
                steps[operand] = step
                behind += [array.ctypes.data] if slot >= len(LANES) else []
        elif self.is_direct:
            slots.append((LANES.index("y"), job.operands[1]))
            steps[job.operands[1]] = job.y.strides[0] * n
        block = numbers(
            LANES,
            x=place.array.ctypes.data + self.rows.start * place.row,
            weights=kernels.array[blocks.start :].ctypes.data,
            bias=bias.ctypes.data,
            y=y.ctypes.data,
            offsets=self.offsets.ctypes.data,
            sums=sums.ctypes.data,
            taps=taps,
            blocks=len(blocks),
            planes=planes,
            rows=rows,
            tiles=tiles,
            length=length,
            channels=channels,
            x_plane=x_plane,
            x_row=place.row,
            y_plane=y_plane,
            y_row=y.strides[3],
            y_channel=y.strides[1],
            bias_step=bias_step,
            at_once=TAPS_AT_ONCE,
            ahead=-(-kernels.n * item // (planes * rows * tiles)),
        )
        held = place, kernels, y, self.offsets, sums
        tail = None if self.following is None else self.following.tail
        block = np.concatenate([block, np.array(behind, np.int64)])
        return Turn(Call(compiled(char, tile, tail), block, slots, held), steps)

    def _others(self, blocks: range, n: int) -> Iterator[tuple[int, int, Array, int]]:
        """Yield what a tail reads and writes: slot, operand, its part, and its step to n images."""
        assert self.following is not None
        tail, arrays = self.following.tail, self.following.arrays
        channel = self._first(blocks.start)
        places = [LANES.index("y"), *range(len(LANES), len(LANES) + len(tail.others))]
        for place, k in zip(places, [tail.kernel.n_inputs, *tail.others], strict=True):
            array, number = arrays[k], self.following.numbers[k]
            assert array is not None
            if tail.moves[k]:
                array = array[self.first :, channel:, :, self.rows.start :]
            elif tail.moves[k] is not None:
                array = array[channel:]
            yield place, number, array, array.strides[0] * n if tail.moves[k] else 0
