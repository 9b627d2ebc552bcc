"""Sets of characters as ranges of code points: asked for one character, joined, turned around."""

from __future__ import annotations

import bisect
import functools
import itertools
import sys
import unicodedata
from collections.abc import Iterable

Ranges = tuple[tuple[int, int], ...]
LAST = sys.maxunicode


class Characters:
    """A set of characters, as ranges of code points in rising order; both ends belong to it.

    >>> digits = Characters.of(("0", "9"), ("a", "f"))
    >>> digits("b"), digits("g"), digits.meets(0x61, 0x7A), (~digits)("g")
    (True, False, True, True)
    """

    __slots__ = ("_highs", "_lows", "ranges")

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        joined: list[tuple[int, int]] = []
        for low, high in sorted(ranges):
            if joined and low <= joined[-1][1] + 1:
                joined[-1] = joined[-1][0], max(high, joined[-1][1])
            else:
                joined.append((low, high))
        self.ranges: Ranges = tuple(joined)
        self._lows = [low for low, _ in joined]
        self._highs = [high for _, high in joined]

    @classmethod
    def of(cls, *parts: str | tuple[str, str]) -> Characters:
        """Return the set of single characters, and of ranges from one to another."""
        pairs = [(part, part) if isinstance(part, str) else part for part in parts]
        return cls((ord(low), ord(high)) for low, high in pairs)

    def __call__(self, character: str) -> bool:
        """Tell whether a character belongs to it."""
        code = ord(character)
        at = bisect.bisect_right(self._lows, code)
        return at > 0 and code <= self._highs[at - 1]

    def meets(self, low: int, high: int) -> bool:
        """Tell whether a code point of a range belongs to it."""
        at = bisect.bisect_right(self._lows, high)
        return at > 0 and self._highs[at - 1] >= low

    def __or__(self, other: Characters) -> Characters:
        return Characters(self.ranges + other.ranges)

    def __and__(self, other: Characters) -> Characters:
        return ~(~self | ~other)

    def __invert__(self) -> Characters:
        starts = [0, *(high + 1 for high in self._highs)]
        ends = [*(low - 1 for low in self._lows), LAST]
        return Characters((a, b) for a, b in zip(starts, ends, strict=True) if a <= b)

    def either_case(self) -> Characters:
        """Return it with all characters whose upper or lower case belongs to it."""
        also = [
            (ord(c), ord(c))
            for c in cased()
            if any(len(other) == 1 and self(other) for other in (c.lower(), c.upper()))
        ]
        return Characters([*self.ranges, *also])


@functools.cache
def cased() -> str:
    """Return all characters that have an upper or a lower case of their own; 2,900."""
    every = map(chr, range(0x20000))  # none lies behind
    return "".join(c for c in every if c.lower() != c or c.upper() != c)


@functools.cache
def _categories() -> dict[str, list[tuple[int, int]]]:
    """Return the ranges of each category of Unicode (0.2 s)."""
    found: dict[str, list[tuple[int, int]]] = {}
    begun = 0
    for name, codes in itertools.groupby(map(unicodedata.category, map(chr, range(LAST + 1)))):
        n = sum(1 for _ in codes)
        found.setdefault(name, []).append((begun, begun + n - 1))
        begun += n
    return found


def category(name: str) -> Characters:
    """Return the characters of a category of Unicode, such as ``L`` or ``Lu``.

    >>> category("Nd")("7"), category("L")("7")
    (True, False)
    """
    parts = [ranges for key, ranges in _categories().items() if key.startswith(name)]
    return Characters(itertools.chain.from_iterable(parts))


ANY = Characters([(0, LAST)])
