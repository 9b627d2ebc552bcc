"""How convolutions are computed: as matmuls of kernels with windows, a few images at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.rows import workspace
from ..numerics.products import product
from ..numerics.summing import row_dots
from .windows import Windows, chunks, parts

Array = np.ndarray[Any, Any]


def correlate(windows: Windows, x: Array, weight: Array, groups: int) -> Array:
    """Return the convolution ``[N, O, *n_out]``: a matmul of kernels with windows as columns."""
    if _by_channel(windows, x, len(weight), groups):
        return _correlate_channels(windows, x, weight.reshape(len(weight), -1))
    n_out = windows.counts(x.shape[2:])
    y = np.empty((len(x), len(weight), *n_out), x.dtype)
    kernels = weight.reshape(groups, len(weight) // groups, -1)
    for part, columns in windows.columns(x, groups):
        images, _, rows = part
        size = (images.stop - images.start, rows.stop - rows.start, *n_out[1:])
        y[part] = product(kernels, columns).reshape(len(weight), *size).swapaxes(0, 1)
    return y


def correlated(windows: Windows, x: Array, g: Array, groups: int, shape: tuple[int, ...]) -> Array:
    """Return how the windows of x went with g, in the shape of the weight."""
    if _by_channel(windows, x, shape[0], groups):
        dw = _correlated_channels(windows, x, g).reshape(shape)
        if np.isfinite(dw).all():  # else infinities at the ends of rows may be in it, times 0
            return dw
    dw = np.zeros((groups, math.prod(shape[1:]), shape[0] // groups))
    for part, columns in windows.columns(x, groups):
        dw += product(columns, _by_group(g[part], groups).mT)
    return dw.mT.reshape(shape).astype(x.dtype, copy=False)


def correlate_back(
    windows: Windows, g: Array, weight: Array, groups: int, size: tuple[int, ...]
) -> Array:
    """Return images ``[N, C, *size]``, each window of which holds weightᵀ·g added up.

    With stride 1 it is also a convolution with the kernels turned. Adding up columns takes about
    1.5 times as long per element as making them, which decides between the two.

    Columns are added up along the last axis in the end, where the windows overlap enough along the
    others: sums along these are of long runs. Two volumes 16·12³ under 32 kernels of 3³ take 1.4 ms
    instead of 2.1.
    """
    n, o, c = len(g), len(weight), weight.shape[1] * groups
    made, added = o * math.prod(size), c * math.prod(g.shape[2:])
    if all(s == 1 for s in windows.stride) and 2 * made <= 3 * added:
        split = weight.reshape(groups, o // groups, c // groups, *weight.shape[2:])
        turned = np.flip(split, tuple(range(3, split.ndim))).swapaxes(1, 2)
        pads = tuple(
            (int(r) - 1 - a, int(r) - 1 - b)
            for r, (a, b) in zip(windows.reach, windows.pads(size), strict=True)
        )
        back = Windows(windows.kernel, windows.stride, pads, windows.dilation)
        return correlate(back, g, turned.reshape(c, o // groups, *weight.shape[2:]), groups)
    kernels = weight.reshape(groups, o // groups, -1).mT
    padded = np.zeros((n, c, *windows.padded_size(size)), g.dtype)
    each = g.itemsize * c * windows.n_taps * math.prod(g.shape[2:])
    across, along = windows.stages()
    in_turn = across.n_taps > 3 * math.prod(across.stride)
    taps = (across.n_taps, along.n_taps) if in_turn else (windows.n_taps,)
    step, reach = windows.stride[0], int(windows.reach[0])
    for part in parts(n, g.shape[2], each):
        images, channels, rows = part
        seeds = _by_group(g[part], groups)
        columns = workspace((*kernels.shape[:2], seeds.shape[2]), g.dtype)
        product(kernels, seeds, out=columns)
        below = padded[images, channels, rows.start * step : (rows.stop - 1) * step + reach]
        below = below.swapaxes(0, 1)
        columns = columns.reshape(c, *taps, below.shape[1], rows.stop - rows.start, *g.shape[3:])
        if in_turn:
            seen = np.zeros((c, along.n_taps, *below.shape[1:-1], g.shape[-1]), g.dtype)
            across.add_up(columns, seen)
            along.add_up(seen, below)
        else:
            windows.add_up(columns, below)
    return windows.cropped(padded, size)


def _by_group(g: Array, groups: int) -> Array:
    """Return ``[N, O, *size]`` as ``[G, O/G, N·size]``."""
    n, o = g.shape[:2]
    return g.swapaxes(0, 1).reshape(groups, o // groups, n * math.prod(g.shape[2:]))


# -- channels of their own -----------------------------------------------------------------------

# Read as one row, images that are shifted by a tap are a slice of it: so each tap of a kernel is
# one long multiplication. What is computed at the ends of rows belongs to no window.


def _by_channel(windows: Windows, x: Array, n_kernels: int, groups: int) -> bool:
    """Tell whether each channel has one kernel: a matmul would be one of vectors."""
    return groups == x.shape[1] == n_kernels > 1 and all(s == 1 for s in windows.stride)


def _channel_rows(windows: Windows, x: Array) -> tuple[Array, list[int]]:
    """Return padded images as ``[C, N, *size]``, and where each tap starts in a channel's row."""
    padded = np.ascontiguousarray(windows.padded(x).swapaxes(0, 1))
    size = padded.shape[2:]
    steps = [math.prod(size[i + 1 :]) * d for i, d in enumerate(windows.dilation)]
    starts = (np.indices(tuple(map(int, windows.kernel))).T @ steps).T.ravel().tolist()
    return padded, starts


def _correlate_channels(windows: Windows, x: Array, kernels: Array) -> Array:
    """Return the convolution of each channel with its own kernel."""
    padded, starts = _channel_rows(windows, x)
    rows = padded.reshape(len(padded), math.prod(padded.shape[1:]))
    n = max(rows.shape[1] - starts[-1], 0)
    n_out = windows.counts(x.shape[2:])
    y = np.empty((*x.shape[:2], *n_out), x.dtype)
    crop = (slice(None), slice(None), *(slice(m) for m in n_out))
    for part in chunks(len(rows), 3 * rows[:1].nbytes):
        seen, taps = rows[part], kernels[part]
        whole = np.empty_like(seen)
        total, product = whole[:, :n], np.empty((len(seen), n), x.dtype)
        np.multiply(seen[:, :n], taps[:, :1], out=total)
        for tap, start in enumerate(starts[1:], 1):
            np.multiply(seen[:, start : start + n], taps[:, tap, None], out=product)
            total += product
        y[:, part] = whole.reshape(len(seen), *padded.shape[1:])[crop].swapaxes(0, 1)
    return y


def _correlated_channels(windows: Windows, x: Array, g: Array) -> Array:
    """Return how each channel's windows went with its g, one number per tap: ``[C, kernel]``."""
    padded, starts = _channel_rows(windows, x)
    spread = np.zeros(padded.shape, x.dtype)
    spread[(slice(None), slice(None), *(slice(m) for m in g.shape[2:]))] = g.swapaxes(0, 1)
    rows, seeds = (a.reshape(len(a), math.prod(a.shape[1:])) for a in (padded, spread))
    n = max(rows.shape[1] - starts[-1], 0)
    dw = np.empty((len(rows), len(starts)), x.dtype)
    for part in chunks(len(rows), 2 * rows[:1].nbytes):
        for tap, start in enumerate(starts):
            dw[part, tap] = row_dots(rows[part, start : start + n], seeds[part, :n])
    return dw
