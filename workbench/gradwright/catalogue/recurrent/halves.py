"""Halves become float32 on the way into layers with a state, and halves again on the way out."""

from __future__ import annotations

from typing import Any

from ...ops.movement import Cast
from ...spec import dtype


def wide(*xs: Any) -> list[Any]:
    """Return halves as float32, in which states are computed; None and others as they are."""
    return [
        x if x is None or x.dtype.itemsize >= 4 else Cast(dtype=dtype("float32"))(x) for x in xs
    ]


def narrowed(like: Any, *ys: Any) -> tuple[Any, ...]:
    """Return results in the dtype of a tensor."""
    return tuple(y if y.dtype == like.dtype else Cast(dtype=like.dtype)(y) for y in ys)
