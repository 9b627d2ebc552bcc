"""What a block is, and how numbers lie in its bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Format:
    """How a block is stored: functions of f32[blocks, size] and u8[blocks, n_bytes].

    ``pack`` is None where blocks are only read.
    """

    size: int
    n_bytes: int
    unpack: Callable[[Array], Array]
    pack: Callable[[Array], Array] | None = None


def half(x: Array) -> Array:
    """Return numbers as the two bytes of a float16; those beyond its range become infinite."""
    with np.errstate(over="ignore"):
        found: Array = x.astype("<f2").view(np.uint8).reshape(len(x), -1)
    return found


def floats(raw: Array) -> Array:
    """Return the float16 of two bytes, as float32."""
    found: Array = np.ascontiguousarray(raw).view("<f2").astype(np.float32)
    return found


def words(raw: Array, n_bytes: int) -> Array:
    """Return little-endian unsigned integers of 2 or 4 bytes."""
    found: Array = np.ascontiguousarray(raw).view(f"<u{n_bytes}")
    return found


def inverse(d: Array) -> Array:
    """Return 1/d, and 0 where that is infinite."""
    with np.errstate(divide="ignore", over="ignore"):
        found = np.float32(1) / d
    return np.where(np.isinf(found), np.float32(0), found)


def fields(raw: Array, bits: int, run: int) -> Array:
    """Return numbers of few bits: of each ``run`` bytes all lowest bits, then all next ones.

    >>> fields(np.array([[0x21, 0x43]], "u1"), 4, 2).tolist()
    [[1, 3, 2, 4]]
    """
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    found = raw.reshape(len(raw), -1, 1, run) >> shifts & np.uint8((1 << bits) - 1)
    return found.reshape(len(raw), -1)


def joined(q: Array, bits: int, run: int) -> Array:
    """Return the bytes that `fields` takes apart."""
    parts = q.astype(np.uint8).reshape(len(q), -1, 8 // bits, run)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    found: Array = np.bitwise_or.reduce(parts << shifts, axis=2).reshape(len(q), -1)
    return found
