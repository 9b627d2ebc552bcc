"""Stages of tables: their rows can be read at random, as those of what they are made of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .columns import Array, Columns, collate, examples, join, order, ranks, words
from .dataset import At, Table, picked, places
from .stages import Mapped, Picked, Stage, following

MIXED = 4
"""Blocks of rows, such as row groups of a file, that are shuffled together."""


class RowStage(Stage, Table):
    """A stage whose rows can be read at random as those of its source."""

    source: Table

    @property
    def n(self) -> int:
        """Examples of an epoch."""
        return self.source.n

    def blocks(self) -> Array:
        """Return the blocks of the source."""
        return self.source.blocks()

    def row_numbers(self, epoch: int) -> Array:
        """Return those of the source."""
        return self.source.row_numbers(epoch)

    def epoch(self, number: int = 0, skip: int = 0) -> Iterator[Columns]:
        """Give the examples of an epoch, without the first ``skip``."""
        return Table.epoch(self, number, skip)


class Shuffled(RowStage):
    """Rows in an order of their own in each epoch; blocks of rows stay about together."""

    def __init__(self, source: Table, seed: int) -> None:
        super().__init__(source)
        self.is_at_hand = source.is_at_hand
        self._seed = seed
        self._last: tuple[int, Array] | None = None

    def order(self, epoch: int) -> Array:
        """Return the row numbers of an epoch; those of the latest are kept."""
        if self._last is None or self._last[0] != epoch:
            self._last = epoch, block_order(self._seed, epoch, self.source.blocks())
        return self._last[1]

    def rows(self, epoch: int, at: At) -> Columns:
        """Return rows by their place in the order."""
        return self.source.rows(epoch, self.order(epoch)[at])

    def where(self, epoch: int, at: int, row: int = 0) -> str:
        """Say which row it is without the shuffling."""
        return self.source.where(epoch, int(self.order(epoch)[at]))

    def row_numbers(self, epoch: int) -> Array:
        """Return the row numbers of the source in this order."""
        return self.source.row_numbers(epoch)[self.order(epoch)]

    def signature(self) -> list[int]:
        """Return seed and source."""
        return [1, self._seed % 2**63, *self.source.signature()]

    def __repr__(self) -> str:
        return f"{self.source!r}.shuffle(seed={self._seed})"


def block_order(seed: int, epoch: int, sizes: Array) -> Array:
    """Return shuffled row numbers in which `MIXED` shuffled blocks at a time are mixed."""
    if len(sizes) <= MIXED:
        return order(seed, epoch, int(sizes.sum()))
    starts = np.cumsum(sizes) - sizes
    chosen = order(~seed, epoch, len(sizes))
    keys = words(seed, epoch, int(sizes.sum()))
    parts, done = [], 0
    for i in range(0, len(chosen), MIXED):
        window = [np.arange(starts[b], starts[b] + sizes[b]) for b in chosen[i : i + MIXED]]
        rows = np.concatenate(window)
        parts.append(rows[ranks(keys[done : done + len(rows)])])
        done += len(rows)
    return np.concatenate(parts)


class MappedRows(Mapped, RowStage):
    """Examples changed by a function as they are read."""

    def rows(self, epoch: int, at: At) -> Columns:
        """Return changed rows."""
        numbers = places(at, self.n).tolist()
        items = zip(numbers, examples(self.source.rows(epoch, at)), strict=True)
        return collate([self.changed(item, epoch, place) for place, item in items])

    epoch = RowStage.epoch


class PickedRows(Picked, RowStage):
    """Some columns of a table, under names of their own."""

    def rows(self, epoch: int, at: At) -> Columns:
        """Return the chosen columns of rows."""
        return picked(self.source.rows(epoch, at), self._chosen)

    epoch = RowStage.epoch


class Chosen(RowStage):
    """Some rows of a table."""

    def __init__(self, source: Table, rows: Array) -> None:
        super().__init__(source)
        self.chosen = rows

    @property
    def n(self) -> int:
        """Examples of an epoch."""
        return len(self.chosen)

    def blocks(self) -> Array:
        """Return the blocks of the source, of the size that is left of each."""
        ends = np.cumsum(self.source.blocks())
        if (np.diff(self.chosen) < 0).any():
            return np.array([self.n])
        sizes = np.diff(np.searchsorted(self.chosen, ends), prepend=0)
        return sizes[sizes > 0]

    def rows(self, epoch: int, at: At) -> Columns:
        """Return rows by their place among the chosen."""
        return self.source.rows(epoch, self.chosen[at])

    def where(self, epoch: int, at: int, row: int = 0) -> str:
        """Say which row of the source it is."""
        return self.source.where(epoch, int(self.chosen[at]))

    def row_numbers(self, epoch: int) -> Array:
        """Return those of the chosen rows."""
        return self.source.row_numbers(epoch)[self.chosen]

    def signature(self) -> list[int]:
        """Return how many, a sum that tells which, and the source."""
        digest = int((self.chosen * (np.arange(self.n) + 1)).sum()) % 2**63
        return [7, self.n, digest, *self.source.signature()]

    def __repr__(self) -> str:
        return f"{self.source!r}.take({self.n} rows)"


class Joined(RowStage):
    """The rows of two tables."""

    def __init__(self, first: Table, second: Table) -> None:
        super().__init__(first)
        self.second = second

    @property
    def n(self) -> int:
        """Examples of an epoch."""
        return self.source.n + self.second.n

    def blocks(self) -> Array:
        """Return the blocks of both, if one of them has any."""
        both = np.concatenate([self.source.blocks(), self.second.blocks()])
        return both if len(both) > 2 else np.array([self.n])

    def rows(self, epoch: int, at: At) -> Columns:
        """Return rows of both."""
        numbers = places(at, self.n)
        late = numbers >= self.source.n
        if not late.any():
            return self.source.rows(epoch, at)
        if late.all():
            return self.second.rows(epoch, numbers - self.source.n)
        both = join(
            [
                self.source.rows(epoch, numbers[~late]),
                self.second.rows(epoch, numbers[late] - self.source.n),
            ]
        )
        back = np.argsort(np.argsort(late, kind="stable"), kind="stable")
        return {k: a[back] if np.ndim(a) else a for k, a in both.items()}

    def where(self, epoch: int, at: int, row: int = 0) -> str:
        """Say which row of the first or the second it is."""
        first = at < self.source.n
        place = (
            self.source.where(epoch, at) if first else self.second.where(epoch, at - self.source.n)
        )
        return f"{place}, of the {'first' if first else 'second'} of two data sets"

    def row_numbers(self, epoch: int) -> Array:
        """Return those of both; the second's follow the first's."""
        both = following([self.source.row_numbers(epoch)], [self.second.row_numbers(epoch)])
        return np.concatenate(both)

    def signature(self) -> list[int]:
        """Return both."""
        return [8, *self.source.signature(), *self.second.signature()]

    def __repr__(self) -> str:
        return f"({self.source!r} + {self.second!r})"
