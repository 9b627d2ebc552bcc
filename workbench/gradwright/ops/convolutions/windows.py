"""Windows that slide over images ``f32[N, C, *size]`` of any number of spatial axes.

Windows of size k move over the padded image in steps of ``stride``; ``dilation`` spreads a window's
elements, so that it reaches over r = dilation·(k − 1) + 1. Along each axis the result has

    ⌊(n + before + after − r)/stride⌋ + 1

elements; with ``ceil`` it is rounded up, unless the last window would start behind the image, so
that the only window may reach beyond what it slides over.
``padding`` is one int, an int per axis, (before, after) per axis, "valid" (0), or "same": the
result has ⌈n/stride⌉ elements, and an odd one of padding goes to the end ("same_lower": to the
start). Padding below zero crops.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...errors import DTypeError, ShapeError
from ...op import OPAQUE, Dependence, Op
from ...spec import AnyDim, Dim, TensorSpec, kind, shapes_differ
from ..core.rows import workspace

Array = np.ndarray[Any, Any]
Sizes = tuple[AnyDim, ...]
Pads = tuple[tuple[AnyDim, AnyDim], ...]
Part = tuple[slice, slice, slice]
"""Some images, all of their channels, some of their rows: an index of ``[N, C, *size]``."""

CHUNK = 1 << 19
"""Bytes of windows that are copied and multiplied at a time: they stay in a core's own cache."""
LARGEST = 1 << 22
"""Bytes of windows of one image beyond which its rows are taken a few at a time."""


def per_axis(value: Any, n: int, name: str, least: int) -> tuple[int, ...]:
    """Return one int, or one per axis, as one per axis."""
    if type(value) is int and value >= least:
        return (value,) * n
    each = (value,) * n if isinstance(value, int) else value
    if not (isinstance(each, tuple) and len(each) == n) or not all(
        isinstance(v, int) and v >= least for v in each
    ):
        raise ShapeError(
            f"{name}={value!r} is not understood", need=f"an int >= {least}, or {n} of them"
        )
    return each


def read_padding(padding: Any, n: int) -> Pads | str:
    """Return padding as (before, after) per axis, or "same" or "same_lower"."""
    if type(padding) is int and padding >= 0:
        return ((padding, padding),) * n
    match padding:
        case "same" | "same_lower":
            return str(padding)
        case "valid":
            return ((0, 0),) * n
        case str():
            raise ShapeError(
                f"padding={padding!r} is not known",
                need="'same', 'same_lower', 'valid' or ints",
            )
        case ((_, _), *_) if len(padding) == n and all(
            isinstance(p, tuple) and len(p) == 2 and all(isinstance(v, (int, Dim)) for v in p)
            for p in padding
        ):
            return tuple((a, b) for a, b in padding)
    return tuple((p, p) for p in per_axis(padding, n, "padding", 0))


MOST = 1 << 20
"""Windows before an image that are looked at one by one."""


@dataclass(frozen=True)
class Windows:
    """How windows slide over images of ``len(kernel)`` axes."""

    kernel: Sizes
    stride: tuple[int, ...]
    padding: Pads | str
    dilation: tuple[int, ...]
    ceil: bool = False

    @staticmethod
    @functools.lru_cache(1024, typed=True)
    def of(kernel: Sizes, stride: Any, padding: Any, dilation: Any, ceil: bool = False) -> Windows:
        """Read the attributes of an op; what windows work out of themselves is kept with them."""
        n = len(kernel)
        return Windows(
            kernel,
            per_axis(stride, n, "stride", 1),
            read_padding(padding, n),
            per_axis(dilation, n, "dilation", 1),
            ceil,
        )

    @functools.cached_property
    def reach(self) -> Sizes:
        """How far a window reaches from its first to its last element."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    @property
    def dependence(self) -> Dependence:
        """How one result per window depends on the image: windows may be apart from each other."""
        apart = self.stride == self.kernel and set(self.dilation) == {1} and not self.ceil
        if not apart or any(p != (0, 0) for p in self.padding):
            return OPAQUE
        return Dependence("windows", size=self.stride)

    @functools.cached_property
    def n_taps(self) -> int:
        """How many elements a window has."""
        return math.prod(map(int, self.kernel))

    def n_out(self, size: Sequence[AnyDim]) -> Sizes:
        """Return the size of the result for an image of a size."""
        out: list[AnyDim] = []
        for i, (n, r, s) in enumerate(zip(size, self.reach, self.stride, strict=True)):
            if isinstance(self.padding, str):
                out.append((n + s - 1) // s)
                continue
            before, after = self.padding[i]
            room = n + before + after - r
            fewest = -self.stride[i] if self.ceil else -1  # what rounds to no window
            if isinstance(room, int) and room <= fewest:
                raise ShapeError(
                    "the kernel reaches beyond the padded image",
                    need=f"{r} elements on axis {i + 2}, got {n} and padding {self.padding[i]}",
                )
            if not self.ceil:
                out.append(room // s + 1)
                continue
            last = (room + (s - 1)) // s
            behind = last * s - (n + before)
            if not isinstance(behind, Dim):
                last -= behind >= 0
            elif not (isinstance(r, int) and isinstance(after, int) and after + s <= r):
                last = Dim.fresh("pooled")
            out.append(last + 1)
        return tuple(out)

    def pads(self, size: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Return the padding before and after, for an image of a known size."""
        return _fitted(self, tuple(size))[1]

    def counts(self, size: Sequence[int]) -> tuple[int, ...]:
        """Return the size of the result for an image of a known size."""
        return _fitted(self, tuple(size))[0]

    def padded(self, x: Array, fill: float = 0) -> Array:
        """Return images with their padding."""
        return moved_edges(x, self.pads(x.shape[2:]), fill)

    def cropped(self, padded: Array, size: Sequence[int]) -> Array:
        """Return padded images of a size without their padding."""
        return moved_edges(padded, tuple((-a, -b) for a, b in self.pads(size)))

    def padded_size(self, size: Sequence[int]) -> tuple[int, ...]:
        """Return the size of images with their padding."""
        return tuple(n + a + b for n, (a, b) in zip(size, self.pads(size), strict=True))

    def slices(self, padded: Array, n_out: Sizes) -> Iterator[Array]:
        """Yield per element of the kernel the view that it sees, row by row."""
        return map(padded.__getitem__, _seen(self, tuple(map(int, n_out))))

    def along(self, axis: int, padded: Array, n_out: AnyDim) -> Iterator[Array]:
        """Yield per element of the kernel along one spatial axis the view that it sees."""
        lead = (slice(None),) * (padded.ndim - len(self.kernel) + axis)
        step, reach = self.stride[axis], (int(n_out) - 1) * self.stride[axis] + 1
        for start in range(0, int(self.reach[axis]), self.dilation[axis]):
            yield padded[(*lead, slice(start, start + reach, step))]

    def views(self, padded: Array) -> Array:
        """Return all windows as a view ``[N, C, *kernel, *n_out]``."""
        lead, steps = padded.strides[:2], padded.strides[2:]
        reached = zip(padded.shape[2:], self.reach, self.stride, strict=True)
        n_out = tuple([(m - int(r)) // s + 1 for m, r, s in reached])
        shape = (*padded.shape[:2], *map(int, self.kernel), *n_out)
        within = [b * d for b, d in zip(steps, self.dilation, strict=True)]
        across = [b * s for b, s in zip(steps, self.stride, strict=True)]
        return as_strided(padded, shape, (*lead, *within, *across), writeable=False)

    def stages(self) -> tuple[Windows, Windows]:
        """Return windows along all axes but the last, and along the last, that in turn are these.

        They slide over images that have their padding.
        """
        n = len(self.kernel)
        kernel, stride, dilation, ones = self.kernel, self.stride, self.dilation, (1,) * (n - 1)
        unpadded = ((0, 0),) * n
        across = Windows((*kernel[:-1], 1), (*stride[:-1], 1), unpadded, (*dilation[:-1], 1))
        along = Windows((*ones, kernel[-1]), (*ones, stride[-1]), unpadded, (*ones, dilation[-1]))
        return across, along

    def add_up(self, columns: Array, padded: Array) -> None:
        """Add columns ``[C, kernel, ..., *n_out]`` to what windows see of ``[C, ..., *size]``."""
        n_out = columns.shape[columns.ndim - len(self.kernel) :]
        for number, view in enumerate(self.slices(padded, n_out)):
            view += columns[:, number]

    def columns(self, x: Array, groups: int) -> Iterator[tuple[Part, Array]]:
        """Yield windows of some rows of images as ``[G, C/G·kernel, windows]``, for matmuls.

        They are in the thread's workspace: good until the next ones are asked for.
        """
        n = len(self.kernel)
        views = self.views(self.padded(x))
        taps = x.shape[1] // groups * self.n_taps
        order = (*range(1, n + 2), 0, *range(n + 2, 2 * n + 2))
        for part in parts(len(x), views.shape[n + 2], views[:1].nbytes):
            images, _, rows = part
            some = views[(images, *(slice(None),) * (n + 1), rows)].transpose(order)
            columns = workspace(some.shape, x.dtype)
            columns[...] = some
            yield part, columns.reshape(groups, taps, math.prod(some.shape[n + 1 :]))

    def blind(self, size: Sequence[int]) -> list[bool]:
        """Tell per axis whether a window sees nothing of the image, whose sizes may be anything.

        One that begins in the image sees something, so those before it tell, and the last one.
        """
        found = []
        for i, (n, m) in enumerate(zip(size, self.n_out(size), strict=True)):
            before, s, d = self.pads(size)[i][0], int(self.stride[i]), int(self.dilation[i])
            misses = before > (int(self.kernel[i]) - 1) * d or (int(m) - 1) * s - before >= n
            if not misses and d > n:  # it may step over the whole image
                starts = np.arange(min(-(-before // s), int(m), MOST)) * s - before
                misses = bool((starts % d >= n).any())
            found.append(bool(m) and misses)
        return found

    def seen(self, size: Sequence[int], padding: bool) -> list[Array]:
        """Return per axis how many elements of the image (and its padding) each window sees."""
        found = []
        given = self.padding
        for i, (n, m) in enumerate(zip(size, self.n_out(size), strict=True)):
            before, after = self.pads(size)[i]
            at = np.arange(int(m))[:, None] * self.stride[i] - before
            at = at + np.arange(int(self.kernel[i])) * self.dilation[i]
            if padding:  # what only rounding up has added never counts
                after = after if isinstance(given, str) else int(given[i][1])
                found.append(((at >= -before) & (at < n + after)).sum(1))
            else:
                found.append(((at >= 0) & (at < n)).sum(1))
        return found


@functools.lru_cache(1024)
def _seen(windows: Windows, n_out: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Return per element of the kernel, row by row, the index of what it sees of padded images.

    Making them anew takes a third of the time of adding up nine views of a small image.
    """
    sizes, strides = n_out, windows.stride
    return [
        (
            ...,
            *(
                slice(i * d, i * d + (m - 1) * s + 1, s)
                for i, d, m, s in zip(taps, windows.dilation, sizes, strides, strict=True)
            ),
        )
        for taps in itertools.product(*(range(int(k)) for k in windows.kernel))
    ]


@functools.lru_cache(4096)
def _fitted(
    windows: Windows, size: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Return how many windows fit along each axis of an image, and its padding before and after.

    For small images this takes as long as the convolution itself.
    """
    n_out = tuple(map(int, windows.n_out(size)))
    out = []
    for i, (n, m, r, s) in enumerate(zip(size, n_out, windows.reach, windows.stride, strict=True)):
        reached = (m - 1) * s + int(r)
        if isinstance(windows.padding, str):
            total = max(reached - n, 0)
            less, more = total // 2, total - total // 2
            out.append((less, more) if windows.padding == "same" else (more, less))
        else:
            before, after = map(int, windows.padding[i])
            beyond = reached - (n + before + after) if windows.ceil else 0
            out.append((before, after + max(beyond, 0)))
    return n_out, tuple(out)


def moved_edges(x: Array, pads: Sequence[tuple[int, int]], fill: float = 0) -> Array:
    """Return images with elements added at the edges, or taken away where a number is negative."""
    if not any(map(any, pads)):
        return x
    lead = (slice(None),) * (x.ndim - len(pads))
    size = x.shape[x.ndim - len(pads) :]
    inner = (
        *lead,
        *(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(size, pads, strict=True)),
    )
    if all(a <= 0 and b <= 0 for a, b in pads):
        return x[inner]
    shape = (*x.shape[: len(lead)], *(n + a + b for n, (a, b) in zip(size, pads, strict=True)))
    out = np.full(shape, fill, x.dtype) if fill else np.zeros(shape, x.dtype)
    outer = (
        *lead,
        *(
            slice(max(a, 0), m - max(b, 0))
            for m, (a, b) in zip(shape[len(lead) :], pads, strict=True)
        ),
    )
    out[outer] = x[inner]
    return out


def chunks(n: int, each: int) -> Iterator[slice]:
    """Yield slices of ``n`` things of ``each`` bytes that fit the cache."""
    step = max(1, CHUNK // max(each, 1))
    return (slice(i, min(i + step, n)) for i in range(0, n, step))


def parts(n: int, n_rows: int, each: int) -> Iterator[Part]:
    """Yield parts of ``n`` images of ``n_rows`` rows whose windows have ``each`` bytes."""
    step = max(1, n_rows * LARGEST // max(each, 1))
    for images in chunks(n, each):
        for i in range(0, n_rows, step):
            yield images, slice(None), slice(i, min(i + step, n_rows))


def check_images(op: Op, x: TensorSpec, n: int | None = None, kinds: str = "f") -> None:
    """Refuse what is not a batch of images with ``n`` spatial axes (None: one or more)."""
    if (x.rank < 3 if n is None else x.rank != n + 2) or 0 in x.shape[1:]:
        axes = {1: "C, L", 2: "C, H, W", 3: "C, D, H, W"}.get(n or 0, "C, *size")
        raise ShapeError(f"{op.name} takes images", need=f"f32[N, {axes}], only N may be 0")
    if kind(x.dtype) not in kinds:
        raise DTypeError(f"{op.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")


def check_cotangent(g: TensorSpec, y: TensorSpec) -> None:
    """Refuse a cotangent that has another shape than the result it belongs to."""
    if shapes_differ(g.shape, y.shape):
        raise ShapeError("the cotangent does not fit", need=f"the shape of the result, {y.shape}")
