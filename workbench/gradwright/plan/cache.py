"""A bounded cache: the least recently used goes first, by count and by the bytes it holds."""

from __future__ import annotations

import collections
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

ValueT = TypeVar("ValueT")
Buffers = Mapping[int, int]
"""Bytes of each buffer, by what identifies it: several values may hold the same one."""


def default_bytes() -> int:
    """Return how many bytes the plans of a session may hold by default: a quarter of the memory.

    >>> default_bytes() > 0
    True
    """
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    except (AttributeError, ValueError, OSError):  # where there is no sysconf
        return 1 << 31


class Bounded(collections.OrderedDict[Any, ValueT]):
    """A dict that forgets what was least recently used.

    Args:
        most: how many values are kept.
        most_bytes: how many bytes their buffers may have together; the latest stays whatever it
            takes. None: any.
        buffers_of: the buffers of a value.

    >>> cache = Bounded[str](2)
    >>> for word in ("a", "b", "c"):
    ...     cache.keep(word, word.upper())
    >>> cache.find("a"), cache.find("b"), list(cache)
    (None, 'B', ['c', 'b'])
    """

    def __init__(
        self,
        most: int,
        most_bytes: int | None = None,
        buffers_of: Callable[[ValueT], Buffers] = lambda value: {},
    ) -> None:
        super().__init__()
        self.most, self.most_bytes, self._buffers_of = most, most_bytes, buffers_of

    def find(self, key: Any) -> ValueT | None:
        """Return a value, which is then the latest used, or None."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value

    def keep(self, key: Any, value: ValueT) -> None:
        """Add a value as the latest used, and let others go until all bounds hold."""
        self[key] = value
        self.move_to_end(key)
        while len(self) > self.most:
            self.popitem(last=False)
        if self.most_bytes is not None:
            while len(self) > 1 and self.nbytes > self.most_bytes:
                self.popitem(last=False)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers, each counted once."""
        together: dict[int, int] = {}
        for value in self.values():
            together.update(self._buffers_of(value))
        return sum(together.values())
