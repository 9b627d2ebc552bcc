"""What goes back to the weights of convolutions: products of the cotangent with padded images.

Vectors run along output channels, so each cotangent is turned first; where a group has few of
them, they run along positions.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....fuse.builder import FLOAT32, FLOAT64, Builder, Term
from ....fuse.ir import Kernel
from ....ops.convolutions.windows import Windows
from ....program.declined import DeclinedError
from ...call import Call
from ..bind import bind_kernel
from ..repeat import Turn, repeated, split
from .forward import cost_of, fit
from .geometry import Padded, Slide, copied, image, offsets, room
from .machine import machine, numbers
from .product import moving
from .rooms import shared
from .tiles import INNER, OUTER, compiled, taps_in_tile
from .turning import turning

Array = np.ndarray[Any, Any]
FEW = 4
"""Up to so many channels in a group, a quarter of a vector, vectors run along positions."""
AT_ONCE = 512
"""Positions whose products are added up in float32 before the sum goes to a total in float64, where
an image has more than twice as many."""
IMAGES = 256
"""Likewise images whose sums are added up."""


def bind_weight_grad(
    windows: Windows, groups: int, xs: Sequence[Array], ys: Sequence[Array]
) -> Sequence[Call] | None:
    """Return the calls of the gradient of a convolution's weight, from images and g; None: numpy's.

    The products of one image are added up in registers, and then to those of the images before;
    where there are many, they go to totals now and then.
    """
    x, g, dw = xs[0], xs[1], ys[0]
    if not fit(x, g, dw):
        return None
    slide = Slide.of(windows, x.shape[2:])
    few = len(dw) // groups <= FEW
    try:
        product = (_Inner if few else _Outer)(slide, groups, image(x), image(g), dw)
        whole = product.loop(0, product.tiles)
        cut = product.pieces if groups == 1 else None
        cost, label = cost_of(g, slide, groups, dw.shape)
        whole = replace(whole, cut=cut, cost=cost, label=f"weight of {label}")
        return [*product.clearing(), whole, *product.ending(), *product.giving(len(xs))]
    except DeclinedError:
        return None


class _WeightProduct:
    """The gradient of a weight, in tiles of taps that are computed apart, image by image."""

    def __init__(self, slide: Slide, groups: int, x: Array, g: Array, into: Array) -> None:
        self.slide, self.groups, self.x, self.given, self.into = slide, groups, x, g, into
        self.dtype, self.channels, n_in = into.dtype, len(into) // groups, into.shape[1]
        self.machine = machine(self.dtype.char)
        place = self._place()
        found = offsets(place, n_in, slide.taps())
        self.taps = len(found)
        self.at_once = taps_in_tile(self.taps)
        self.tiles = -(-self.taps // self.at_once)
        self.offsets = np.zeros(self.tiles * self.at_once, np.int64)
        self.offsets[: self.taps] = found
        depth, height, self.length = slide.n_out
        starts = np.arange(depth)[:, None] * place.plane + np.arange(height) * place.row
        self.starts = np.ascontiguousarray(starts.reshape(-1), np.int64)
        self.dw = self._results()
        self.parts = self._cut()
        is_long = self.dtype == np.float32 and (len(self.parts) > 1 or len(x) > IMAGES)
        self.totals = np.empty(self.dw.shape) if is_long else None

    def _place(self, piece: int = 0) -> Padded:
        slide, channels = self.slide, self.x.shape[1]
        sizes = slide.n_in, slide.before, slide.after, slide.stride
        key = piece, channels, slide, "weight", self.dtype
        return shared(key, lambda: Padded(channels, *sizes, self.dtype))

    def _room(self, *shape: int) -> Array:
        return shared((shape, self.dtype), lambda: np.empty(shape, self.dtype))

    def _cut(self) -> list[tuple[slice, slice]]:
        """Return parts of an image, some rows or some columns of one, that have few positions."""
        rows, most = len(self.starts), AT_ONCE * self._along()
        if self.dtype != np.float32 or rows * self.length <= 2 * most:
            return [(slice(0, rows), slice(0, self.length))]
        at_once, columns = max(1, most // self.length), min(most, self.length)
        return [
            (slice(r, min(r + at_once, rows)), slice(c, min(c + columns, self.length)))
            for r in range(0, rows, at_once)
            for c in range(0, self.length, columns)
        ]

    def _along(self) -> int:
        """Return how many positions are taken at a time."""
        return 1

    def _seed_step(self, seeds: Array) -> int:
        """Return how many bytes there are from one position of the cotangent to the next."""
        raise NotImplementedError

    def _of(self, results: Array, tile: slice) -> Array:
        """Return the results of some taps."""
        raise NotImplementedError

    def _results(self) -> Array:
        """Return room for the results."""
        raise NotImplementedError

    def _seeds(self) -> tuple[int, ...]:
        """Return the shape of room for the cotangent of one image."""
        raise NotImplementedError

    def _taking(self, g: Array, seeds: Array) -> list[Call]:
        """Return the calls that copy a cotangent ``[G, channels, *size]``."""
        raise NotImplementedError

    def _call(self, seeds: Array, **values: int) -> Call:
        """Return the call of the product, whose block has these and other values."""
        raise NotImplementedError

    def clearing(self) -> list[Call]:
        """Return the calls that begin a run: nothing has been added up yet."""
        calls = []
        for made in (self.dw, self.totals):
            if made is not None:
                nothing = np.broadcast_to(np.zeros((), made.dtype), made.shape)
                calls += copied(nothing, made, None)
        return calls

    def adding(self, first: int, stop: int) -> list[Call]:
        """Return the calls that add the results of some tiles to their totals, and clear them."""
        if self.totals is None:
            return []
        tile = slice(first * self.at_once, stop * self.at_once)
        dw, totals = self._of(self.dw, tile), self._of(self.totals, tile)
        return _bound(_adding(dw.ndim), [totals, dw, totals, dw])

    def ending(self) -> list[Call]:
        """Return the calls that turn totals into results."""
        if self.totals is None:
            return []
        return _bound(_ending(self.dw.ndim), [self.totals, self.dw, self.dw])

    def loop(self, first: int, stop: int, piece: int = 0) -> Call:
        """Return the loop over images for some of the tiles, for all groups only if all."""
        place, shape, x, given = self._place(piece), self._seeds(), self.x, self.given
        seeds = shared((piece, shape, self.dtype), lambda: room(shape, self.dtype))
        moved = [Turn(call, {}) for call in self.adding(first, stop)]
        products = []
        for rows, columns in self.parts:
            at = rows.start * self.length + columns.start
            call = self._call(
                seeds,
                x=place.array.ctypes.data + columns.start * self.dtype.itemsize,
                g=seeds.ctypes.data + at * self._seed_step(seeds),
                offsets=self.offsets[first * self.at_once :].ctypes.data,
                starts=self.starts[rows].ctypes.data,
                groups=self.groups,
                tiles=stop - first,
                rows=rows.stop - rows.start,
                length=columns.stop - columns.start,
                x_group=len(place.array) // self.groups * place.channel,
                dw=self._tile(first).ctypes.data,
            )
            products.append(Turn(replace(call, held=(self, place, seeds)), {}))
            products += moved if len(self.parts) > 1 else []

        def images(start: int, n: int) -> Call:
            g = given[start].reshape(self.groups, self.channels, *self.slide.n_out)
            turns = moving(place.taking(x[start : start + 1]), 0, x.strides[0])
            turns += moving(self._taking(g, seeds), 1, given.strides[0])
            return repeated(n, [*turns, *products])

        if len(self.parts) > 1 or not moved:
            return images(0, len(x))
        times, rest = divmod(len(x), IMAGES)
        some = Turn(images(0, IMAGES), {0: IMAGES * x.strides[0], 1: IMAGES * given.strides[0]})
        loops = [repeated(times, [some, *moved])]
        loops += [images(times * IMAGES, rest)] if rest else []
        return repeated(1, [Turn(call, {0: 0, 1: 0}) for call in loops])

    def _tile(self, first: int) -> Array:
        """Return the results from a tile on."""
        raise NotImplementedError

    def pieces(self, n: int) -> list[Call]:
        """Return loops over some of the tiles each, which may run at the same time."""
        cuts = split(range(self.tiles), n)
        return [self.loop(r.start, r.stop, p) for p, r in enumerate(cuts)] if len(cuts) > 1 else []

    def giving(self, operand: int) -> list[Call]:
        """Return the calls that copy the gradient ``[G, channels, n_in, *kernel]`` to its place."""
        into = self.into.reshape(self.groups, self.channels, -1, *self.slide.kernel)
        return copied(into, self._made().reshape(into.shape), operand, back=True)

    def _made(self) -> Array:
        """Return the results as ``[G, channels, taps]``."""
        raise NotImplementedError


class _Outer(_WeightProduct):
    """Results are ``[G, taps, channels]``, channels in whole vectors."""

    def _seed_step(self, seeds: Array) -> int:
        return seeds.strides[2]

    def _of(self, results: Array, tile: slice) -> Array:
        return results[:, tile]

    def _results(self) -> Array:
        vectors = -(-self.channels // self.machine.width)
        self.at_a_time = min(vectors, self.machine.columns)
        self.columns = -(-vectors // self.at_a_time)
        self.wide = self.columns * self.at_a_time * self.machine.width
        return self._room(self.groups, self.tiles * self.at_once, self.wide)

    def _seeds(self) -> tuple[int, ...]:
        return *self.slide.n_out, self.groups, self.wide

    def _taking(self, g: Array, seeds: Array) -> list[Call]:
        return turning(g, seeds, 0)

    def _tile(self, first: int) -> Array:
        return self.dw[0, first * self.at_once :]

    def _call(self, seeds: Array, **values: int) -> Call:
        steps = {"g_step": seeds.strides[2], "dw_step": self.dw.strides[1]}
        block = numbers(OUTER, columns=self.columns, **steps, **values)
        return Call(compiled("outer", self.dtype.char, self.at_once, self.at_a_time), block, [])

    def _made(self) -> Array:
        return self.dw[:, : self.taps, : self.channels].swapaxes(1, 2)


class _Inner(_WeightProduct):
    """Results are ``[G, channels, taps]``."""

    def _along(self) -> int:
        return self.machine.width // 4 or 1

    def _seed_step(self, seeds: Array) -> int:
        return seeds.strides[-1]

    def _of(self, results: Array, tile: slice) -> Array:
        return results[..., tile]

    def _results(self) -> Array:
        return self._room(self.groups, self.channels, self.tiles * self.at_once)

    def _seeds(self) -> tuple[int, ...]:
        return self.groups, self.channels, *self.slide.n_out

    def _taking(self, g: Array, seeds: Array) -> list[Call]:
        return copied(g, seeds, 0)

    def _tile(self, first: int) -> Array:
        return self.dw[0, 0, first * self.at_once :]

    def _call(self, seeds: Array, **values: int) -> Call:
        steps = {"g_row": seeds.strides[3], "g_channel": seeds.strides[1]}
        steps["dw_step"] = self.dw.strides[1]
        block = numbers(INNER, channels=self.channels, **steps, **values)
        return Call(compiled("inner", self.dtype.char, self.at_once), block, [])

    def _made(self) -> Array:
        return self.dw[..., : self.taps]


def _bound(kernel: Kernel, arrays: Sequence[Array]) -> list[Call]:
    """Return the calls of a kernel on memory of our own."""
    calls = bind_kernel(kernel, arrays[0].shape, arrays)
    if calls is None:
        raise DeclinedError
    return [replace(call, slots=[], cut=None) for call in calls]


def _sums(rank: int) -> tuple[Builder, tuple[int, ...], Term]:
    """Return a builder, all axes, and float64 totals with float32 sums added."""
    axes = tuple(range(rank))
    b = Builder(rank, rank)
    total, part = b.load("total", axes, FLOAT64), b.load("part", axes, FLOAT32)
    return b, axes, total + part.to(FLOAT64)


@functools.cache
def _adding(rank: int) -> Kernel:
    """Return the kernel that adds sums to totals, and clears them."""
    b, axes, both = _sums(rank)
    nothing = b.const(0, FLOAT32)
    kernel, _ = b.kernel([(both, axes, "set", FLOAT64), (nothing, axes, "set", FLOAT32)])
    return replace(kernel, in_place=((2, 0), (3, 1)))


@functools.cache
def _ending(rank: int) -> Kernel:
    """Return the kernel that stores totals and what was not yet added where sums are."""
    b, axes, both = _sums(rank)
    kernel, _ = b.kernel([(both, axes, "set", FLOAT32)])
    return replace(kernel, in_place=((2, 1),))
