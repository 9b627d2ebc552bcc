"""Rows of tokens for a decoder: windows of a long text, padded rows, packed rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import FeedError

Array = np.ndarray[Any, Any]
IGNORED = -100
"""The label of a position that no loss is taken at."""


def windows(tokens: Sequence[int], length: int) -> Array:
    """Return rows i64[n, length] of a long text, each beginning with the last token of another.

    So every token but the first is predicted once; what does not fill a row is left out.

    >>> from gradwright.models import windows
    >>> windows(range(8), 3).tolist()
    [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    """
    held = np.asarray(tokens, np.int64)
    if length < 2 or len(held) < length:
        raise FeedError(f"{len(held)} tokens give no rows of {length}", need="2 <= length <= n")
    return np.lib.stride_tricks.sliding_window_view(held, length)[:: length - 1].copy()


def padded_rows(rows: Sequence[Sequence[int]], n_prompt: int | Sequence[int]) -> dict[str, Array]:
    """Return ``ids`` and ``labels`` of rows below each other."""
    longest = max(map(len, rows))
    ids = np.zeros((len(rows), longest), np.int64)
    labels = np.full_like(ids, IGNORED)
    hidden = np.broadcast_to(n_prompt, len(rows))
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        labels[i, hidden[i] : len(row)] = row[hidden[i] :]
    return {"ids": ids, "labels": labels}


def packed_rows(
    rows: Sequence[Sequence[int]], n_prompt: int | Sequence[int], length: int
) -> dict[str, Array]:
    """Return ``ids``, ``labels`` and ``position_ids`` of rows that lie one after another.

    Each goes into the first row of ``length`` that has room for it. The first token of each has no
    label, for another row stands before it; what is left of a row is padding from position 0 on.

    >>> packed_rows([[1, 2, 3], [4, 5]], 0, 6)["position_ids"].tolist()
    [[0, 1, 2, 0, 1, 0]]
    """
    hidden = np.broadcast_to(n_prompt, len(rows)).tolist()
    filled: list[list[int]] = []
    for i, row in enumerate(rows):
        fits = (held for held in filled if sum(len(rows[j]) for j in held) + len(row) <= length)
        held = next(fits, None)
        if held is None:
            filled.append(held := [])
        held.append(i)
    labelled = [
        (row, [*[IGNORED] * min(n, len(row)), *row[n:]])
        for row, n in zip(rows, hidden, strict=True)
    ]
    return laid_out([[labelled[i] for i in held] for held in filled], length)


def laid_out(
    filled: Sequence[Sequence[tuple[Sequence[int], Sequence[int]]]], length: int
) -> dict[str, Array]:
    """Return ``ids``, ``labels`` and ``position_ids``, i64[n, length], of rows that share them.

    Each is its tokens and its labels, of which the first, behind another row, does not count.

    >>> laid_out([[([1, 2], [1, 2]), ([3, 4], [3, 4])]], 5)["labels"].tolist()
    [[-100, 2, -100, 4, -100]]
    """
    ids = np.zeros((len(filled), length), np.int64)
    labels, places = np.full_like(ids, IGNORED), np.zeros_like(ids)
    for r, held in enumerate(filled):
        at = 0
        for tokens, told in held:
            end = at + len(tokens)
            ids[r, at:end] = tokens
            labels[r, at + 1 : end] = told[1:]
            places[r, at:end] = range(end - at)
            at = end
        places[r, at:] = range(length - at)
    return {"ids": ids, "labels": labels, "position_ids": places}
