"""Rows of tokens as a graph has read them: their keys and values, and how many tokens are known.

The graph reads the keys and values of the past from an array that is kept here, and returns those
of new positions, which are written behind them. What a row has read can be given up from any token
on: the next ones are written over it. Rows that begin alike are read once (``spread``), those that
have ended leave the array (``shrink``), and it grows with them (``first_room``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
FEW = 2
"""How many tokens are read as they are; more are filled up to a length that has a plan."""
MANY = 64
"""From how many rows on filling up costs more than a plan of another length does."""
FEWEST = 16
"""How many rows do not shrink to fewer: a token of one takes hardly less than one of them."""
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
        first_room: how many tokens there is room for at first; it doubles as often as need be.
            None is ``room``.
        feeds: what else a run takes at its end, a row's each; copied and taken out with them.
    """

    def __init__(
        self,
        past: tuple[Any, Sequence[Any]],
        rows: int,
        room: int,
        chunk: int | None = None,
        asks_length: bool = False,
        before: Before | None = None,
        first_room: int | None = None,
        feeds: Sequence[Array] = (),
    ) -> None:
        dtype, (layers, two, heads, features) = past
        self._before = before = Before(0) if before is None else before
        self._room = before.n + room
        first = self._room if first_room is None else before.n + min(first_room, room)
        self._past = np.zeros((layers, two, rows, heads, first, features), dtype)
        self._chunk, self._asks_length, self._feeds = chunk, asks_length, list(feeds)
        self._known = np.zeros(rows, np.int64)
        """How many positions of each row have been read."""
        self.places = np.arange(rows)
        """Which row stands at each place of the array."""
        self._place = np.arange(rows)
        """At which place each row stands."""
        if before.past is not None:
            self._past[..., : before.n, :] = before.past[:, :, None]
            self._known += before.n

    @property
    def known(self) -> Array:
        """How many tokens of each row have been read."""
        return self._known - self._before.n

    def spread(self, times: int) -> None:
        """Have each row stand for so many, one after another, which go on by themselves."""
        self._past = np.repeat(self._past, times, axis=2)
        self._known = np.repeat(self._known, times)
        self._feeds = [np.repeat(array, times, axis=0) for array in self._feeds]
        self.places, self._place = np.arange(len(self._known)), np.arange(len(self._known))

    def shrink(self, live: Sequence[int]) -> None:
        """Let rows leave that are not live, by halves: few sizes, so few plans.

        A place that is left over has a copy of the first live row, which nobody looks at.
        """
        size = n = len(self.places)
        while size > FEWEST and (size + 1) // 2 >= len(live):
            size = (size + 1) // 2
        if size == n:
            return
        places = np.full(size, live[0], np.int64)
        places[: len(live)] = live
        held = self._place[places]
        self._past = np.take(self._past, held, 2)
        self._feeds = [array[held] for array in self._feeds]
        self.places = places
        self._place[np.array(live)] = np.arange(len(live))

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
            many = len(self.places) >= MANY
            step = width or (longest if few else room_for(longest, 4 if many else 16))
        found: dict[int, Array] = {}
        for new, logits in self._steps(run, wanted, step, apart=width > 0):
            for b, n in new.items():
                of_row = logits[self._place[b]]
                found[b] = of_row[:n] if width else of_row
        return [found[b] for b in wanted]

    def next(self, run: Run, live: Sequence[int], tokens: Sequence[int]) -> Array:
        """Read the one token that is new to each row; return the logits after it, f32[n, V]."""
        rows = np.array(live, np.int64)
        at = self._place[rows]
        n = len(self.places)
        ids, position = np.zeros((n, 1), np.int64), np.zeros(n, np.int64)
        ids[at, 0] = tokens
        position[at] = known = self._known[rows]
        self._grow(int(known.max()) + 1)
        more = [position[:, None] + 1] if self._asks_length else []
        logits, present = run(ids, position, np.zeros(n, np.int64), self._past, *more, *self._feeds)
        is_whole = len(at) == n and bool((at[1:] > at[:-1]).all())
        if is_whole and (known == known[0]).all():
            self._past[:, :, :, :, known[0]] = present[:, :, :, :, 0]
        else:
            self._put(at, known, present if is_whole else present[:, :, at])
        self._known[rows] += 1
        return np.asarray(logits if is_whole else logits[at])

    def _put(self, at: Array, known: Array, present: Array) -> None:
        """Write one new position at each of some places, behind what is known there.

        Its features are one item with one number: half the time of indices along two axes.
        """
        _, _, rows, heads, room, features = self._past.shape
        whole = np.dtype((np.void, features * self._past.itemsize))
        to = (at[:, None] * heads + np.arange(heads)) * room + known[:, None]
        new = np.ascontiguousarray(present)
        past = self._past.reshape(-1).view(whole).reshape(-1, rows * heads * room)
        past[:, to.ravel()] = new.reshape(-1).view(whole).reshape(len(past), -1)

    def _grow(self, n: int) -> None:
        """Make room for so many positions."""
        held = self._past.shape[4]
        if n > held:
            past = np.zeros(
                (*self._past.shape[:4], min(self._room, max(n, 2 * held)), self._past.shape[5]),
                self._past.dtype,
            )
            past[:, :, :, :, :held] = self._past
            self._past = past

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
        n_rows, before, place = len(self.places), self._before, self._place
        first = list(before.ids) or [0] * before.n
        unread = {b: [*first, *tokens][self._known[b] :] for b, tokens in wanted.items()}
        length = np.zeros((n_rows, 1), np.int64)
        length[place[list(wanted)], 0] = [before.n + len(tokens) for tokens in wanted.values()]
        self._grow(int(length.max()))
        for start in range(0, max(map(len, unread.values())), step):
            ids, last = np.zeros((n_rows, step), np.int64), np.zeros(n_rows, np.int64)
            position = np.zeros_like(last)
            parts = {b: row[start : start + step] for b, row in unread.items() if len(row) > start}
            for b, part in parts.items():
                at = place[b]
                ids[at, : len(part)] = part
                last[at], position[at] = len(part) - 1, self._known[b]
            if apart:
                length = position[:, None] + np.arange(1, step + 1)
            more = [np.broadcast_to(length, ids.shape)] if self._asks_length else []
            past = self._past if self._known.any() else self._past[:, :, :, :, :0]
            logits, present = run(ids, position, last, past, *more, *self._feeds)
            for b, part in parts.items():
                at, begin, n = place[b], int(self._known[b]), len(part)
                self._past[:, :, at, :, begin : begin + n] = present[:, :, at, :, :n]
                self._known[b] = begin + n
            yield {b: len(part) for b, part in parts.items()}, logits

    def keep(self, row: int, n: int) -> None:
        """Know no more than the first ``n`` tokens of a row."""
        self._known[row] = min(self._known[row], self._before.n + n)


def room_for(n: int, least: int = 16) -> int:
    """Return the least 2ᵏ or 3·2ᵏ that n positions fit into: few sizes, so few plans.

    >>> [room_for(n) for n in (1, 17, 30, 33, 300)]
    [16, 24, 32, 48, 384]
    """
    power = max(least, 1 << (n - 1).bit_length())
    return power * 3 // 4 if n <= power * 3 // 4 and power > least else power
