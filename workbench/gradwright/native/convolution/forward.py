"""Convolutions, and what goes back to their images, as products that slide over padded images.

The gradient of images is a convolution, too: of the cotangent, once for each phase of the stride
with the taps that reach it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...lowering import Call
from ...ops.windows import Windows
from ..repeat import Turn, repeated
from .geometry import DeclinedError, Padded, Slide, copied, image
from .tiles import TAPS, compiled, machine, numbers

Array = np.ndarray[Any, Any]


def bind_convolution(
    windows: Windows, groups: int, xs: Sequence[Array | None], ys: Sequence[Array]
) -> Sequence[Call] | None:
    """Return the calls of a convolution of images with a weight and perhaps a bias; None: numpy's.

    >>> x, w = np.ones((1, 1, 3, 3), "f4"), np.ones((1, 1, 2, 2), "f4")
    >>> y, windows = np.empty((1, 1, 2, 2), "f4"), Windows.of((2, 2), 1, 0, 1)
    >>> from gradwright.native.compiler import available
    >>> calls = bind_convolution(windows, 1, [x, w], [y]) if available() else None
    >>> calls is None or sorted({operand for _, operand in calls[-1].slots}) == [0, 2]
    True
    """
    x, weight, bias = (*xs, None)[:3]
    assert x is not None and weight is not None
    y = ys[0]
    if not fit(x, weight, y, *([] if bias is None else [bias])):
        return None
    slide = Slide.of(windows, x.shape[2:])
    n_in, n_out = weight.shape[1], len(weight) // groups
    place = Padded(x.shape[1], slide.n_in, slide.before, slide.after, slide.stride, x.dtype)
    offsets = [c * place.channel + place.offset(tap) for c in range(n_in) for tap in slide.taps()]
    product = Product(place, groups, n_out, slide.n_out, offsets)
    try:
        kernels = weight.reshape(groups, n_out, n_in, *slide.kernel)
        calls = product.weighing(kernels.transpose(0, 2, 3, 4, 5, 1), 1)
        if bias is not None:
            calls += product.shifting(bias.reshape(groups, n_out), 2)
        turns = moving(place.taking(image(x)[0]), 0, x.strides[0])
        turns.append(Turn(product.call(), {}))
        turns += moving(product.giving(image(y)[0]), len(xs), y.strides[0])
    except DeclinedError:
        return None
    return [*calls, repeated(len(x), turns)]


def bind_input_grad(
    windows: Windows, groups: int, xs: Sequence[Array], ys: Sequence[Array]
) -> Sequence[Call] | None:
    """Return the calls of the gradient of a convolution's images, from g and the weight."""
    return bind_transposed(windows, groups, xs[:2], ys, end=len(xs))


def bind_transposed(
    windows: Windows,
    groups: int,
    xs: Sequence[Array | None],
    ys: Sequence[Array],
    end: int | None = None,
) -> Sequence[Call] | None:
    """Return the calls of the transpose of a convolution of ``windows``, perhaps with a bias.

    The result is operand ``end``, or the one after the inputs. None: numpy must do it.
    """
    (g, weight, bias), dx = (*xs, None, None)[:3], ys[0]
    assert g is not None and weight is not None
    end = len(xs) if end is None else end
    if not fit(g, weight, dx, *([] if bias is None else [bias])):
        return None
    slide = Slide.of(windows, dx.shape[2:])
    n_out, n_in = len(weight) // groups, weight.shape[1]
    phases = [[_Phase(slide, axis, r) for r in range(slide.stride[axis])] for axis in range(3)]
    before = [max(p.before for p in axis) for axis in phases]
    after = [max(p.after for p in axis) for axis in phases]
    place = Padded(g.shape[1], slide.n_out, before, after, (1, 1, 1), g.dtype)
    kernels = weight.reshape(groups, n_out, n_in, *slide.kernel)
    calls: list[Call] = []
    try:
        turns = moving(place.taking(image(g)[0]), 0, g.strides[0])
        for some in itertools.product(*phases):
            into = image(dx)[0][(slice(None), *(p.result for p in some))]
            if not into.size:
                continue
            offsets = [
                o * place.channel + place.offset(at)
                for o in range(n_out)
                for at in itertools.product(
                    *([b + n for n in p.sources] for b, p in zip(before, some, strict=True))
                )
            ]
            product = Product(place, groups, n_in, into.shape[1:], offsets)
            reached = kernels[(..., *(p.taps for p in some))]
            calls += product.weighing(reached.transpose(0, 1, 3, 4, 5, 2), 1)
            if bias is not None:
                calls += product.shifting(bias.reshape(groups, n_in), 2)
            turns.append(Turn(product.call(), {}))
            turns += moving(product.giving(into), end, dx.strides[0])
    except DeclinedError:
        return None
    return [*calls, repeated(len(g), turns)]


def fit(*arrays: Array) -> bool:
    """Tell whether machine code can compute with arrays: of one dtype, aligned, and not empty."""
    dtype = arrays[0].dtype
    return dtype.char in "fd" and all(
        a.dtype == dtype and a.flags.aligned and a.size for a in arrays
    )


def moving(calls: Sequence[Call], operand: int, step: int) -> list[Turn]:
    """Return calls whose one operand has a number and moves by so many bytes each turn."""
    return [
        Turn(replace(call, slots=[(slot, operand) for slot, _ in call.slots]), {operand: step})
        for call in calls
    ]


class _Phase:
    """Along an axis, every stride-th element of images: which taps have read it, and for what.

    Element r + stride·t was read by tap j for result t + (r + before − j·dilation)/stride.
    """

    def __init__(self, slide: Slide, axis: int, r: int) -> None:
        n, stride, dilation = slide.n_in[axis], slide.stride[axis], slide.dilation[axis]
        ahead = [r + slide.before[axis] - j * dilation for j in range(slide.kernel[axis])]
        read = [j for j, a in enumerate(ahead) if a % stride == 0]
        self.taps = slice(read[0], None, stride // math.gcd(stride, dilation)) if read else slice(0)
        self.sources = [ahead[j] // stride for j in read]
        self.result = slice(r, None, stride)
        last = len(range(r, n, stride)) - slide.n_out[axis]
        self.before = max([0, *(-s for s in self.sources)])
        self.after = max([0, *(s + last for s in self.sources)])


class Product:
    """A product of kernels with what windows see in a place, and room for its result.

    ``offsets`` are where the taps are; the result has ``channels`` in each of the groups, and a
    row of the result as many elements as a row of the place: those behind its end are nobody's.
    """

    def __init__(
        self, place: Padded, groups: int, channels: int, size: Sequence[int], offsets: Sequence[int]
    ) -> None:
        self.place, self.groups, self.size = place, groups, size
        self.channels, self.dtype = channels, place.array.dtype
        self.machine = machine(self.dtype.char)
        self.rows = self.machine.rows(channels)
        self.tiles = -(-channels // self.rows)
        self.offsets = np.array(offsets, np.int64)
        self.bias = np.zeros((groups, self.tiles * self.rows), self.dtype)
        self.weights = np.zeros((groups, self.tiles, len(offsets), self.rows), self.dtype)
        item = self.dtype.itemsize
        self.length = (size[1] - 1) * (place.row // item) + size[2]
        wide = -(-self.length // self.machine.width) * self.machine.width
        self.y = np.empty((groups, self.tiles * self.rows, size[0], wide), self.dtype)

    def weighing(self, kernels: Array, operand: int) -> list[Call]:
        """Return the calls that put kernels ``[G, *taps, channels]`` into tiles."""
        _, *taps, n = kernels.shape
        tiled = self.weights.reshape(self.groups, self.tiles, *taps, self.rows)
        whole = n // self.rows * self.rows
        source = kernels[..., :whole].reshape(self.groups, *taps, whole // self.rows, self.rows)
        target = np.moveaxis(tiled[:, : whole // self.rows], 1, -2)
        calls = copied(source, target, operand)
        return calls + copied(kernels[..., whole:], tiled[:, -1, ..., : n - whole], operand)

    def shifting(self, bias: Array, operand: int) -> list[Call]:
        """Return the calls that take over a bias ``[G, channels]``."""
        return copied(bias, self.bias[:, : self.channels], operand)

    def call(self) -> Call:
        """Return the call of the product."""
        place, y, item = self.place, self.y, self.dtype.itemsize
        n_planes, wide = y.shape[2:]
        block = numbers(
            TAPS,
            x=place.array.ctypes.data,
            weights=self.weights.ctypes.data,
            bias=self.bias.ctypes.data,
            y=y.ctypes.data,
            offsets=self.offsets.ctypes.data,
            taps=len(self.offsets),
            groups=self.groups,
            planes=n_planes,
            tiles=self.tiles,
            length=self.length,
            x_group=len(place.array) // self.groups * place.channel,
            x_plane=place.plane,
            y_row=n_planes * wide * item,
            y_plane=wide * item,
        )
        held = place, self.weights, self.bias, y, self.offsets
        return Call(compiled("taps", self.dtype.char, self.rows), block, [], held)

    def giving(self, into: Array) -> list[Call]:
        """Return the calls that copy the result to ``[G·channels, *size]``."""
        item = self.dtype.itemsize
        shape = (self.groups, self.channels, *self.size)
        steps = (*self.y.strides[:3], self.place.row, item)
        seen: Array = np.ndarray(shape, self.dtype, self.y, 0, steps)
        return copied(into.reshape(shape), seen, 0, back=True)
