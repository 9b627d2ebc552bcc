"""What goes back to the weights of convolutions: products of the cotangent with padded images.

Vectors run along output channels, so each cotangent is turned first; where a group has few of
them, they run along positions.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...lowering import Call
from ...ops.windows import Windows
from ..repeat import Turn, repeated
from .forward import cost_of, fit, moving
from .geometry import DeclinedError, Padded, Slide, copied, image, room
from .tiles import INNER, OUTER, compiled, machine, numbers, taps_in_tile
from .turning import turning

Array = np.ndarray[Any, Any]
FEW = 4
"""Up to so many channels in a group, a quarter of a vector, vectors run along positions."""


def bind_weight_grad(
    windows: Windows, groups: int, xs: Sequence[Array], ys: Sequence[Array]
) -> Sequence[Call] | None:
    """Return the calls of the gradient of a convolution's weight, from images and g; None: numpy's.

    The products of one image are added up in registers, and then to those of the images before.
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
        return [*product.clearing(), whole, *product.giving(len(xs))]
    except DeclinedError:
        return None


class _WeightProduct:
    """The gradient of a weight, in tiles of taps that are computed apart, image by image."""

    def __init__(self, slide: Slide, groups: int, x: Array, g: Array, into: Array) -> None:
        self.slide, self.groups, self.x, self.given, self.into = slide, groups, x, g, into
        self.dtype, self.channels, n_in = into.dtype, len(into) // groups, into.shape[1]
        self.machine = machine(self.dtype.char)
        place = self._place()
        offsets = place.offsets(n_in, slide.taps())
        self.taps = len(offsets)
        self.at_once = taps_in_tile(self.taps)
        self.tiles = -(-self.taps // self.at_once)
        self.offsets = np.zeros(self.tiles * self.at_once, np.int64)
        self.offsets[: self.taps] = offsets
        depth, height, self.length = slide.n_out
        starts = np.arange(depth)[:, None] * place.plane + np.arange(height) * place.row
        self.starts = np.ascontiguousarray(starts.reshape(-1), np.int64)
        self.dw = self._results()

    def _place(self) -> Padded:
        slide = self.slide
        return Padded(
            self.x.shape[1], slide.n_in, slide.before, slide.after, slide.stride, self.dtype
        )

    def _results(self) -> Array:
        """Return room for the results."""
        raise NotImplementedError

    def _seeds(self) -> Array:
        """Return room for the cotangent of one image."""
        raise NotImplementedError

    def _taking(self, g: Array, seeds: Array) -> list[Call]:
        """Return the calls that copy a cotangent ``[G, channels, *size]``."""
        raise NotImplementedError

    def _call(self, seeds: Array, **values: int) -> Call:
        """Return the call of the product, whose block has these and other values."""
        raise NotImplementedError

    def clearing(self) -> list[Call]:
        """Return the calls that begin a run: nothing has been added up yet."""
        return copied(np.broadcast_to(np.zeros((), self.dtype), self.dw.shape), self.dw, None)

    def loop(self, first: int, stop: int) -> Call:
        """Return the loop over images for some of the tiles, for all groups only if all."""
        place, seeds, x = self._place(), self._seeds(), self.x
        g = self.given[0].reshape(self.groups, self.channels, *self.slide.n_out)
        call = self._call(
            seeds,
            x=place.array.ctypes.data,
            g=seeds.ctypes.data,
            offsets=self.offsets[first * self.at_once :].ctypes.data,
            starts=self.starts.ctypes.data,
            groups=self.groups,
            tiles=stop - first,
            rows=len(self.starts),
            length=self.length,
            x_group=len(place.array) // self.groups * place.channel,
            dw=self._tile(first).ctypes.data,
        )
        turns = moving(place.taking(x[0]), 0, x.strides[0])
        turns += moving(self._taking(g, seeds), 1, self.given.strides[0])
        turns.append(Turn(replace(call, held=(self, place, seeds)), {}))
        return repeated(len(x), turns)

    def _tile(self, first: int) -> Array:
        """Return the results from a tile on."""
        raise NotImplementedError

    def pieces(self, n: int) -> list[Call]:
        """Return loops over some of the tiles each, which may run at the same time."""
        ends = [i * self.tiles // n for i in range(n + 1)]
        return [self.loop(a, b) for a, b in itertools.pairwise(ends) if a < b < a + self.tiles]

    def giving(self, operand: int) -> list[Call]:
        """Return the calls that copy the gradient ``[G, channels, n_in, *kernel]`` to its place."""
        into = self.into.reshape(self.groups, self.channels, -1, *self.slide.kernel)
        return copied(into, self._made().reshape(into.shape), operand, back=True)

    def _made(self) -> Array:
        """Return the results as ``[G, channels, taps]``."""
        raise NotImplementedError


class _Outer(_WeightProduct):
    """Results are ``[G, taps, channels]``, channels in whole vectors."""

    def _results(self) -> Array:
        vectors = -(-self.channels // self.machine.width)
        self.at_a_time = min(vectors, self.machine.columns)
        self.columns = -(-vectors // self.at_a_time)
        self.wide = self.columns * self.at_a_time * self.machine.width
        return np.empty((self.groups, self.tiles * self.at_once, self.wide), self.dtype)

    def _seeds(self) -> Array:
        return room((*self.slide.n_out, self.groups, self.wide), self.dtype)

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

    def _results(self) -> Array:
        return np.empty((self.groups, self.channels, self.tiles * self.at_once), self.dtype)

    def _seeds(self) -> Array:
        return room((self.groups, self.channels, *self.slide.n_out), self.dtype)

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
