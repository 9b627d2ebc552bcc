"""Products of float32 matrices whose inner axis is long: pieces of it, whose results are added up.

BLAS adds up a vector's products one by one, and those of small matrices: over a million of equal
ones 1 % is lost. Large products are added up in blocks of some hundred, which lose digits later.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .summing import DOT, SHORT

Array = np.ndarray[Any, Any]

LONG = 2048
"""Longest inner axis that stays whole in any product."""
SMALL = 2048
"""Elements of results up to which OpenBLAS may add up one by one: its small kernels take 1024."""
MOST = 1 << 22
"""Elements that the results of all pieces have at most."""


def pieces(char: str, batch: int, m: int, n: int, k: int) -> int:
    """Return how many pieces of equal length the inner axis of ``batch`` products is cut into.

    A dot has many running sums, so 4096 are as good as 512 of other products. Long vectors go in
    pieces of 2048, which take no longer than the whole; large products have blocks of their own.

    >>> pieces("f", 1, 64, 64, 4096), pieces("f", 1, 2, 2, 4096), pieces("d", 1, 2, 2, 4096)
    (1, 8, 1)
    """
    if m == n == 1:
        longest, piece = DOT, DOT
    elif m * n <= SMALL:
        longest, piece = 4 * SHORT, 4 * SHORT
    elif min(m, n) == 1:
        longest, piece = DOT, DOT // 2
    else:
        longest, piece = 1 << 16, 1 << 14
    if char not in "fF" or k <= max(longest, LONG):
        return 1
    return max(1, min(k // piece, MOST // max(1, batch * m * n)))


def split(a: Array, b: Array, count: int) -> tuple[Array, Array, int]:
    """Return two operands whose pieces are a leading axis, and where the rest of them starts."""
    k = a.shape[-1]
    size = k // count
    whole = size * count
    *of_a, m, _ = a.shape
    *of_b, _, n = b.shape
    left = a[..., :whole].reshape(*of_a, m, count, size)
    right = b[..., :whole, :].reshape(*of_b, count, size, n)
    lead = max(len(of_a), len(of_b))
    if not lead:
        return left.swapaxes(0, 1), right, whole
    left = left.reshape(*(1,) * (lead - len(of_a)), *left.shape)
    right = right.reshape(*(1,) * (lead - len(of_b)), *right.shape)
    return np.moveaxis(left, -2, 0), np.moveaxis(right, -3, 0), whole


def _joined(parts: Array) -> Any:
    """Return the sum over the pieces, many of them in twice the bits."""
    if len(parts) <= SHORT:
        return np.add.reduce(parts, 0)
    wide = np.result_type(parts.dtype, np.float64)
    with np.errstate(over="ignore"):
        return np.add.reduce(parts, 0, dtype=wide).astype(parts.dtype)


def product(a: Array, b: Array, out: Array | None = None) -> Any:
    """Return the product of matrices, batches of them or vectors, as ``numpy.matmul``.

    >>> x = np.full(1_000_000, 0.1, np.float32)
    >>> bool(abs(product(x, x) - 1e4) < 0.01)
    True
    """
    count = 1
    if a.shape[-1] > LONG and a.dtype == b.dtype:
        left = a if a.ndim > 1 else a[None]
        right = b if b.ndim > 1 else b[:, None]
        batch = math.prod(np.broadcast_shapes(left.shape[:-2], right.shape[:-2]))
        sizes = left.shape[-2], right.shape[-1], a.shape[-1]
        count = pieces(a.dtype.char, batch, *sizes)
    if count == 1:
        return np.matmul(a, b, out) if out is not None else np.matmul(a, b)
    first, second, whole = split(left, right, count)
    y = _joined(np.matmul(first, second))
    if whole < a.shape[-1]:
        y += np.matmul(left[..., whole:], right[..., whole:, :])
    y = y[..., 0, :] if a.ndim == 1 else y
    y = y[..., 0] if b.ndim == 1 else y
    if out is None:
        return y
    out[...] = y
    return out
