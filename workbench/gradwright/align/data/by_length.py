"""An order of rows in which batches hold rows of about the same length, and little padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...data.columns import order
from ...data.dataset import Table
from ...data.row_stages import Shuffled
from ...errors import FeedError

Array = np.ndarray[Any, Any]


def order_by_length(
    lengths: Sequence[int], size: int, *, window: int = 8, seed: int = 0, epoch: int = 0
) -> Array:
    """Return the row numbers of an epoch, batch behind batch, each of rows about equally long.

    Rows are shuffled; of every ``window`` batches in that order they are sorted by length; then
    batches are shuffled, but a short one stays last. All of it is a function of seed and epoch.
    Raises FeedError for sizes below 1.

    >>> from gradwright.align import order_by_length
    >>> order_by_length([3, 9, 4, 8, 1], 2).tolist()
    [4, 0, 2, 1, 3]
    """
    if size < 1 or window < 1:
        raise FeedError(f"batches of {size} rows, {window} in a window", need="1 or more")
    held, n = np.asarray(lengths), len(lengths)
    full = n - n % size
    shuffled = order(seed, epoch, n)
    rows, rest = shuffled[:full], shuffled[full:]
    windows = np.split(rows, range(size * window, full, size * window))
    rows = np.concatenate([part[np.argsort(held[part], kind="stable")] for part in windows])
    mixed = rows.reshape(-1, size)[order(~seed, epoch, full // size)]
    return np.concatenate([mixed.reshape(-1), rest])


class ByLength(Shuffled):
    """Rows of a table in that order: ``.batch(size)`` behind it cuts it where it was made for.

    >>> import gradwright as gw
    >>> table = gw.data.dataset({"row": [0, 1, 2, 3, 4]})
    >>> rows = gw.align.ByLength(table, [3, 9, 4, 8, 1], 2)
    >>> [batch["row"].tolist() for batch in rows.batch(2)]
    [[4, 0], [2, 1], [3]]
    """

    def __init__(
        self, source: Table, lengths: Sequence[int], size: int, *, window: int = 8, seed: int = 0
    ) -> None:
        super().__init__(source, seed)
        self._lengths, self._size, self._window = lengths, size, window

    def order(self, epoch: int) -> Array:
        """Return the row numbers of an epoch; those of the latest are kept."""
        if self._last is None or self._last[0] != epoch:
            sizes = {"window": self._window, "seed": self._seed}
            self._last = epoch, order_by_length(self._lengths, self._size, epoch=epoch, **sizes)
        return self._last[1]

    def signature(self) -> list[int]:
        """Return sizes, seed and source."""
        return [self._size, self._window, *super().signature()]

    def __repr__(self) -> str:
        return f"{self.source!r} by length"
