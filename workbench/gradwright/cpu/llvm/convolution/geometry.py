"""Where things are in an image that has been copied with its padding, split up by the stride.

Every image has three axes here, those that it lacks being 1. Along each axis padded coordinates
u = i + before are split into phases u mod stride: a tap then sees elements of one phase that follow
each other, whatever the stride. Between rows there is padding once: what is behind one is before
the next.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....ops.convolutions.windows import Windows
from ....program.declined import DeclinedError
from ...call import Call
from ..bind import bind_copy
from .machine import machine, numbers
from .tiles import PANELS, compiled

Array = np.ndarray[Any, Any]
Axes = tuple[int, int, int]


LARGEST = 1 << 26
"""Bytes of one image beyond which numpy does better: it takes a few rows at a time."""


def room(shape: Sequence[int], dtype: np.dtype[Any], fill: float = 0) -> Array:
    """Return memory of our own, filled; raises DeclinedError where that is too much."""
    if math.prod(shape) * dtype.itemsize > LARGEST:
        raise DeclinedError
    return np.full(shape, fill, dtype) if fill else np.zeros(shape, dtype)


def three(sizes: Sequence[Any], fill: int = 1) -> Axes:
    """Return numbers of one to three axes as those of three."""
    return (*(fill,) * (3 - len(sizes)), *map(int, sizes))  # type: ignore[return-value]


def image(x: Array) -> Array:
    """Return images ``[N, C, *size]`` with three spatial axes.

    >>> image(np.ones((2, 3, 8))).shape
    (2, 3, 1, 1, 8)
    """
    return x.reshape(*x.shape[:2], *three(x.shape[2:]))


@dataclass(frozen=True)
class Slide:
    """How windows slide over images of one size, along three axes."""

    kernel: Axes
    stride: Axes
    dilation: Axes
    before: Axes
    after: Axes
    n_in: Axes
    n_out: Axes

    @staticmethod
    def of(windows: Windows, size: Sequence[int]) -> Slide:
        """Return how windows slide over images of a size."""
        pads = windows.pads(size)
        return Slide(
            three(windows.kernel),
            three(windows.stride),
            three(windows.dilation),
            three([a for a, _ in pads], 0),
            three([b for _, b in pads], 0),
            three(size),
            three(windows.n_out(size)),
        )

    def taps(self) -> Iterator[Axes]:
        """Yield where each tap is in the window, in the order of the weight."""
        yield from itertools.product(
            *(range(0, k * d, d) for k, d in zip(self.kernel, self.dilation, strict=True))
        )


class Lying:
    """An image that is read where it lies, by windows that need no padding and step by one."""

    def __init__(self, x: Array) -> None:
        self.array = x
        item = x.itemsize
        self.item, self.row = item, x.shape[3] * item
        self.plane, self.channel = x.shape[2] * self.row, x.strides[0]
        self.vector = machine(x.dtype.char).width * item

    @staticmethod
    def fits(slide: Slide, x: Array) -> bool:
        """Tell whether windows can read an image ``[C, D, H, W]`` where it lies."""
        return (
            machine(x.dtype.char).masks
            and slide.stride == (1, 1, 1)
            and not any(slide.before)
            and not any(slide.after)
            and x[0].flags.c_contiguous
        )

    def offset(self, at: Sequence[int]) -> int:
        """Return how many bytes behind its channel's start a coordinate is."""
        return int(at[0] * self.plane + at[1] * self.row + at[2] * self.item)


class Panels:
    """A place for rows of an image as vectors of positions, each with all channels in order.

    That way they come from the cache one line after the other, for windows of one element.
    """

    def __init__(self, x: Array) -> None:
        _, channels, depth, height, along = x.shape
        vector, self.item = machine(x.dtype.char).width, x.itemsize
        self.row, self.plane = along * self.item, height * along * self.item
        self.channel, self.vector = vector * self.item, (channels + 1) * vector * self.item
        shape = -(-depth * height * along // vector), channels + 1, vector
        self.array = room(shape, x.dtype)

    def offset(self, at: Sequence[int]) -> int:
        """Return how many bytes behind its channel's start the only tap is."""
        return 0

    def taking(self, x: Array) -> list[Call]:
        """Return the call that puts rows ``[1, C, D, H, W]`` in order."""
        block = numbers(
            PANELS,
            x=x.ctypes.data,
            y=self.array.ctypes.data,
            channels=x.shape[1],
            length=self.plane // self.item,
            x_channel=x.strides[1],
            y_channel=self.channel,
            y_vector=self.vector,
        )
        return [Call(compiled("panels", x.dtype.char), block, [(0, 0)], self)]


class Padded:
    """A place for a few images with padding, which stays what it is for good.

    ``channel``, ``plane`` and ``row`` are steps in bytes within a phase; images of one plane follow
    each other as planes do. Phases that no tap in ``taps`` sees are not filled.
    """

    def __init__(
        self,
        channels: int,
        size: Axes,
        before: Sequence[int],
        after: Sequence[int],
        stride: Axes,
        dtype: np.dtype[Any],
        fill: float = 0,
        images: int = 1,
        taps: Iterable[Axes] | None = None,
    ) -> None:
        self.stride, self.item = stride, dtype.itemsize
        self._cropped = tuple(
            slice(max(-a, 0), n - max(-b, 0)) for n, a, b in zip(size, before, after, strict=True)
        )
        self._size = tuple(s.stop - s.start for s in self._cropped)
        self._before = tuple(max(a, 0) for a in before)
        total = [n + a + max(b, 0) for n, a, b in zip(self._size, self._before, after, strict=True)]
        if stride[2] == 1:  # the padding before a row also is that behind the one before
            total[2] = self._size[2] + max(self._before[2], after[2], 0)
        parts = [-(-n // s) for n, s in zip(total, stride, strict=True)]
        every = itertools.product(*map(range, stride))
        seen = {tuple(u % s for u, s in zip(tap, stride, strict=True)) for tap in taps or ()}
        self._phases = [p for p in every if taps is None or p in seen]
        self.row = parts[2] * self.item
        self.plane = parts[1] * self.row
        self._phase = images * parts[0] * self.plane
        self.channel = len(self._phases) * self._phase
        self.vector = machine(dtype.char).width * self.item
        behind = self._before[2] * self.item + machine(dtype.char).slack
        self.memory = room(((channels * self.channel + behind) // self.item,), dtype, fill)
        shape = (channels, len(self._phases), images, *parts)
        self.array: Array = np.ndarray(shape, dtype, self.memory)

    def offset(self, at: Sequence[int]) -> int:
        """Return how many bytes behind its channel's start a padded coordinate is."""
        place = 0
        for u, s, step in zip(at, self.stride, (self.plane, self.row, self.item), strict=True):
            place += u // s * step
        phase = tuple(u % s for u, s in zip(at, self.stride, strict=True))
        return self._phases.index(phase) * self._phase + place

    def taking(self, x: Array) -> list[Call]:
        """Return the calls that copy images ``[N, C, D, H, W]`` here, as many as there is room."""
        x = x[(slice(None), slice(None), *self._cropped)]
        calls: list[Call] = []
        for number, phases in enumerate(self._phases):
            source: list[slice] = []
            target: list[slice] = []
            for n, before, s, phase in zip(
                self._size, self._before, self.stride, phases, strict=True
            ):
                first = (phase - before) % s
                start = (first + before) // s
                source.append(slice(first, None, s))
                target.append(slice(start, start + len(range(first, n, s))))
            part = x[(slice(None), slice(None), *source)]
            if part.size:
                at: tuple[Any, ...] = (slice(None), number, slice(None), *target)
                calls += copied(part, self.array[at].swapaxes(0, 1), 0)
        return calls

    def giving(self, x: Array) -> list[Call]:
        """Return the calls that copy an image ``[C, D, H, W]`` from here, if there is one phase."""
        inner = (slice(a, a + n) for a, n in zip(self._before, self._size, strict=True))
        at: tuple[Any, ...] = (slice(None), 0, 0, *inner)
        return copied(x, self.array[at], 0, back=True)


Place = Lying | Panels | Padded


def offsets(place: Place, channels: int, taps: Iterable[Sequence[int]]) -> Array:
    """Return where each tap of each channel is in a place, in bytes."""
    first = np.array([place.offset(tap) for tap in taps], np.int64)
    return (np.arange(channels)[:, None] * place.channel + first).reshape(-1)


def copied(x: Array, place: Array, operand: int | None, back: bool = False) -> list[Call]:
    """Return calls that copy x, part of an operand if not None, to a place of ours, or ``back``.

    Raises DeclinedError where machine code cannot.
    """
    if not x.size:
        return []
    calls = bind_copy(place, x) if back else bind_copy(x, place)
    if calls is None and x.ndim > 1:  # too many loops in one
        return [c for a, b in zip(x, place, strict=True) for c in copied(a, b, operand, back)]
    if calls is None:
        raise DeclinedError
    held = place, x if operand is None else None
    return [
        replace(
            c,
            slots=[(slot, operand) for slot, n in c.slots if n == back and operand is not None],
            held=(c.held, held),
        )
        for c in calls
    ]
