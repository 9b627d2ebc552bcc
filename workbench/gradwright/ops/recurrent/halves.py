"""Halves become float32 on the way into layers with a state, and halves again on the way out."""

from __future__ import annotations

from typing import Any

from ..core.movement import cast_to, widen


def wide(*xs: Any) -> list[Any]:
    """Return halves as float32, in which states are computed; None and others as they are."""
    return [None if x is None else widen(x) for x in xs]


def narrowed(like: Any, *ys: Any) -> tuple[Any, ...]:
    """Return results in the dtype of a tensor."""
    return tuple(cast_to(like.dtype, y) for y in ys)
