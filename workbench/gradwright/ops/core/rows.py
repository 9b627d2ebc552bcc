"""What softmax, norms and losses do along rows, in blocks that stay in the cache.

The arrays are matrices [rows, columns] of float32 or float64, in C order where they are written.
Of several operands the one that is not per row comes first.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..numerics.summing import column_sums, row_dots, row_sums
from .lengths import lengths

Array = np.ndarray[Any, Any]
BLOCK = 1 << 16
"""Numbers that are taken at a time: five passes over 256 kB stay in the L2 cache."""

KEPT = 1 << 22
"""Most bytes of memory that a thread keeps for its next block."""


def blocks(x: Array) -> Iterator[slice]:
    """Yield the rows of a matrix that are worked on together."""
    step = max(1, BLOCK // max(1, x.shape[1]))
    for start in range(0, x.shape[0], step):
        yield slice(start, start + step)


_local = threading.local()


def workspace(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an uninitialised array, for one block of each thread the same memory.

    Fresh memory of that size costs as much in page faults as several passes take. It is good until
    the thread asks again; no thread keeps more than ``KEPT`` bytes.
    """
    n = math.prod(shape) * dtype.itemsize
    if n > KEPT:
        return np.empty(shape, dtype)
    if len(getattr(_local, "raw", ())) < n:
        _local.raw = np.empty(n, np.uint8)
    return np.ndarray(shape, dtype, _local.raw)


def _exponentials(x: Array, out: Array) -> tuple[Array, Array | None]:
    """Write exp(x − c) per row, and return its sums, and c, or None where 0 does for all rows.

    Most logits need no c: without it, sums between 1e-3 and 1e5 lose nothing.
    """
    np.exp(x, out=out)
    sums = row_sums(out)
    if sums.size and sums.min() > 1e-3 and sums.max() < 1e5:
        return sums, None
    top = x.max(-1, keepdims=True, initial=-np.inf)
    np.subtract(x, top, out=out)
    np.exp(out, out=out)
    return row_sums(out), top[:, 0]


def softmax_into(x: Array, y: Array) -> None:
    """Write exp(x)/Σ exp(x); rows that hold −∞ only become NaN."""
    for at in blocks(x):
        out = y[at]
        sums, _ = _exponentials(x[at], out)
        np.divide(out, sums[:, None], out=out)


def softmax_grad_into(g: Array, p: Array, y: Array) -> None:
    """Write (g − Σ g·p)·p."""
    for at in blocks(g):
        out = y[at]
        np.subtract(g[at], row_dots(g[at], p[at])[:, None], out=out)
        np.multiply(out, p[at], out=out)


def log_sums(x: Array, y: Array) -> None:
    """Write log Σ exp(x), one number per row."""
    for at in blocks(x):
        part = x[at]
        sums, top = _exponentials(part, workspace(part.shape, part.dtype))
        np.log(sums, out=y[at])
        if top is not None:
            lost = ~np.isfinite(top)  # of nothing it is −∞, beside ∞ it is ∞, and not NaN
            np.copyto(y[at], top, where=lost)
            np.add(y[at], top, out=y[at], where=~lost)


def log_softmax_into(x: Array, y: Array) -> None:
    """Write x − log Σ exp(x)."""
    for at in blocks(x):
        part, out = x[at], y[at]
        sums, top = _exponentials(part, out)
        if top is not None:
            part = np.subtract(part, top[:, None], out=out)
        np.subtract(part, np.log(sums)[:, None], out=out)


def log_softmax_grad_into(g: Array, y: Array, out: Array) -> None:
    """Write g − exp(y)·Σ g."""
    for at in blocks(g):
        part = out[at]
        np.exp(y[at], out=part)
        np.multiply(part, row_sums(g[at])[:, None], out=part)
        np.subtract(g[at], part, out=part)


def cross_entropy_into(x: Array, index: Array, y: Array) -> None:
    """Write log Σ exp(x) − x[index], one number per row."""
    for at in blocks(x):
        part = x[at]
        sums, top = _exponentials(part, workspace(part.shape, part.dtype))
        label = part[np.arange(part.shape[0]), index[at]]
        np.subtract(np.log(sums), label if top is None else label - top, out=y[at])


def cross_entropy_grad_into(g: Array, x: Array, index: Array, y: Array) -> None:
    """Write g·(softmax(x) − [column = index]), for one g per row."""
    for at in blocks(x):
        out = y[at]
        sums, _ = _exponentials(x[at], out)
        np.multiply(out, (g[at] / sums)[:, None], out=out)
        out[np.arange(out.shape[0]), index[at]] -= g[at]


def _standardised(x: Array, eps: float, out: Array) -> Array:
    """Write (x − mean x)/√(var x + ε), and return 1/√(var x + ε)."""
    n = x.shape[1]
    np.subtract(x, (row_sums(x) / n)[:, None], out=out)
    deviation = lengths(out, (1,), n, eps)[:, 0]
    inverse: Array = np.divide(1, deviation, out=deviation)
    np.multiply(out, inverse[:, None], out=out)
    return inverse


def layer_norm_into(x: Array, w: Array | None, b: Array | None, eps: float, y: Array) -> None:
    """Write (x − mean x)/√(var x + ε)·w + b."""
    for at in blocks(x):
        out = y[at]
        _standardised(x[at], eps, out)
        if w is not None:
            np.multiply(out, w, out=out)
        if b is not None:
            np.add(out, b, out=out)


def layer_norm_grad_into(
    x: Array, w: Array | None, g: Array, eps: float, dx: Array | None, dw: Array | None
) -> None:
    """Write dx = r·(u − mean u − z·mean(u·z)) and dw = Σ g·z, z = (x − mean x)·r, u = g·w.

    The row sums are products: Σ g·w = g @ w, and z·mean(u·z) is made where z was.
    """
    n = x.shape[1]
    if dw is not None:
        dw[...] = 0
    for at in blocks(x):
        given = g[at]
        z = workspace(given.shape, given.dtype)
        inverse = _standardised(x[at], eps, z)
        out = np.empty_like(z) if dx is None else dx[at]
        if dw is not None:
            np.multiply(given, z, out=out)
            dw += column_sums(out)
        if dx is None:
            continue
        u = given if w is None else np.multiply(given, w, out=out)
        mean, share = row_sums(u), row_dots(u, z)
        mean *= inverse / n
        share *= inverse / n
        np.multiply(z, share[:, None], out=z)
        np.multiply(u, inverse[:, None], out=out)
        np.subtract(out, z, out=out)
        np.subtract(out, mean[:, None], out=out)
