"""An array in a few numbers and a small picture."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
THUMB = (24, 32)
"""Most rows and columns of a thumbnail."""
BARS = 32
"""Bars of a histogram."""
COUNTED = 250_000
"""Elements that are counted for it, in 10 ms."""


def plain(array: Array) -> Array:
    """Return real numbers that numpy reduces: moduli of complex ones, float32 for small floats."""
    if array.dtype.kind == "c":
        return np.abs(array)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def number(value: Any) -> float | int:
    """Return a number for JSON with six significant digits."""
    return int(value) if isinstance(value, (np.integer, int)) else float(f"{float(value):.6g}")


def ranges(array: Array) -> list[Any]:
    """Return the least and greatest finite element, and how many are NaN and Inf.

    >>> ranges(np.array([1.0, -2.0, np.nan]))
    [-2.0, 1.0, 1, 0]
    """
    values = plain(array)
    if not values.size or values.dtype.kind in "TO":  # text, and what holds other values
        return [None, None, 0, 0]
    with np.errstate(invalid="ignore"):
        low, high = values.min(), values.max()  # NaN if there is one: two passes for most tensors
    if np.isfinite(low) and np.isfinite(high):
        return [number(low), number(high), 0, 0]
    finite = values[np.isfinite(values)]
    ends = [number(finite.min()), number(finite.max())] if finite.size else [None, None]
    return [*ends, int(np.isnan(values).sum()), int(np.isinf(values).sum())]


def thumbnail(array: Array) -> tuple[bytes, int, int]:
    """Return a picture of at most 24 x 32 elements, picked evenly, and its height and width.

    One byte each: 127 is 0, 0 and 254 are ∓ the greatest modulus, 255 is NaN or Inf.
    """
    values = plain(array)
    if not values.size or values.dtype.kind in "TO":
        return b"", 0, 0
    rows, columns = picked(values.shape)
    return shaded(values.reshape(-1, values.shape[-1] if values.ndim else 1)[np.ix_(rows, columns)])


def picked(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return which rows and columns a thumbnail shows, the last axis running across.

    >>> [len(picks) for picks in picked((2, 3, 4))], picked((2, 3, 4))[0].tolist()
    ([6, 4], [0, 1, 2, 3, 4, 5])
    """
    sizes = math.prod(shape[:-1]), shape[-1] if shape else 1
    rows, columns = (
        np.linspace(0, n - 1, min(n, most)).astype(int)
        for n, most in zip(sizes, THUMB, strict=True)
    )
    return rows, columns


def shaded(elements: Array) -> tuple[bytes, int, int]:
    """Return picked elements as a thumbnail; see there."""
    grid = plain(elements).astype(np.float64)
    finite = np.isfinite(grid)
    grid[~finite] = 0.0
    grid /= np.abs(grid).max() or 1.0
    levels = np.where(finite, np.rint(127 + 127 * grid), 255)
    return levels.astype(np.uint8).tobytes(), *grid.shape


def bars(array: Array) -> list[int]:
    """Return how many finite elements lie in each of 32 even parts from the least to the greatest.

    Of large arrays it counts one in so many.

    >>> bars(np.array([0.0, 1.0, 1.0, np.inf]))[::31]
    [1, 2]
    """
    values = plain(array)
    if not values.size or values.dtype.kind not in "biuf":
        return []
    values = values.reshape(-1)[:: max(1, values.size // COUNTED)].astype(np.float64)
    values = values[np.isfinite(values)] / 2  # or the width of all numbers together would be none
    if not values.size or (width := np.ptp(values)) == 0:
        return [values.size] if values.size else []
    places = (values - values.min()) / width * BARS
    counts = np.bincount(np.minimum(places, BARS - 1).astype(np.int64), minlength=BARS)
    return list(map(int, counts))


def statistics(array: Array) -> dict[str, Any]:
    """Return what a sheet says of the elements: range, mean, std, and shares in percent.

    >>> statistics(np.array([[0.0, 2.0], [0.0, -2.0]]))
    {'low': -2.0, 'high': 2.0, 'nan': 0, 'inf': 0, 'mean': 0.0, 'std': 1.41421, 'zeros': 50.0}
    """
    low, high, nan, inf = ranges(array)
    found: dict[str, Any] = {"low": low, "high": high, "nan": nan, "inf": inf}
    values = plain(array)
    if not values.size or values.dtype.kind not in "fiu":
        return found
    finite = values[np.isfinite(values)] if nan or inf else values
    if finite.size:
        with np.errstate(all="ignore"):
            mean, std = finite.mean(dtype=np.float64), finite.std(dtype=np.float64)
        found |= {k: number(v) for k, v in (("mean", mean), ("std", std)) if np.isfinite(v)}
    found["zeros"] = number(100.0 * float(np.count_nonzero(values == 0)) / values.size)
    return found
