"""Packing: rows of tokens that lie one after another in rows of one length, none seeing another."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import FeedError
from ...models.decoder.rows import laid_out
from .rows import TokenRow

Array = np.ndarray[Any, Any]
STRATEGIES = ("bfd", "bfd_split", "wrapped")


def pack(rows: Sequence[TokenRow], length: int, strategy: str = "bfd") -> dict[str, Array]:
    """Return ``ids``, ``labels`` and ``position_ids``, i64[n, length], of rows that share them.

    ``"bfd"`` is best fit decreasing: the longest rows first, each where the least room is left
    that it fits in; rows are cut to ``length``. ``"bfd_split"`` cuts long rows into several, and
    loses no token. ``"wrapped"`` puts all one after another and cuts anywhere.

    Positions begin anew at each piece, and its first token has no label: a decoder of
    ``position_ids`` sees each by itself, and the loss is that of the rows apart, where none was
    cut. What is left of a row is padding. Raises FeedError for a length below 2 and no tokens.

    >>> from gradwright.align import TokenRow, pack
    >>> packed = pack([TokenRow([1, 2, 3]), TokenRow([4, 5, 6, 7]), TokenRow([8])], 4)
    >>> packed["ids"].tolist(), packed["position_ids"].tolist()
    ([[4, 5, 6, 7], [1, 2, 3, 8]], [[0, 1, 2, 3], [0, 1, 2, 0]])
    """
    return laid(placed(rows, length, strategy), length)


def laid(filled: Sequence[Sequence[TokenRow]], length: int) -> dict[str, Array]:
    """Return what `pack` does, of rows that `placed` has put together."""
    return laid_out([[(row.tokens, row.labels) for row in members] for members in filled], length)


def placed(rows: Sequence[TokenRow], length: int, strategy: str) -> list[list[TokenRow]]:
    """Return which rows, or pieces of them, lie together; settings and errors are `pack`'s.

    >>> [len(members) for members in placed([TokenRow([1, 2, 3]), TokenRow([4])], 4, "bfd")]
    [2]
    """
    if strategy not in STRATEGIES:
        raise FeedError(f"there is no packing {strategy!r}", need=", ".join(STRATEGIES))
    held = [row for row in rows if len(row)]
    if length < 2 or not held:
        raise FeedError(
            f"{len(held)} rows cannot be packed to {length} tokens", need="rows, and 2 or more"
        )
    if strategy == "wrapped":
        return _wrapped(held, length)
    parts = [part for row in held for part in _parts(row, length, strategy == "bfd_split")]
    return [[parts[i] for i in members] for members in best_fit(list(map(len, parts)), length)]


def best_fit(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Return which rows lie in each bin: best fit decreasing, of equal bins the one filled first.

    >>> best_fit([2, 4, 3, 1], 5)
    [[1, 3], [2, 0]]
    """
    bins: list[list[int]] = []
    spaces: list[int] = []
    by_space: dict[int, deque[int]] = {}
    for row in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        at = bisect_left(spaces, lengths[row])
        if at == len(spaces):
            found, space = len(bins), room
            bins.append([])
        else:
            space = spaces[at]
            found = by_space[space].popleft()
            if not by_space[space]:
                del spaces[at]
        bins[found].append(row)
        if left := space - lengths[row]:
            waiting = by_space.setdefault(left, deque())
            if not waiting:
                insort(spaces, left)
            waiting.append(found)
    return bins


def _parts(row: TokenRow, length: int, split: bool) -> list[TokenRow]:
    """Return a row in pieces of at most ``length``, of which only the first stays if not split."""
    if not split:
        return [row.cut(length)]
    return [row.part(at, at + length) for at in range(0, len(row), length)]


def _wrapped(rows: Sequence[TokenRow], length: int) -> list[list[TokenRow]]:
    filled: list[list[TokenRow]] = [[]]
    room = length
    for row in rows:
        at = 0
        while at < len(row):
            if not room:
                filled.append([])
                room = length
            piece = row.part(at, at + room)
            filled[-1].append(piece)
            at, room = at + len(piece), room - len(piece)
    return filled
