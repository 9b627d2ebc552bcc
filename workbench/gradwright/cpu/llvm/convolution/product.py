"""Products of kernels with windows of a few images, and what becomes of their results.

    images are taken into a place, unless windows read them where they lie
    for some channels, or some groups:  product → scratch → the result, through what follows it
                                        product → the result, where nothing else is to be done

The scratch stays in the cache of a core. Every element of a result is computed in one way, however
images, channels and groups are cut.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np

from ...call import Call
from ..repeat import Turn, repeated, split
from .geometry import Axes, Lying, Padded, Panels, Place, copied, offsets, room
from .machine import machine, numbers
from .rooms import shared
from .tails import Following
from .tiles import TAPS, compiled

Array = np.ndarray[Any, Any]
SCRATCH = 1 << 18
"""Bytes of a scratch: half of a small second-level cache."""
LARGEST = 1 << 20
"""Bytes of rows that are put in order at a time, at most."""
DEEP, WORTH = 128, 32
"""Channels read, and made, from which on an image is put in order: what a tile reads of fewer stays
in the first cache as it lies."""
TAPS_AT_ONCE = 512
"""Products that are added up one by one, before their sum goes to the result."""
FULL = 12
"""Vectors of positions from which on images are taken one by one."""


@dataclass(frozen=True)
class Giving:
    """What follows a product, by calls or in registers."""

    calls: Callable[[Array, int, slice, slice], list[Turn]]
    """Gives those that take ``seen[n, channels, D, rows, W]`` from a scratch to where it belongs:
    of images from a number on, some channels, and some rows."""
    following: Following | None = None


@dataclass
class Rows:
    """Kernels ``[G, channels, *taps]``, those of a channel in a row, and perhaps a bias.

    They are read where they lie, in an operand, or copied first, as the ``number``-th of a job. If
    the operand is None, they are ours.
    """

    given: Array
    operand: int | None
    bias: Array | None = None
    number: int = 0
    array: Array = field(init=False)

    def __post_init__(self) -> None:
        groups, channels, *taps = self.given.shape
        rows, dtype = (groups, channels, math.prod(taps)), self.given.dtype
        self.is_read = self.operand is None or self.given.flags.c_contiguous
        if self.is_read:
            self.array = self.given.reshape(rows)
        else:
            key = "rows", self.number, rows, dtype
            self.array = shared(key, lambda: np.empty(rows, dtype))
        self.nothing = np.zeros(1, dtype)

    def taking(self) -> list[Call]:
        """Return the calls that copy the kernels, where that is needed."""
        if self.is_read:
            return []
        return copied(self.given, self.array.reshape(self.given.shape), self.operand)


R = TypeVar("R")


@dataclass
class Part(Generic[R]):
    """Kernels, where their taps are in padded images, and which elements they are for."""

    rows: R
    taps: Sequence[Axes]
    into: tuple[slice, slice, slice] = (slice(None),) * 3


@dataclass
class Job(Generic[R]):
    """What slides over images ``x[N, C, D, H, W]`` and gives ``y[N, O, D, H, W]``.

    ``place(channels, images, piece)`` makes a place for some; ``after`` is what follows.
    """

    x: Array
    y: Array
    operands: tuple[int, int]
    groups: int
    parts: Sequence[Part[R]]
    place: Callable[[int, int, int], Padded]
    is_lying: bool
    after: Giving | None = None

    def __post_init__(self) -> None:
        self.dtype, self.width = self.y.dtype, machine(self.y.dtype.char).width
        self.n_in, self.n_out = self.x.shape[1] // self.groups, self.y.shape[1] // self.groups
        positions = math.prod(self.y.shape[3:])
        flat = self.x.shape[2] == self.y.shape[2] == 1
        self.at_once = max(1, FULL * self.width // positions) if flat else 1
        """How many images a product takes."""

    def call(self, images: range, units: range, piece: int = 0) -> Call:
        """Return the loop over some images, for some channels, or some groups if there are many."""
        n = max(1, min(self.at_once, len(images)))
        times, rest = divmod(len(images), n)
        loops = [self._loop(images.start, n, times, units, piece)]
        if rest:
            loops.append(self._loop(images.start + times * n, rest, 1, units, piece))
        if not rest:
            return loops[0]
        return repeated(1, [Turn(c, {o: 0 for _, o in c.slots}) for c in loops])

    def pieces(self, parts: int) -> list[Call]:
        """Return calls for some images each, or for some of the channels or groups."""
        n = len(self.x)
        if n >= parts:
            cuts = [(r, self.units) for r in split(range(n), parts)]
        else:
            cuts = [(range(n), r) for r in split(self.units, parts, self.grain)]
        return [self.call(*cut, piece) for piece, cut in enumerate(cuts)]

    @property
    def units(self) -> range:
        """All channels, or all groups."""
        return range(self.groups if self.groups > 1 else self.n_out)

    @property
    def grain(self) -> int:
        """Of how many of them a piece is a multiple."""
        return 1 if self.groups > 1 else max(machine(self.dtype.char).shapes)

    def turns(self, first: int, n: int, units: range, piece: int) -> Iterator[Turn]:
        """Yield the calls of n images, from ``first`` on."""
        return _Turns(self, first, n, piece).all(units)

    def scratch(self, shape: Sequence[int], piece: int) -> Array:
        """Return memory for results; what is read has been written, so that its start is any."""
        items = math.prod(shape)
        size = max(SCRATCH // self.dtype.itemsize, items)
        key = "scratch", piece, size, self.dtype
        return shared(key, lambda: room((size,), self.dtype))[:items].reshape(shape)

    def _loop(self, first: int, n: int, times: int, units: range, piece: int) -> Call:
        return repeated(times, list(self.turns(first, n, units, piece)))


class _Turns:
    """The calls of n images, from ``first`` on."""

    def __init__(self, job: Job[Any], first: int, n: int, piece: int) -> None:
        self.job, self.first, self.n, self.piece = job, first, n, piece
        self.is_lying = job.is_lying and n == 1

    def all(self, units: range) -> Iterator[Turn]:
        job = self.job
        if job.groups == 1:
            yield from self._group(range(1), units)
            return
        image = math.prod(job.x.shape[2:]) * job.n_in + math.prod(job.y.shape[2:]) * job.n_out
        some = max(1, SCRATCH // (image * self.n * job.dtype.itemsize))
        for start in range(0, len(units), some):
            yield from self._group(units[start : start + some], range(job.n_out))

    def _group(self, groups: range, channels: range) -> Iterator[Turn]:
        """Yield the calls of some groups, for some channels of each."""
        job, n_in = self.job, self.job.n_in
        xs = job.x[self.first : self.first + self.n]
        xs = xs[:, groups.start * n_in : groups.stop * n_in]
        operand, step = job.operands[0], job.x.strides[0] * self.n
        if not self.is_lying:
            place = job.place(xs.shape[1], self.n, self.piece)
            yield from moving(place.taking(xs), operand, step)
            yield from self._products(place, groups, channels, slice(None))
            return
        height = self._rows_at_once(groups, channels)
        if height == 0:
            yield from self._products(Lying(xs[0]), groups, channels, slice(None))
            return
        for start in range(0, xs.shape[3], height):
            some = xs[..., start : start + height, :]
            key = "panels", self.piece, some.shape[1:], job.dtype
            panels = shared(key, functools.partial(Panels, some))
            yield from moving(panels.taking(some), operand, step)
            yield from self._products(panels, groups, channels, slice(start, start + height))

    def _rows_at_once(self, groups: range, channels: range) -> int:
        """Return how many rows of an image become panels at a time; 0: it is read as it lies."""
        job = self.job
        depth, height, along = size = job.x.shape[2:]
        if len(groups) > 1 or job.y.shape[2:] != size or depth > 1:
            return 0
        if job.n_in < DEEP or len(channels) < WORTH or height * along < FULL * self.job.width:
            return 0
        row = job.n_in * along * job.dtype.itemsize
        most = max(1, SCRATCH // row, -(-FULL * self.job.width // along))
        some = -(-height // -(-height // most))
        return some if some * row <= LARGEST else 0

    def _products(
        self, place: Place, groups: range, channels: range, rows: slice
    ) -> Iterator[Turn]:
        job = self.job
        for part in job.parts:
            into = job.y[(slice(self.first, self.first + self.n), slice(None), *part.into)]
            product = _Product(self, place, part, into[..., rows, :], rows)
            if product.is_direct:
                yield product.turn(groups, channels, None)
                continue
            at_a_time = machine(job.dtype.char).rows(len(channels), product.length)
            some = max(1, SCRATCH // product.bytes // at_a_time) * at_a_time
            some = len(channels) if len(groups) > 1 else some
            for start in range(0, len(channels), some):
                chunk = channels[start : start + some]
                y = job.scratch((len(groups), len(chunk), *product.shape), self.piece)
                yield product.turn(groups, chunk, y)
                yield from product.giving(groups, chunk, y)


class _Product:
    """A product of kernels with what windows see in a place, for results ``[n, O, D, H, W]``."""

    def __init__(
        self, turns: _Turns, place: Place, part: Part[Rows], into: Array, rows: slice
    ) -> None:
        self.job, self.turns, self.place, self.part, self.into = turns.job, turns, place, part, into
        self.rows = rows
        item, width = into.itemsize, turns.job.width
        depth, height, along = into.shape[2:]
        self.offsets = offsets(place, turns.job.n_in, part.taps)
        self.length = (height - 1) * (place.row // item) + along
        if depth == 1:
            self.length += (turns.n - 1) * (place.plane // item)
        self.shape = depth, -(-self.length // width) * width
        self.bytes = math.prod(self.shape) * item
        is_dense = place.row == along * item or height == 1
        self.is_direct = (
            turns.job.after is None
            and turns.n == 1
            and is_dense
            and machine(into.dtype.char).masks
            and into[0, 0].flags.c_contiguous
        )

    def turn(self, groups: range, channels: range, y: Array | None) -> Turn:
        """Return the product for some channels of some groups, into y or into the result."""
        job, place, rows, into = self.job, self.place, self.part.rows, self.into
        kernels = rows.array[groups.start, channels.start :]
        slots = []
        if rows.is_read and rows.operand is not None:
            slots.append((TAPS.index("weights"), rows.operand))
        if rows.bias is None or rows.operand is None:
            bias, bias_step = rows.nothing, 0
        else:
            bias = rows.bias[groups.start * job.n_out + channels.start :]
            bias_step = bias.strides[0]
            slots.append((TAPS.index("bias"), rows.operand + 1))
        steps = dict.fromkeys((operand for _, operand in slots), 0)
        if isinstance(place, Lying):
            slots.append((TAPS.index("x"), job.operands[0]))
            steps[job.operands[0]] = job.x.strides[0] * self.turns.n
        if y is None:
            result = into[0, groups.start * job.n_out + channels.start :]
            y_row, y_plane = into.strides[1], math.prod(into.shape[3:]) * into.itemsize
            slots.append((TAPS.index("y"), job.operands[1]))
            steps[job.operands[1]] = job.y.strides[0] * self.turns.n
        else:
            result, y_row, y_plane = y, y.strides[1], y.strides[2]
        block = numbers(
            TAPS,
            x=place.array.ctypes.data,
            weights=kernels.ctypes.data,
            bias=bias.ctypes.data,
            y=result.ctypes.data,
            offsets=self.offsets.ctypes.data,
            taps=len(self.offsets),
            groups=len(groups),
            planes=self.shape[0],
            channels=len(channels),
            length=self.length,
            x_group=job.n_in * place.channel,
            x_plane=place.plane,
            y_row=y_row,
            y_plane=y_plane,
            w_row=rows.array.strides[1],
            bias_step=bias_step,
            at_once=TAPS_AT_ONCE,
            x_vector=place.vector,
        )
        at_a_time = machine(job.dtype.char).rows(len(channels), self.length)
        code = compiled("taps", job.dtype.char, at_a_time)
        return Turn(Call(code, block, slots, (place, rows, y, self.offsets)), steps)

    def giving(self, groups: range, channels: range, y: Array) -> Iterator[Turn]:
        """Yield the calls that take results from y to where they belong."""
        job, place, n = self.job, self.place, self.turns.n
        item = y.itemsize
        shape = (n, len(groups) * len(channels), *self.into.shape[2:])
        steps = (place.plane, y.strides[1], y.strides[2], place.row, item)
        seen: Array = np.ndarray(shape, y.dtype, y, 0, steps)
        first = groups.start * job.n_out + channels.start
        where = slice(first, first + shape[1])
        if job.after is not None:
            yield from job.after.calls(seen, self.turns.first, where, self.rows)
            return
        moved = copied(self.into[:, where], seen, 0, back=True)
        yield from moving(moved, job.operands[1], job.y.strides[0] * n)


def moving(calls: Iterable[Call], operand: int, step: int) -> list[Turn]:
    """Return calls whose one operand has a number and moves by so many bytes each turn."""
    return [
        Turn(replace(call, slots=[(slot, operand) for slot, _ in call.slots]), {operand: step})
        for call in calls
    ]
