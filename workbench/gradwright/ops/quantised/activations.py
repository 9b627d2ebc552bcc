"""Activations as bytes: what products with packed weights may round x to."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
PART = 32
"""Numbers of a row that share a scale."""
TINY = 1e-37
"""Parts whose largest number is below it are 0: it has no reciprocal."""


def rounded(x: Array) -> Array:
    """Return rows with each 32 numbers rounded to q·d, d = max|x|/127 and q a whole number.

    All is computed as float32, so that machine code rounds alike. Parts with NaN or ∞ are NaN.

    >>> rounded(np.array([127.0, 1.4, *[0.0] * 30]))[:2].tolist()
    [127.0, 1.0]
    """
    parts = x.astype(np.float32).reshape(*x.shape[:-1], -1, PART)
    largest = np.abs(parts).max(-1, keepdims=True)
    with np.errstate(all="ignore"):
        factor = np.where(largest < TINY, np.float32(0), np.float32(127) / largest)
        y: Array = np.rint(parts * factor) * (largest / np.float32(127))
    return y.reshape(x.shape).astype(x.dtype, copy=False)
