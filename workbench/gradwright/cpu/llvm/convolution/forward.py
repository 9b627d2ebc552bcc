"""Convolutions, and what goes back to their images, as products that slide over padded images.

The gradient of images is a convolution, too: of the cotangent, once for each phase of the stride
with the taps that reach it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....ops.convolutions.windows import Windows
from ....program.declined import DeclinedError
from ...call import Call
from ..repeat import Turn, repeated
from .geometry import Padded, Slide, copied, image, room
from .tiles import TAPS, TAPS_AT_ONCE, compiled, machine, numbers

Array = np.ndarray[Any, Any]


def bind_convolution(
    windows: Windows, groups: int, xs: Sequence[Array | None], ys: Sequence[Array]
) -> Sequence[Call] | None:
    """Return the calls of a convolution of images with a weight and perhaps a bias; None: numpy's.

    >>> x, w = np.ones((1, 1, 3, 3), "f4"), np.ones((1, 1, 2, 2), "f4")
    >>> y, windows = np.empty((1, 1, 2, 2), "f4"), Windows.of((2, 2), 1, 0, 1)
    >>> from gradwright.cpu.llvm.compiler import available
    >>> calls = bind_convolution(windows, 1, [x, w], [y]) if available() else None
    >>> calls is None or sorted({operand for _, operand in calls[-1].slots}) == [0, 2]
    True
    """
    (x, weight, bias), y = (*xs, None)[:3], ys[0]
    assert x is not None and weight is not None
    if not fit(x, weight, y, *([] if bias is None else [bias])):
        return None
    slide = Slide.of(windows, x.shape[2:])
    n_in, n_out = weight.shape[1], len(weight) // groups
    split = weight.reshape(groups, n_out, n_in, *slide.kernel)
    kernels = Kernels(split.transpose(0, 2, 3, 4, 5, 1))
    images, results = image(x), image(y)

    def loop(first: int, stop: int) -> Call:
        place = Padded(x.shape[1], slide.n_in, slide.before, slide.after, slide.stride, x.dtype)
        offsets = place.offsets(n_in, slide.taps())
        product = Product(place, kernels, slide.n_out, offsets)
        return repeated(
            stop - first,
            [
                *moving(place.taking(images[first]), 0, x.strides[0]),
                Turn(product.call(), {}),
                *moving(product.giving(results[first]), len(xs), y.strides[0]),
            ],
        )

    try:
        return [
            *kernels.taking(1, bias),
            by_image(loop, len(x), cost_of(y, slide, groups, weight.shape)),
        ]
    except DeclinedError:
        return None


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
    operand = len(xs) if end is None else end
    if not fit(g, weight, dx, *([] if bias is None else [bias])):
        return None
    slide = Slide.of(windows, dx.shape[2:])
    n_out, n_in = len(weight) // groups, weight.shape[1]
    along = [[_Phase(slide, axis, r) for r in range(slide.stride[axis])] for axis in range(3)]
    before = [max(p.before for p in axis) for axis in along]
    after = [max(p.after for p in axis) for axis in along]
    split = weight.reshape(groups, n_out, n_in, *slide.kernel).transpose(0, 1, 3, 4, 5, 2)
    images, results = image(g), image(dx)
    phases = [
        (some, Kernels(split[(slice(None), slice(None), *(p.taps for p in some))]))
        for some in itertools.product(*along)
        if all(p.size for p in some)
    ]

    def loop(first: int, stop: int) -> Call:
        place = Padded(g.shape[1], slide.n_out, before, after, (1, 1, 1), g.dtype)
        turns = moving(place.taking(images[first]), 0, g.strides[0])
        for some, kernels in phases:
            into = results[first][(slice(None), *(p.result for p in some))]
            taps = itertools.product(
                *([b + n for n in p.sources] for b, p in zip(before, some, strict=True))
            )
            product = Product(place, kernels, into.shape[1:], place.offsets(n_out, taps))
            turns.append(Turn(product.call(), {}))
            turns += moving(product.giving(into), operand, dx.strides[0])
        return repeated(stop - first, turns)

    try:
        calls = [call for _, kernels in phases for call in kernels.taking(1, bias)]
        cost, label = cost_of(g, slide, groups, weight.shape)
        return [*calls, by_image(loop, len(g), (cost, f"images of {label}"))]
    except DeclinedError:
        return None


def by_image(loop: Callable[[int, int], Call], n: int, cost: tuple[float, str]) -> Call:
    """Return a loop over n images, which may be cut into loops over some of them each."""
    ns, label = cost
    return replace(loop(0, n), cut=functools.partial(_pieces, loop, n), cost=ns, label=label)


def cost_of(y: Array, slide: Slide, groups: int, weight: tuple[int, ...]) -> tuple[float, str]:
    """Return how many ns a product of kernels with each window of y takes, and its name."""
    cost = y.size * math.prod(weight[1:]) / (32 if y.dtype.char == "f" else 16)
    return cost, f"convolution {y.dtype.char} {y.shape} {weight} {groups} {slide}"


def _pieces(loop: Callable[[int, int], Call], n: int, parts: int) -> list[Call]:
    ends = [i * n // parts for i in range(parts + 1)]
    return [loop(a, b) for a, b in itertools.pairwise(ends) if a < b] if n > 1 else []


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
        self.size = len(range(r, n, stride))
        last = self.size - slide.n_out[axis]
        self.before = max([0, *(-s for s in self.sources)])
        self.after = max([0, *(s + last for s in self.sources)])


class Kernels:
    """Kernels ``[G, *taps, channels]`` in tiles of a few output channels, and their bias."""

    def __init__(self, given: Array) -> None:
        self.given, self.groups, self.channels = given, len(given), given.shape[-1]
        self.rows = machine(given.dtype.char).rows(self.channels)
        self.tiles = -(-self.channels // self.rows)
        n_taps = math.prod(given.shape[1:-1])
        self.bias = np.zeros((self.groups, self.tiles * self.rows), given.dtype)
        self.weights = np.zeros((self.groups, self.tiles, n_taps, self.rows), given.dtype)

    def taking(self, operand: int, bias: Array | None) -> list[Call]:
        """Return the calls that take over the kernels, of an operand, and the bias, of the next."""
        _, *taps, n = self.given.shape
        tiled = self.weights.reshape(self.groups, self.tiles, *taps, self.rows)
        full, rest = divmod(n, self.rows)
        whole = self.given[..., : full * self.rows].reshape(self.groups, *taps, full, self.rows)
        calls = copied(whole, np.moveaxis(tiled[:, :full], 1, -2), operand)
        calls += copied(self.given[..., n - rest :], tiled[:, -1, ..., :rest], operand)
        if bias is None:
            return calls
        given = bias.reshape(self.groups, self.channels)
        return calls + copied(given, self.bias[:, : self.channels], operand + 1)


class Product:
    """A product of kernels with what windows see in a place, and room for its result.

    ``offsets`` are where the taps are. A row of the result has as many elements as one of the
    place: those behind its end are nobody's.
    """

    def __init__(
        self, place: Padded, kernels: Kernels, size: Sequence[int], offsets: Array
    ) -> None:
        self.place, self.kernels, self.size, self.offsets = place, kernels, size, offsets
        dtype = self.dtype = place.array.dtype
        width = machine(dtype.char).width
        self.length = (size[1] - 1) * (place.row // dtype.itemsize) + size[2]
        wide = -(-self.length // width) * width
        self.y = room((kernels.groups, kernels.tiles * kernels.rows, size[0], wide), dtype)

    def call(self) -> Call:
        """Return the call of the product."""
        place, kernels, y, item = self.place, self.kernels, self.y, self.dtype.itemsize
        n_planes, wide = y.shape[2:]
        block = numbers(
            TAPS,
            x=place.array.ctypes.data,
            weights=kernels.weights.ctypes.data,
            bias=kernels.bias.ctypes.data,
            y=y.ctypes.data,
            offsets=self.offsets.ctypes.data,
            taps=len(self.offsets),
            groups=kernels.groups,
            planes=n_planes,
            tiles=kernels.tiles,
            length=self.length,
            x_group=len(place.array) // kernels.groups * place.channel,
            x_plane=place.plane,
            y_row=n_planes * wide * item,
            y_plane=wide * item,
        )
        held = place, kernels, y, self.offsets
        is_long = self.dtype.char == "f" and len(self.offsets) > 2 * TAPS_AT_ONCE
        code = compiled("taps", self.dtype.char, kernels.rows, int(is_long))
        return Call(code, block, [], held)

    def giving(self, into: Array) -> list[Call]:
        """Return the calls that copy the result to ``[G·channels, *size]``."""
        item = self.dtype.itemsize
        shape = (self.kernels.groups, self.kernels.channels, *self.size)
        steps = (*self.y.strides[:3], self.place.row, item)
        seen: Array = np.ndarray(shape, self.dtype, self.y, 0, steps)
        return copied(into.reshape(shape), seen, 0, back=True)
