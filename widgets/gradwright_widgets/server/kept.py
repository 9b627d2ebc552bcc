"""Answers that are given again while their files stay as they are."""

from __future__ import annotations

import collections
from typing import Any

MOST_BYTES = 1 << 25
"""Bytes of all answers that are kept; a drawing of 10,000 nodes has 1 MB."""


class Kept:
    """Answers by what was asked; the least recently used go first.

    >>> kept = Kept(10)
    >>> for name in "abc":
    ...     kept.keep(name, b"four")
    >>> kept.find("a"), kept.find("c")
    (None, b'four')
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most, self._bytes = most, 0
        self._held: collections.OrderedDict[Any, bytes] = collections.OrderedDict()

    def find(self, key: Any) -> bytes | None:
        """Return an answer, if it is there."""
        found = self._held.get(key)
        if found is not None:
            self._held.move_to_end(key)
        return found

    def keep(self, key: Any, data: bytes) -> None:
        """Keep an answer, unless it alone is more than a quarter of what there is room for."""
        if 4 * len(data) > max(self._most, 4 * 4) or key in self._held:
            return
        self._held[key] = data
        self._bytes += len(data)
        while self._bytes > self._most:
            _, gone = self._held.popitem(last=False)
            self._bytes -= len(gone)
