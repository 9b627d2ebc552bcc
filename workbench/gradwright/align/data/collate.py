"""Batches of rows, padded to few lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import FeedError
from ...models.decoder.rows import IGNORED
from .rows import TokenRow

Array = np.ndarray[Any, Any]


def collate(
    rows: Sequence[TokenRow],
    *,
    position_ids: bool = False,
    multiple_of: int = 1,
    most: int | None = None,
) -> dict[str, Array]:
    """Return ``ids`` and ``labels``, i64[rows, T], padded on the right to one length.

    Padding is token 0 and has no label: nothing before it sees it, so that a tokenizer needs none
    of its own. T is the least multiple of ``multiple_of`` that the longest row fits in: few shapes,
    few plans. Padding does not reach beyond ``most``. Raises FeedError for no rows.

    >>> from gradwright.align import TokenRow, collate
    >>> batch = collate([TokenRow([5, 6, 7], 1), TokenRow([8, 9])], multiple_of=4)
    >>> batch["ids"].tolist(), batch["labels"].tolist()
    ([[5, 6, 7, 0], [8, 9, 0, 0]], [[-100, 6, 7, -100], [8, 9, -100, -100]])
    """
    longest = max(map(len, rows), default=0)
    if not longest or multiple_of < 1:
        raise FeedError(
            f"{len(rows)} rows of {longest} tokens at most are no batch",
            need="rows with tokens, and multiple_of of 1 or more",
        )
    width = -(-longest // multiple_of) * multiple_of
    width = width if most is None else max(longest, min(width, most))
    ids = np.zeros((len(rows), width), np.int64)
    labels = np.full_like(ids, IGNORED)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row.tokens
        labels[i, : len(row)] = row.labels
    batch = {"ids": ids, "labels": labels}
    if position_ids:
        batch["position_ids"] = np.broadcast_to(np.arange(width), ids.shape).copy()
    return batch
