"""Values in nested lists, tuples and dicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def replaced(value: Any, leaf: Callable[[Any], Any], is_leaf: Callable[[Any], bool]) -> Any:
    """Return a structure with its leaves replaced: nested lists, tuples and dicts.

    >>> replaced({"a": [1, "b"]}, lambda x: x + 1, lambda x: isinstance(x, int))
    {'a': [2, 'b']}
    """
    if is_leaf(value):
        return leaf(value)
    if isinstance(value, dict):
        return type(value)((k, replaced(v, leaf, is_leaf)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        kind: Any = type(value)
        parts = [replaced(v, leaf, is_leaf) for v in value]
        return kind._make(parts) if hasattr(kind, "_make") else kind(parts)
    return value
