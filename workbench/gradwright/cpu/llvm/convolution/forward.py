"""Convolutions, and what goes back to their images, as products that slide over padded images.

The gradient of images is a convolution, too: of the cotangent, once for each phase of the stride
with the taps that reach it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....ops.convolutions.windows import Windows
from ....program.declined import DeclinedError
from ...call import Call
from .blocked import Blocked, Blocks, vectors_for
from .geometry import Lying, Padded, Slide, image
from .product import Giving, Job, Part, Rows
from .rooms import is_constant, shared

Array = np.ndarray[Any, Any]


def bind_convolution(
    windows: Windows,
    groups: int,
    xs: Sequence[Array | None],
    ys: Sequence[Array],
    after: Giving | None = None,
) -> Sequence[Call] | None:
    """Return the calls of a convolution of images with a weight and perhaps a bias; None: numpy's.

    >>> x, w = np.ones((1, 1, 3, 3), "f4"), np.ones((1, 1, 2, 2), "f4")
    >>> y, windows = np.empty((1, 1, 2, 2), "f4"), Windows.of((2, 2), 1, 0, 1)
    >>> from gradwright.cpu.llvm.compiler import available
    >>> calls = bind_convolution(windows, 1, [x, w], [y]) if available() else None
    >>> calls is None or sorted({operand for _, operand in calls[-1].slots}) == [0, 1, 2]
    True
    """
    (x, weight, bias), y = (*xs, None)[:3], ys[0]
    assert x is not None and weight is not None
    if not fit(x, weight, y, *([] if bias is None else [bias])):
        return None
    slide = Slide.of(windows, x.shape[2:])
    taps, positions = math.prod(weight.shape[1:]), len(y) * math.prod(y.shape[2:])
    vectors = vectors_for(weight, len(weight), positions, taps, slide, after) if groups == 1 else 0
    split = weight.reshape(groups, len(weight) // groups, *weight.shape[1:])
    rows: Rows | Blocks
    try:
        if vectors:
            rows = Blocks(weight, 1, vectors, bias, constant=_constant(weight))
        else:
            rows = Rows(split, 1, bias)
        job = sliding(slide, groups, x, y, (0, len(xs)), rows, after)
        return [*rows.taking(), whole(job, cost_of(y, slide, groups, weight.shape))]
    except DeclinedError:
        return None


def sliding(
    slide: Slide,
    groups: int,
    x: Array,
    y: Array,
    operands: tuple[int, int],
    rows: Rows | Blocks,
    after: Giving | None = None,
) -> Job[Any]:
    """Return the job of kernels that slide over images."""
    images, taps = image(x), [*slide.taps()]

    def place(channels: int, n: int, piece: int) -> Padded:
        sizes = slide.n_in, slide.before, slide.after, slide.stride
        key = piece, channels, n, slide, x.dtype
        return shared(key, lambda: Padded(channels, *sizes, x.dtype, images=n, taps=taps))

    is_lying = Lying.fits(slide, images[0])
    parts: list[Part[Any]] = [Part(rows, taps)]
    kind = kind_of(parts)
    return kind(images, image(y), operands, groups, parts, place, is_lying, after)


def kind_of(parts: Sequence[Part[Any]]) -> type[Job[Any]]:
    """Return what multiplies kernels as they stand: in rows, or in blocks of channels."""
    return Blocked if parts and isinstance(parts[0].rows, Blocks) else Job


def bind_input_grad(
    windows: Windows,
    groups: int,
    xs: Sequence[Array],
    ys: Sequence[Array],
    after: Giving | None = None,
) -> Sequence[Call] | None:
    """Return the calls of the gradient of a convolution's images, from g and the weight."""
    return bind_transposed(windows, groups, xs[:2], ys, len(xs), after)


def bind_transposed(
    windows: Windows,
    groups: int,
    xs: Sequence[Array | None],
    ys: Sequence[Array],
    end: int | None = None,
    after: Giving | None = None,
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
    split = weight.reshape(groups, n_out, n_in, *slide.kernel).swapaxes(1, 2)

    positions, n_taps = len(g) * math.prod(slide.n_out), weight[:, 0].size
    vectors = vectors_for(weight, n_in, positions, n_taps, slide, after) if groups == 1 else 0
    constant = _constant(weight)

    def rows(taps: tuple[slice, ...], number: int) -> Rows | Blocks:
        at: tuple[Any, ...] = (..., *taps)
        if vectors:
            return Blocks(split[at][0], 1, vectors, bias, number, constant)
        return Rows(split[at], 1, bias, number)

    try:
        job = sliding_back(slide, groups, g, dx, (0, operand), rows, after)
        calls = [call for part in job.parts for call in part.rows.taking()]
        cost, label = cost_of(g, slide, groups, weight.shape)
        return [*calls, whole(job, (cost, f"images of {label}"))]
    except DeclinedError:
        return None


def sliding_back(
    slide: Slide,
    groups: int,
    g: Array,
    dx: Array,
    operands: tuple[int, int],
    rows: Callable[[tuple[slice, ...], int], Rows | Blocks],
    after: Giving | None = None,
) -> Job[Any]:
    """Return the job of what goes back to images; ``rows`` gives the kernels of some taps."""
    along = [[_Phase(slide, axis, r) for r in range(slide.stride[axis])] for axis in range(3)]
    before = [max(p.before for p in axis) for axis in along]
    behind = [max(p.after for p in axis) for axis in along]
    parts: list[Part[Any]] = []
    for some in itertools.product(*along):
        if all(p.size for p in some):
            seen = [[b + n for n in p.sources] for b, p in zip(before, some, strict=True)]
            kernels = rows(tuple(p.taps for p in some), len(parts))
            depth, height, width = (p.result for p in some)
            taps = [(i, j, k) for i, j, k in itertools.product(*seen)]
            parts.append(Part(kernels, taps, (depth, height, width)))

    def place(channels: int, n: int, piece: int) -> Padded:
        sizes = slide.n_out, before, behind, (1, 1, 1)
        key = piece, channels, n, slide, "back", g.dtype
        return shared(key, lambda: Padded(channels, *sizes, g.dtype, images=n))

    kind = kind_of(parts)
    return kind(image(g), image(dx), operands, groups, parts, place, is_lying=False, after=after)


def whole(job: Job[Any], cost: tuple[float, str]) -> Call:
    """Return the call of a job, which may be cut."""
    ns, label = cost
    call = _given(job.call(range(len(job.x)), job.units))
    return replace(
        call, cut=lambda parts: [_given(c) for c in job.pieces(parts)], cost=ns, label=label
    )


def _given(call: Call) -> Call:
    """Return a call without the operands of negative numbers, which are memory of ours."""
    return replace(call, slots=[(slot, operand) for slot, operand in call.slots if operand >= 0])


def cost_of(y: Array, slide: Slide, groups: int, weight: tuple[int, ...]) -> tuple[float, str]:
    """Return how many ns a product of kernels with each window of y takes, and its name."""
    cost = y.size * math.prod(weight[1:]) / (32 if y.dtype.char == "f" else 16)
    return cost, f"convolution {y.dtype.char} {y.shape} {weight} {groups} {slide}"


def fit(*arrays: Array) -> bool:
    """Tell whether machine code can compute with arrays: of one dtype, aligned, and not empty."""
    dtype = arrays[0].dtype
    return dtype.char in "fd" and all(
        a.dtype == dtype and a.flags.aligned and a.size for a in arrays
    )


def _constant(weight: Array) -> Array | None:
    return weight if is_constant(weight) else None


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
