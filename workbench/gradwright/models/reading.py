"""Rows of tokens as a graph has read them: their keys and values, and how many tokens are known.

The graph reads the keys and values of the past from an array that is kept here, and returns those
of new positions, which are written behind them. What a row has read can be given up from any token
on: the next ones are written over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
FEW = 2
"""How many tokens are read as they are; more are filled up to a length that has a plan."""
Run = Callable[..., Sequence[Array]]
"""From ids, position, last, past, and length if it is asked for, to logits, of the last position or
of all, and present."""


@dataclass(frozen=True)
class Before:
    """What stands before each row, and is no token of it: its first ``n`` positions."""

    n: int
    past: Array | None = None
    """Their keys and values, [layers, 2, heads, n, features]."""
    ids: Sequence[int] = ()
    """Where these are not known: what a graph reads in their place."""


class Reader:
    """What rows have been read, and how they are read on.

    Args:
        past: dtype and shape of keys and values of a row, ``(layers, 2, heads, features)``.
        rows: how many rows there are.
        room: how many tokens each may have.
        chunk: how many tokens of a row are read at once, at most; None is any number.
        asks_length: whether a run is told how long the row of each token is then: that of a prompt
            as long as all of it.
        before: what stands before each row.
    """

    def __init__(
        self,
        past: tuple[Any, Sequence[Any]],
        rows: int,
        room: int,
        chunk: int | None = None,
        asks_length: bool = False,
        before: Before | None = None,
    ) -> None:
        dtype, (layers, two, heads, features) = past
        self._before = before = Before(0) if before is None else before
        self._past = np.zeros((layers, two, rows, heads, before.n + room, features), dtype)
        self._chunk, self._asks_length = chunk, asks_length
        self._known = np.zeros(rows, np.int64)
        """How many positions of each row have been read."""
        if before.past is not None:
            self._past[..., : before.n, :] = before.past[:, :, None]
            self._known += before.n

    @property
    def known(self) -> Array:
        """How many tokens of each row have been read."""
        return self._known - self._before.n

    def read(self, run: Run, wanted: Mapping[int, Sequence[int]], width: int = 0) -> list[Array]:
        """Read what rows have beyond what is known of them, one token or more each.

        Returns the logits that come at the end of each, in the order of ``wanted``: f32[V], or
        f32[n, V] for ``width`` positions at once, of which a row has the n that are new to it.
        """
        longest = max(len(tokens) - int(self.known[b]) for b, tokens in wanted.items())
        if self._chunk is not None and longest > self._chunk and not width:
            step = self._chunk
        else:
            few = longest <= FEW and self._known.any()
            step = width or (longest if few else room_for(longest))
        found: dict[int, Array] = {}
        for new, logits in self._steps(run, wanted, step, apart=width > 0):
            found |= {b: logits[b, :n] if width else logits[b] for b, n in new.items()}
        return [found[b] for b in wanted]

    def parts(self, run: Run, tokens: Sequence[int], width: int) -> Iterator[Array]:
        """Yield the logits of what follows each token of the first row, f32[n, V], n <= width.

        So a long row takes the memory of the logits of few tokens.
        """
        for new, logits in self._steps(run, {0: tokens}, width):
            of_tokens = min(new[0], int(self.known[0]))  # what stands before them is none
            yield logits[0, new[0] - of_tokens : new[0]]

    def _steps(
        self, run: Run, wanted: Mapping[int, Sequence[int]], step: int, apart: bool = False
    ) -> Iterator[tuple[dict[int, int], Array]]:
        """Read so many tokens of rows at a time; yield how many of each, and what a run gave.

        ``apart`` reads each as if it had come alone, as guesses have to be.
        """
        n_rows, before = len(self._known), self._before
        first = list(before.ids) or [0] * before.n
        unread = {b: [*first, *tokens][self._known[b] :] for b, tokens in wanted.items()}
        length = np.zeros((n_rows, 1), np.int64)
        length[list(wanted), 0] = [before.n + len(tokens) for tokens in wanted.values()]
        for start in range(0, max(map(len, unread.values())), step):
            ids, last = np.zeros((n_rows, step), np.int64), np.zeros(n_rows, np.int64)
            position = np.zeros_like(last)
            parts = {b: row[start : start + step] for b, row in unread.items() if len(row) > start}
            for b, part in parts.items():
                ids[b, : len(part)] = part
                last[b], position[b] = len(part) - 1, self._known[b]
            if apart:
                length = position[:, None] + np.arange(1, step + 1)
            more = [np.broadcast_to(length, ids.shape)] if self._asks_length else []
            past = self._past if self._known.any() else self._past[:, :, :, :, :0]
            logits, present = run(ids, position, last, past, *more)
            for b, part in parts.items():
                at, n = int(position[b]), len(part)
                self._past[:, :, b, :, at : at + n] = present[:, :, b, :, :n]
                self._known[b] = at + n
            yield {b: len(part) for b, part in parts.items()}, logits

    def keep(self, row: int, n: int) -> None:
        """Know no more than the first ``n`` tokens of a row."""
        self._known[row] = min(self._known[row], self._before.n + n)


def room_for(n: int) -> int:
    """Return the least 2ᵏ or 3·2ᵏ that n positions fit into: few sizes, so few plans.

    >>> [room_for(n) for n in (1, 17, 30, 33, 300)]
    [16, 24, 32, 48, 384]
    """
    power = max(16, 1 << (n - 1).bit_length())
    return power * 3 // 4 if n <= power * 3 // 4 and power > 16 else power
