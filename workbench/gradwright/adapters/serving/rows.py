"""Rows: which adapters each row of a batch has, as a user says it and as a graph is fed it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import FeedError
from ...words.spelling import meant

Array = np.ndarray[Any, Any]
Row = str | Sequence[str] | Mapping[str, float] | None
"""An adapter, several, or several with weights; None is the base."""
Rows = Row | Sequence[Row]
"""One for all rows, or a list of one for each."""
Chosen = list[dict[str, float]]
"""Weights by the names of adapters, for each row."""


def chosen(rows: Rows, n: int | None, known: Sequence[str], per_row: int) -> Chosen:
    """Return what each row has; refuse what is not known, or too much.

    ``n`` is how many rows there are, where that is known; a list has as many.

    >>> chosen(["a", None, {"a": 0.5, "b": 2}], None, ["a", "b"], 2)
    [{'a': 1.0}, {}, {'a': 0.5, 'b': 2.0}]
    >>> chosen("a", 2, ["a"], 1)
    [{'a': 1.0}, {'a': 1.0}]
    """
    if isinstance(rows, str | Mapping) or rows is None:
        if n is None:
            raise FeedError(
                f"rows={rows!r} is for all rows, and how many there are is not known",
                need="a list of one for each row",
            )
        rows = [rows] * n
    if not isinstance(rows, Iterable):
        raise FeedError(f"rows={rows!r:.80} has no adapters", need="a name, or a list of one each")
    listed = [_weights(row, i) for i, row in enumerate(rows)]
    if n is not None and len(listed) != n:
        raise FeedError(f"{len(listed)} rows have adapters, and {n} are fed", need="one each")
    for i, row in enumerate(listed):
        if unknown := sorted(row.keys() - set(known)):
            close = meant(unknown[0], known)
            raise FeedError(
                f"row {i} asks for {unknown[0]!r}, and no adapter is called that",
                facts=[f"there are {', '.join(list(known)[:8])}" + " ..." * (len(known) > 8)],
                hint=f"did you mean {close!r}?" if close else "served.add(name, path)",
            )
        if len(row) > per_row:
            raise FeedError(
                f"row {i} asks for {len(row)} adapters at once: {', '.join(row)}",
                need=f"{per_row} or fewer",
                hint=f"gw.adapters.serve(..., per_row={len(row)})",
            )
    return listed


def _weights(row: Any, i: int) -> dict[str, float]:
    """Return an entry of a list as weights by name."""
    if row is None:
        return {}
    if isinstance(row, str):
        return {row: 1.0}
    if not (isinstance(row, Mapping | Sequence) and all(isinstance(name, str) for name in row)):
        raise FeedError(f"row {i} asks for {row!r}", need="a name, names, weights by name, or None")
    found = dict(row) if isinstance(row, Mapping) else dict.fromkeys(row, 1.0)
    for name, weight in found.items():
        if not isinstance(weight, int | float) or not np.isfinite(weight):
            raise FeedError(f"row {i} asks for {weight!r} of {name!r}", need="a finite number")
    return {name: float(weight) for name, weight in found.items()}


def fed(rows: Chosen, slots: Mapping[str, int], none: int, per_row: int) -> tuple[Array, Array]:
    """Return slots, i64[B, k], and weights, f32[B, k]; ``none`` is the slot of no adapter.

    >>> fed([{"a": 1.0}, {}], {"a": 3}, 8, 1)[0].tolist()
    [[3], [8]]
    """
    numbers = np.full((len(rows), per_row), none, np.int64)
    weights = np.ones((len(rows), per_row), np.float32)
    for i, row in enumerate(rows):
        for j, (name, weight) in enumerate(row.items()):
            numbers[i, j], weights[i, j] = slots[name], weight
    return numbers, weights
