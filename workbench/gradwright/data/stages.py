"""Stages: what the methods of a data set make of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ..errors import FeedError
from .columns import Array, Columns, RowNumbers, article, collate, order
from .dataset import Dataset, Table, picked
from .padding import pad_columns

T = TypeVar("T")
TOGETHER = 1 << 16
"""Bytes of small batches that are read at once: to gather two columns of 16 rows takes 3 us."""
ALIGNED = 64
"""Bytes of which a batch must be a multiple for that, so that each lies as one of its own would."""


class Stage(Dataset):
    """A data set made of another, of which it has all that it does not define."""

    def __init__(self, source: Dataset) -> None:
        self.source = source
        self.once = source.once
        self.batched = source.batched

    @property
    def n(self) -> int | None:
        """Items of an epoch, where known."""
        return self.source.n

    def signature(self) -> list[int]:
        """Return what must be equal for an epoch to be continued."""
        return self.source.signature()

    def where(self, epoch: int, at: int, row: int = 0) -> str:
        """Say where an item comes from."""
        return self.source.where(epoch, at, row)

    def row_numbers(self, epoch: int) -> RowNumbers | None:
        """Return which rows the items are."""
        return self.source.row_numbers(epoch)


class Stirred(Stage):
    """A stream of which each item is drawn from a buffer; a resume draws again from the start."""

    def __init__(self, source: Dataset, seed: int, buffer: int) -> None:
        super().__init__(source)
        self._seed, self._size = seed, buffer

    def epoch(self, number: int = 0, skip: int = 0) -> Iterator[Columns]:
        """Give the items of an epoch, without the first ``skip``."""
        return self._rest(self._drawn(number, self.source.epoch(number)), skip)

    def _drawn(self, number: int, items: Iterable[T]) -> Iterator[T]:
        held: list[T] = []
        draws = _draws(self._seed, number)
        for item in items:
            if len(held) < self._size:
                held.append(item)
            else:
                place = next(draws) % self._size
                drawn, held[place] = held[place], item
                yield drawn
        for place in order(~self._seed, number, len(held)):
            yield held[place]

    def where(self, epoch: int, at: int, row: int = 0) -> str:
        """Say which item it is after shuffling."""
        return Dataset.where(self, epoch, at, row)

    def row_numbers(self, epoch: int) -> RowNumbers | None:
        """Draw the numbers as the items are drawn."""
        known = self.source.row_numbers(epoch)
        if known is None:
            return None
        drawn = list(self._drawn(epoch, known))
        return drawn if self.batched else np.array(drawn)

    def signature(self) -> list[int]:
        """Return seed, buffer and source."""
        return [2, self._seed % 2**63, self._size, *self.source.signature()]

    def __repr__(self) -> str:
        return f"{self.source!r}.shuffle(seed={self._seed}, buffer={self._size})"


def _draws(seed: int, epoch: int) -> Iterator[int]:
    philox = np.random.Philox(key=(seed % 2**64 << 64) | epoch)
    while True:
        yield from philox.random_raw(1024).tolist()


class Batched(Stage):
    """Examples, several at a time."""

    def __init__(
        self,
        source: Dataset,
        size: int,
        drop_last: bool,
        pad: Mapping[str, Any],
        masks: Mapping[str, str],
    ) -> None:
        super().__init__(source)
        self.batched = True
        self.size, self.drop_last = size, drop_last
        self._together = 1
        """Of how many batches rows are read at once."""
        self._pad, self._masks = pad, masks

    @property
    def n(self) -> int | None:
        """Batches of an epoch, where known."""
        n = self.source.n
        return None if n is None else n // self.size if self.drop_last else -(-n // self.size)

    def epoch(self, number: int = 0, skip: int = 0) -> Iterator[Columns]:
        """Give the batches of an epoch, without the first ``skip``."""
        size, source = self.size, self.source
        if isinstance(source, Table):
            start, stop = skip * size, min(len(self) * size, source.n)
            while start < stop:
                end = min(start + size * self._together, stop)
                rows = source.rows(number, slice(start, end))
                if end - start <= size:
                    yield self._padded(rows)
                else:
                    yield from _cut(rows, size, end - start)
                self._together, start = self._at_once(rows, end - start), end
            return
        done = 0 if self.once else skip * size
        stream = source.epoch(number, max(0, done - size + 1))  # the last batch may be short
        for _ in itertools.islice(stream, min(done, size - 1)):
            pass
        while chunk := list(itertools.islice(stream, size)):
            if len(chunk) == size or not self.drop_last:
                yield self._padded(collate(chunk))

    def _at_once(self, rows: Columns, count: int) -> int:
        """Return of how many batches rows are read together, having read some."""
        is_at_hand = isinstance(self.source, Table) and self.source.is_at_hand
        if not is_at_hand or self._pad or self._masks or count < self.size:
            return 1
        each = [a.nbytes // count * self.size for a in rows.values() if a.ndim]
        if any(nbytes % ALIGNED for nbytes in each):  # last bits may depend on where a batch lies
            return 1
        return max(1, TOGETHER // (sum(each) or 1))

    def _padded(self, columns: Columns) -> Columns:
        padded = self._pad or self._masks
        return pad_columns(columns, self._pad, self._masks) if padded else columns

    def where(self, epoch: int, at: int, row: int = 0) -> str:
        """Say which example a row of a batch is."""
        return self.source.where(epoch, at * self.size + row)

    def row_numbers(self, epoch: int) -> RowNumbers | None:
        """Return which rows each batch holds."""
        known = self.source.row_numbers(epoch)
        if known is None:
            return None
        cuts = range(0, len(known), self.size)
        batches = [np.asarray(known[at : at + self.size]) for at in cuts]
        return batches[: self.n] if self.drop_last else batches

    def signature(self) -> list[int]:
        """Return size, whether short batches are left out, and source."""
        return [3, self.size, int(self.drop_last), *self.source.signature()]

    def __repr__(self) -> str:
        return f"{self.source!r}.batch({self.size})"


def _cut(rows: Columns, size: int, count: int) -> Iterator[Columns]:
    """Give rows in batches; a single value belongs to each."""
    columns = [(key, a, a.ndim > 0) for key, a in rows.items()]
    for start in range(0, count, size):
        end = start + size
        yield {key: a[start:end] if has_rows else a for key, a, has_rows in columns}


class Mapped(Stage):
    """Items changed by a function."""

    def __init__(self, source: Dataset, change: Callable[..., Any], seed: int | None) -> None:
        super().__init__(source)
        self._change, self._seed = change, seed

    def epoch(self, number: int = 0, skip: int = 0) -> Iterator[Columns]:
        """Give the items of an epoch, without the first ``skip``, which are not changed."""
        for at, item in enumerate(self.source.epoch(number, skip), skip):
            yield self.changed(item, number, at)

    def changed(self, item: Columns, epoch: int, at: int) -> Columns:
        """Return what the function makes of item ``at`` of an epoch."""
        if self._seed is None:
            made = self._change(item)
        else:
            key = (self._seed % 2**64 << 64) | epoch
            rng = np.random.Generator(np.random.Philox(key=key, counter=at << 128))
            made = self._change(item, rng)
        if not isinstance(made, Mapping):
            name = getattr(self._change, "__name__", "the function")
            raise FeedError(
                f"{name} made {article(type(made).__name__)} of {self.where(epoch, at)}",
                need="a dict by column",
            )
        return dict(made)

    def signature(self) -> list[int]:
        """Return seed and source; the function must be the same."""
        return [4, -1 if self._seed is None else self._seed % 2**63, *self.source.signature()]

    def __repr__(self) -> str:
        return f"{self.source!r}.map({getattr(self._change, '__name__', '...')})"


class Made(Stage):
    """What a function of this package makes of each item."""

    def __init__(self, source: Dataset, make: Callable[[Columns], Any]) -> None:
        super().__init__(source)
        self._make = make

    def epoch(self, number: int = 0, skip: int = 0) -> Iterator[Any]:
        """Give what is made of the items of an epoch, without the first ``skip``."""
        for item in self.source.epoch(number, skip):
            yield self._make(item)

    def __repr__(self) -> str:
        return repr(self.source)


class Picked(Made):
    """Some columns, under names of their own."""

    def __init__(self, source: Dataset, chosen: Mapping[str, str | Sequence[str]]) -> None:
        super().__init__(source, lambda item: picked(item, chosen))
        self._chosen = chosen

    def __repr__(self) -> str:
        return f"{self.source!r}.columns({', '.join(self._chosen)})"


class Filtered(Stage):
    """Items for which a function is true."""

    def __init__(self, source: Dataset, keep: Callable[[Columns], Any]) -> None:
        super().__init__(source)
        self._keep = keep

    @property
    def n(self) -> None:
        """How many stay is not known."""
        return None

    def epoch(self, number: int = 0, skip: int = 0) -> Iterator[Columns]:
        """Give the items of an epoch, without the first ``skip`` of those that stay."""
        return self._rest(filter(self._keep, self.source.epoch(number)), skip)

    def where(self, epoch: int, at: int, row: int = 0) -> str:
        """Say which of the items that stay it is."""
        return Dataset.where(self, epoch, at, row)

    def row_numbers(self, epoch: int) -> None:
        """Which stay is not known."""
        return None

    def signature(self) -> list[int]:
        """Return the source; the function must be the same."""
        return [5, *self.source.signature()]

    def __repr__(self) -> str:
        return f"{self.source!r}.filter({getattr(self._keep, '__name__', '...')})"


class First(Stage):
    """The first items of a stream."""

    def __init__(self, source: Dataset, count: int) -> None:
        super().__init__(source)
        self._count = count

    @property
    def n(self) -> int | None:
        """Items of an epoch, where known."""
        return None if self.source.n is None else min(self._count, self.source.n)

    def epoch(self, number: int = 0, skip: int = 0) -> Iterator[Columns]:
        """Give the items of an epoch, without the first ``skip``."""
        return itertools.islice(self.source.epoch(number, skip), max(0, self._count - skip))

    def row_numbers(self, epoch: int) -> RowNumbers | None:
        """Return which rows the first items are."""
        known = self.source.row_numbers(epoch)
        return None if known is None else known[: self._count]

    def signature(self) -> list[int]:
        """Return the number and the source."""
        return [6, self._count, *self.source.signature()]

    def __repr__(self) -> str:
        return f"{self.source!r}.take({self._count})"


class Chained(Stage):
    """The items of one data set, and then those of another."""

    def __init__(self, first: Dataset, second: Dataset) -> None:
        super().__init__(first)
        self.second = second
        self.once = first.once or second.once

    @property
    def n(self) -> int | None:
        """Items of an epoch, where known."""
        first, second = self.source.n, self.second.n
        return None if first is None or second is None else first + second

    def epoch(self, number: int = 0, skip: int = 0) -> Iterator[Columns]:
        """Give the items of an epoch, without the first ``skip``."""
        n = self.source.n
        if self.once or n is None:
            both = itertools.chain(self.source.epoch(number), self.second.epoch(number))
            return self._rest(both, skip)
        if skip >= n:
            return self.second.epoch(number, skip - n)
        return itertools.chain(self.source.epoch(number, skip), self.second.epoch(number))

    def where(self, epoch: int, at: int, row: int = 0) -> str:
        """Say which item of both it is."""
        return Dataset.where(self, epoch, at, row)

    def row_numbers(self, epoch: int) -> RowNumbers | None:
        """Return which rows the items are, where those of the second follow those of the first."""
        first, second = self.source.row_numbers(epoch), self.second.row_numbers(epoch)
        if first is None or second is None:
            return None
        if isinstance(first, list) and isinstance(second, list):
            return following(first, second)
        return np.concatenate(following([np.asarray(first)], [np.asarray(second)]))

    def signature(self) -> list[int]:
        """Return both."""
        return [9, *self.source.signature(), *self.second.signature()]

    def __repr__(self) -> str:
        return f"({self.source!r} + {self.second!r})"


def following(first: list[Array], second: list[Array]) -> list[Array]:
    """Return row numbers of two data sets, those of the second beyond those of the first."""
    beyond = 1 + max(int(numbers.max()) for numbers in first)
    return first + [numbers + beyond for numbers in second]
