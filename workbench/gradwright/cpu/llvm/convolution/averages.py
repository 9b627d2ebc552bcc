"""Means of windows: sums, which are products with kernels of ones, and then a division.

What goes back to images is the transpose: cotangents are divided first.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....fuse.builder import Builder
from ....fuse.ir import Kernel
from ....ops.convolutions.windows import Windows
from ....program.declined import DeclinedError
from ...call import Call
from ..bind import bind_kernel
from ..repeat import Turn
from .forward import cost_of, fit, sliding, sliding_back, whole
from .geometry import Slide, image
from .product import Giving, Rows, moving
from .rooms import shared

Array = np.ndarray[Any, Any]
WIDE = 256
"""Elements of the largest window: of more, a sum in order loses more than one by pairs."""


def bind_average(
    windows: Windows, counts: Array, xs: Sequence[Array], ys: Sequence[Array]
) -> Sequence[Call] | None:
    """Return the calls of the mean of each window, of so many elements; None: numpy must do it.

    >>> x, y = np.ones((1, 1, 4), "f4"), np.empty((1, 1, 2), "f4")
    >>> from gradwright.cpu.llvm.compiler import available
    >>> given = Windows.of((2,), 2, 0, 1), np.full((2,), 2, "f4")
    >>> calls = bind_average(*given, [x], [y]) if available() else None
    >>> calls is None or len(calls)
    1
    """
    x, y = xs[0], ys[0]
    slide = Slide.of(windows, x.shape[2:])
    if not fit(x, y) or math.prod(slide.kernel) > WIDE:
        return None
    rows = _ones(x, math.prod(slide.kernel))

    def give(seen: Array, first: int, channels: slice, along: slice) -> list[Turn]:
        into = image(y)[first : first + len(seen), channels]
        arrays = [seen, _counts(counts, y), into]
        return moving(_bound(arrays, (None, None, 1)), 1, y.strides[0] * len(seen))

    job = sliding(slide, x.shape[1], x, y, (0, 1), rows, Giving(give))
    try:
        return [whole(job, cost_of(y, slide, x.shape[1], (1, 1, *slide.kernel)))]
    except DeclinedError:
        return None


def bind_average_grad(
    windows: Windows, counts: Array, xs: Sequence[Array], ys: Sequence[Array]
) -> Sequence[Call] | None:
    """Return the calls of what goes back from means of windows; None: numpy must do it."""
    g, dx = xs[0], ys[0]
    slide = Slide.of(windows, dx.shape[2:])
    if not fit(g, dx) or math.prod(slide.kernel) > WIDE:
        return None
    try:
        parts = shared(("parts", g.shape, g.dtype), lambda: np.empty(g.shape, g.dtype))
        first = _bound([image(g), _counts(counts, g), image(parts)], (0, None, None))
        ones = np.ones(slide.kernel)

        def rows(taps: tuple[slice, ...], number: int) -> Rows:
            return _ones(g, ones[taps].size)

        job = sliding_back(slide, g.shape[1], parts, dx, (-1, len(xs)), rows)
        cost, label = cost_of(g, slide, g.shape[1], (1, 1, *slide.kernel))
        return [*first, whole(job, (cost, f"means of {label}"))]
    except DeclinedError:
        return None


def _ones(x: Array, taps: int) -> Rows:
    """Return kernels of ones, the same for each channel."""
    return Rows(np.broadcast_to(np.ones(taps, x.dtype), (x.shape[1], 1, taps)), None)


def _counts(counts: Array, y: Array) -> Array:
    return image(np.broadcast_to(counts.astype(y.dtype), (1, 1, *y.shape[2:])))


def _bound(arrays: Sequence[Array], operands: Sequence[int | None]) -> list[Call]:
    """Return the calls of a division by counts, of these operands, or memory of ours."""
    moves = tuple(tuple(n for n, size in enumerate(a.shape) if size != 1) for a in arrays)
    calls = bind_kernel(_division(arrays[0].dtype, *moves), arrays[-1].shape, arrays)
    if calls is None:
        raise DeclinedError
    return [
        replace(call, slots=[(s, o) for s, k in call.slots if (o := operands[k]) is not None])
        for call in calls
    ]


@functools.cache
def _division(dtype: np.dtype[Any], *axes: tuple[int, ...]) -> Kernel:
    b = Builder(5, 3)
    x, counts = (b.load(name, at, dtype) for name, at in zip("xc", axes, strict=False))
    return b.kernel([(x / counts, axes[-1], "set", dtype)])[0]
