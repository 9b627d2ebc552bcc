"""Windows, blocks, convolutions and Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .arguments import checked_axis, fresh, lift, op
from .joins import concatenate
from .refusals import refusal
from .registry import call, implements
from .shapes import ravel

_windows: Any = np.lib.stride_tricks.sliding_window_view


@implements(_windows)
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """All windows of neighbours, as further axes at the end; nobody writes them."""
    a = lift(x)
    sizes = window_shape if isinstance(window_shape, (tuple, list)) else (window_shape,)
    axes = range(a.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    if writeable:
        raise refusal("windows that are written have no op", hint="x[i : i + n] += ...")
    y = a
    for size, place in zip(sizes, axes, strict=True):
        n, at = a.shape[place], checked_axis(place, a.ndim)
        if size > n:
            raise ValueError("window shape cannot be larger than input array shape")
        starts = np.arange(n - size + 1)[:, None] + np.arange(size)
        y = call(np.moveaxis, call(np.take, y, starts, at), at + 1, -1)
    made = call(np.copy, y)
    made.shadow.flags.writeable = False
    return made


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Sums of products with a reversed row that slides along."""
    x, k = lift(a), lift(v)
    if x.shape[0] < k.shape[0]:
        x, k = k, x
    n = k.shape[0]
    ends = {"full": (n - 1, n - 1), "same": (n // 2, n - 1 - n // 2), "valid": (0, 0)}
    if mode not in ends:
        raise ValueError(f"mode must be one of 'full', 'same' or 'valid', got {mode!r}")
    before, after = ends[mode]
    rows = sliding_window_view(call(np.pad, x, (before, after)), n)
    return rows @ k[::-1]


@implements(np.block)
def block(arrays: Any) -> Any:
    """Arrays from nested lists of blocks."""

    def depth(value: Any) -> int:
        return 1 + depth(value[0]) if isinstance(value, list) else 0

    def join(value: Any, axis: int, ndim: int) -> Any:
        if isinstance(value, list):
            return concatenate([join(v, axis + 1, ndim) for v in value], axis)
        x = lift(value)
        return x[(None,) * (ndim - x.ndim)] if x.ndim < ndim else x

    levels = depth(arrays)
    found: list[Any] = [arrays]
    while isinstance(found[0], list):
        found = [v for part in found for v in part]
    ndim = max(levels, *(np.ndim(v) for v in found))
    return join(arrays, ndim - levels, ndim)


@implements(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """Coordinates of places in the flat array."""
    rest, found = lift(indices), []
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for i, n in enumerate(sizes):
        below = math.prod(sizes[i + 1 :])
        found.append(rest // below % n)
    return tuple(found)


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any) -> Any:
    """Places in the flat array, of coordinates that lie inside."""
    total: Any = 0
    for i, places in enumerate(multi_index):
        total = total + lift(places) * math.prod(dims[i + 1 :])
    return total


def _transform(name: str) -> Any:
    def function(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
        x = lift(a)
        if x.dtype.kind not in "fc":
            x = x.astype(np.float64)
        if name in ("fft", "ifft", "irfft") and x.dtype.kind == "f":
            x = x + x.dtype.type(0) * np.complex64(0)
        found = op(name, x.tensor, n=n, axis=checked_axis(axis, x.ndim), norm=norm or "backward")
        return fresh(found)

    return function


implements(np.fft.fft)(_transform("fft"))
implements(np.fft.ifft)(_transform("ifft"))
implements(np.fft.rfft)(_transform("rfft"))
implements(np.fft.irfft)(_transform("irfft"))
implements(np.fft.fftshift)(lambda x, axes=None: _shifted(x, axes, 1))
implements(np.fft.ifftshift)(lambda x, axes=None: _shifted(x, axes, -1))


def _shifted(x: Any, axes: Any, sign: int) -> Any:
    a = lift(x)
    given = range(a.ndim) if axes is None else axes if isinstance(axes, (tuple, list)) else (axes,)
    moves = [a.shape[i] // 2 if sign > 0 else -(a.shape[i] // 2) for i in given]
    return call(np.roll, a, moves, list(given))


@implements(np.interp)
def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Values on the straight lines between points whose places increase."""
    if period is not None:
        raise refusal("np.interp with period= has no op", hint="np.concatenate the ends")
    at, places, values = (call(np.astype, lift(v), np.float64) for v in (x, xp, fp))
    n = places.shape[0]
    above = call(np.clip, call(np.searchsorted, places, ravel(at), side="right"), 1, n - 1)
    above = above.reshape(at.shape)
    below = above - 1
    width = places[above] - places[below]
    share = (at - places[below]) / width
    inside = values[below] + share * (values[above] - values[below])
    low = values[0] if left is None else left
    high = values[-1] if right is None else right
    found = call(
        np.where, at < places[0], low, call(np.where, at >= places[-1], values[-1], inside)
    )
    found = call(np.where, at > places[-1], high, found)
    return found if at.ndim else found[()]
