"""Sums of arrays that lose no more than pairwise ones, over any axes and in any layout.

numpy adds by halves along the axis that lies densest in memory, and one by one along all others:
a million rows of 0.1 in float32 are 1 % off there. Here no more than ``SHORT`` numbers are added
one by one: longer axes are cut into as many parts, whose sums are summed again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

PARTS = 32
"""Rows that are added to one: with 4096 × 512 float32 as fast as all at once, and precise."""
SHORT = 128
"""Most numbers that are added one by one; numpy's own sums stop to halve there."""
SUMMED_BY_PRODUCT = 512
"""Longest row whose sum is a product with ones; numpy takes 50 ns to begin a row."""
DOT = 4096
"""Longest row whose product with another is one call of BLAS, which has 32 running sums."""


def matrix(x: Array, n: int | None = None) -> Array:
    """Return an array as a matrix of rows; a row is the last axis, or has ``n`` elements."""
    n = x.shape[-1] if n is None else n
    return x.reshape(x.size // n if n else math.prod(x.shape[:-1]), n)


@functools.lru_cache(maxsize=64)
def _ones(n: int, dtype: np.dtype[Any]) -> Array:
    ones = np.ones(n, dtype)
    ones.flags.writeable = False
    return ones


def row_sums(x: Array, out: Array | None = None) -> Array:
    """Return the sum of each row of a matrix of floats."""
    if x.shape[1] > SUMMED_BY_PRODUCT or not x.flags.c_contiguous:
        return np.add.reduce(x, 1, out=out)
    return np.matmul(x, _ones(x.shape[1], x.dtype), out)


def row_dots(x: Array, y: Array) -> Array:
    """Return Σ x·y for each row of two real matrices."""
    n = x.shape[1]
    if n <= DOT:
        found: Array = np.vecdot(x, y)
        return found
    count = n // DOT
    whole = count * DOT
    parts = (a[:, :whole].reshape(len(a), count, DOT) for a in (x, y))
    total: Array = row_sums(np.vecdot(*parts))
    return total + np.vecdot(x[:, whole:], y[:, whole:]) if whole < n else total


def column_sums(x: Array, out: Array | None = None) -> Array:
    """Return the sum of each column of a matrix of floats."""
    if not x.flags.c_contiguous:
        total: Array = add_up(x, (0,))
        if out is None:
            return total
        out[...] = total
        return out
    n = x.shape[1]
    while len(x) > SHORT and n > 1:
        step = len(x) // PARTS
        whole = x[: PARTS * step].reshape(PARTS, step * n)
        parts = np.matmul(_ones(PARTS, x.dtype), whole).reshape(step, n)
        rest = x[PARTS * step :]
        x = np.concatenate([parts, np.add.reduce(rest, 0, keepdims=True)]) if len(rest) else parts
    if n == 1:
        return np.add.reduce(x, 0, out=out)
    return np.matmul(_ones(len(x), x.dtype), x, out)


def add_up(x: Array, axes: Sequence[int], *, keepdims: bool = False) -> Any:
    """Return the sum over some axes, counted from the front.

    >>> x = np.full((1_000_000, 2), 0.1, np.float32)  # of which numpy makes 100958 down a column
    >>> bool(abs(add_up(x, (0,)) - 1e5).max() < 0.2)
    True
    """
    if x.dtype.kind not in "fc" or math.prod(x.shape[a] for a in axes) <= SHORT:
        return x.sum(tuple(axes), keepdims=keepdims)
    order = sorted(range(x.ndim), key=lambda a: -abs(x.strides[a]))  # as they lie in memory
    y = x.transpose(order)
    groups: list[list[int]] = []
    for at, axis in enumerate(order):
        if at and (axis in axes) == (order[at - 1] in axes) and _adjoin(y, at):
            groups[-1].append(at)
        else:
            groups.append([at])
    y = y.reshape([math.prod(y.shape[at] for at in group) for group in groups])
    for number, group in reversed(list(enumerate(groups))):
        if order[group[0]] in axes:
            y = _add_along(y, number)
    y = y.reshape([1 if a in axes else x.shape[a] for a in order]).transpose(np.argsort(order))
    return y if keepdims else y.reshape([n for a, n in enumerate(x.shape) if a not in axes])[()]


def _adjoin(y: Array, at: int) -> bool:
    """Tell whether an axis and the one before it are one in memory."""
    return bool(y.strides[at - 1] == y.strides[at] * y.shape[at])


def _add_along(y: Array, axis: int) -> Array:
    """Return the sum along an axis, which stays with size 1; those behind it lie denser."""
    before, n, after = y.shape[:axis], y.shape[axis], y.shape[axis + 1 :]
    if not math.prod(after) or after == () or n <= PARTS:
        return np.add.reduce(y, axis, keepdims=True)
    if y.flags.c_contiguous and math.prod(before) * PARTS <= n:
        found = [column_sums(matrix(part)) for part in y.reshape(-1, n, math.prod(after))]
        return np.stack(found).reshape(*before, 1, *after) if found else y.sum(axis, keepdims=True)
    line = (slice(None),) * axis
    while (n := y.shape[axis]) > PARTS:
        step = n // PARTS
        whole, rest = y[(*line, slice(PARTS * step))], y[(*line, slice(PARTS * step, None))]
        parts = np.add.reduce(whole.reshape(*before, step, PARTS, *after), axis + 1)
        if rest.shape[axis]:
            parts = np.concatenate([parts, np.add.reduce(rest, axis, keepdims=True)], axis)
        y = parts
    return np.add.reduce(y, axis, keepdims=True)


def running_sums(x: Array, axis: int, out: Array | None = None) -> Array:
    """Return the running sums along an axis: those within parts, and then those of the parts.

    Up to 1024 they go on one by one, which is twice as fast as parts, and loses three bits.
    """
    out = np.empty(x.shape, x.dtype) if out is None else out
    n = x.shape[axis]
    line: Any = (slice(None),) * axis
    if x.dtype.kind not in "fc" or n <= 8 * SHORT:
        return np.cumsum(x, axis, out=out)
    step = n // SHORT
    head, rest = (*line, slice(step * SHORT)), (*line, slice(step * SHORT, None))
    parts = (*x.shape[:axis], step, SHORT, *x.shape[axis + 1 :])
    within = out[head].reshape(parts)  # a view: an axis is cut
    np.cumsum(x[head].reshape(parts), axis + 1, out=within)
    before = running_sums(within[(*line, slice(None), slice(-1, None))], axis)
    within[(*line, slice(1, None))] += before[(*line, slice(-1))]
    if n % SHORT:
        np.cumsum(x[rest], axis, out=out[rest])
        out[rest] += before[(*line, -1)]
    return out


def sums_at(n: int, at: Array, x: Array) -> Array:
    """Return ``n`` sums: each of those elements of a vector whose place ``at`` it is.

    Places come in any order, so that there is nothing to halve: floats add up in float64.
    """
    if x.dtype.kind == "f":
        return np.bincount(at, x, n).astype(x.dtype, copy=False)
    y = np.zeros(n, x.dtype)
    if x.dtype.kind == "c":
        y.real, y.imag = np.bincount(at, x.real, n), np.bincount(at, x.imag, n)
    else:
        np.add.at(y, at, x)
    return y
