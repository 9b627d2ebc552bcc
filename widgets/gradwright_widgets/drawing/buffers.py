"""Arrays as buffers, and what holds them as JSON."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

_BINARY = (bytes, bytearray, memoryview)


def int32(values: Any) -> memoryview:
    """Return integers as the buffer of an ``i32[n]`` array."""
    return memoryview(np.ascontiguousarray(values, "<i4").tobytes())


def uint8(values: Any) -> memoryview:
    """Return small integers as the buffer of a ``u8[n]`` array."""
    return memoryview(np.ascontiguousarray(values, np.uint8).tobytes())


def float64(values: Any) -> memoryview:
    """Return numbers as the buffer of an ``f64[n]`` array."""
    return memoryview(np.ascontiguousarray(values, "<f8").tobytes())


def storable(value: Any) -> Any:
    """Return a copy for JSON, with buffers as ``{"$bytes": base64}`` and null for NaN.

    >>> storable({"x": (1.0, float("nan")), "y": b"abc"})
    {'x': [1.0, None], 'y': {'$bytes': 'YWJj'}}
    """
    if isinstance(value, _BINARY):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, Mapping):
        return {key: storable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [storable(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no word for it
    return value
