"""What travels between the kernel and a page: messages, arrays as buffers, copies for JSON."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import traitlets

Buffers = Sequence[Any]
Message = tuple[dict[str, Any], list[Any]]
"""Content, ``{"kind": "panel.data", ...}``, and the buffers that belong to it."""

_BINARY = (bytes, bytearray, memoryview)


class Finite(traitlets.Float[float, Any]):
    """A number that is neither NaN nor infinite, for which JSON has no word."""

    def validate(self, obj: Any, value: Any) -> float:
        """Return the number; raises TraitError for another."""
        number = super().validate(obj, value)
        if not math.isfinite(number):
            raise traitlets.TraitError(f"{self.name or 'a number'} cannot be {number}")
        return number


def int32(values: Any) -> memoryview:
    """Return integers as the buffer of an ``i32[n]`` array."""
    return memoryview(np.ascontiguousarray(values, "<i4").tobytes())


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
