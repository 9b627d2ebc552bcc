"""What goes back to the weights of convolutions: products of the cotangent with padded images.

Vectors run along output channels, so each cotangent is turned first; where a group has few of
them, they run along positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...lowering import Call
from ...ops.windows import Windows
from ..repeat import Turn, repeated
from .forward import fit, moving
from .geometry import DeclinedError, Padded, Slide, copied, image
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
    place = Padded(x.shape[1], slide.n_in, slide.before, slide.after, slide.stride, x.dtype)
    product = (_Inner if len(dw) // groups <= FEW else _Outer)(place, slide, groups, dw)
    end = len(xs)
    try:
        calls = product.clearing()
        turns = moving(place.taking(image(x)[0]), 0, x.strides[0])
        turns += moving(product.taking(image(g)[0]), 1, g.strides[0])
        turns.append(Turn(product.call(), {}))
        return [*calls, repeated(len(x), turns), *product.giving(end)]
    except DeclinedError:
        return None


class _WeightProduct:
    """Room for the gradient of a weight, in tiles of taps, and for one image's cotangent."""

    def __init__(self, place: Padded, slide: Slide, groups: int, dw: Array) -> None:
        self.place, self.slide, self.groups, self.into = place, slide, groups, dw
        self.dtype, self.channels, n_in = dw.dtype, len(dw) // groups, dw.shape[1]
        self.machine = machine(dw.dtype.char)
        taps = [c * place.channel + place.offset(tap) for c in range(n_in) for tap in slide.taps()]
        self.taps = len(taps)
        self.at_once = taps_in_tile(self.taps)
        self.tiles = -(-self.taps // self.at_once)
        spare = self.tiles * self.at_once - self.taps
        self.offsets = np.array([*taps, *[0] * spare], np.int64)
        depth, height, self.length = slide.n_out
        starts = np.arange(depth)[:, None] * place.plane + np.arange(height) * place.row
        self.starts = np.ascontiguousarray(starts.reshape(-1), np.int64)
        self.positions = math.prod(slide.n_out)
        self.dw, self.g = self._room()

    def _room(self) -> tuple[Array, Array]:
        raise NotImplementedError

    def clearing(self) -> list[Call]:
        """Return the calls that begin a run: nothing has been added up yet."""
        nothing = np.broadcast_to(np.zeros((), self.dtype), self.dw.shape)
        return copied(nothing, self.dw, None)

    def _block(self, names: Sequence[str], **values: int) -> Array:
        place = self.place
        return numbers(
            names,
            x=place.array.ctypes.data,
            g=self.g.ctypes.data,
            dw=self.dw.ctypes.data,
            offsets=self.offsets.ctypes.data,
            starts=self.starts.ctypes.data,
            groups=self.groups,
            tiles=self.tiles,
            rows=len(self.starts),
            length=self.length,
            x_group=len(place.array) // self.groups * place.channel,
            **values,
        )

    @property
    def _held(self) -> tuple[Any, ...]:
        return self.place, self.g, self.dw, self.offsets, self.starts

    def _split(self, g: Array) -> Array:
        """Return one image's cotangent as ``[G, channels, *size]``."""
        return g.reshape(self.groups, self.channels, *g.shape[1:])

    def _result(self) -> Array:
        """Return the gradient as ``[G, channels, n_in, *kernel]``."""
        return self.into.reshape(self.groups, self.channels, -1, *self.slide.kernel)


class _Outer(_WeightProduct):
    def _room(self) -> tuple[Array, Array]:
        width = self.machine.width
        vectors = -(-self.channels // width)
        self.at_a_time = min(vectors, self.machine.columns)
        self.columns = -(-vectors // self.at_a_time)
        wide = self.columns * self.at_a_time * width
        dw = np.empty((self.groups, self.tiles * self.at_once, wide), self.dtype)
        return dw, np.zeros((*self.slide.n_out, self.groups, wide), self.dtype)

    def taking(self, g: Array) -> list[Call]:
        """Return the calls that turn one image's cotangent, channels last."""
        return turning(self._split(g), self.g, 0)

    def call(self) -> Call:
        """Return the call of the product."""
        block = self._block(
            OUTER,
            columns=self.columns,
            g_step=self.g.strides[2],
            dw_step=self.dw.strides[1],
        )
        code = compiled("outer", self.dtype.char, self.at_once, self.at_a_time)
        return Call(code, block, [], self._held)

    def giving(self, operand: int) -> list[Call]:
        """Return the calls that copy the gradient to its place."""
        into = self._result()
        made = self.dw[:, : self.taps, : self.channels].swapaxes(1, 2)
        return copied(into, made.reshape(into.shape), operand, back=True)


class _Inner(_WeightProduct):
    def _room(self) -> tuple[Array, Array]:
        dw = np.empty((self.groups, self.channels, self.tiles * self.at_once), self.dtype)
        return dw, np.empty((self.groups, self.channels, *self.slide.n_out), self.dtype)

    def taking(self, g: Array) -> list[Call]:
        """Return the calls that copy one image's cotangent."""
        return copied(self._split(g), self.g, 0)

    def call(self) -> Call:
        """Return the call of the product."""
        block = self._block(
            INNER,
            channels=self.channels,
            g_row=self.g.strides[3],
            g_channel=self.g.strides[1],
            dw_step=self.dw.strides[1],
        )
        return Call(compiled("inner", self.dtype.char, self.at_once), block, [], self._held)

    def giving(self, operand: int) -> list[Call]:
        """Return the calls that copy the gradient to its place."""
        into = self._result()
        return copied(into, self.dw[..., : self.taps].reshape(into.shape), operand, back=True)
