"""Data sets: examples or batches, given in each epoch in an order that a resume finds again."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import FeedError, TrainingError
from .columns import Array, Columns, RowNumbers, listed

At = slice | Array
"""Which rows of a table: a range, or row numbers."""


class Dataset(ABC):
    """Examples or batches as dicts of arrays; its methods return other data sets, and change none.

    An epoch is a function of its number: ``epoch(3, skip=10)`` gives what ``epoch(3)`` gives
    after ten items. Where rows can be read at random (`Table`), nothing of what is skipped is read;
    streams are read again from the start. What comes from an iterator that runs once goes on where
    that stands.

    >>> import gradwright as gw, numpy as np
    >>> data = gw.data.dataset({"x": np.arange(6), "t": np.arange(6) % 2})
    >>> batches = data.filter(lambda e: e["x"] != 3).batch(2)
    >>> [batch["x"].tolist() for batch in batches]
    [[0, 1], [2, 4], [5]]
    >>> [batch["x"].tolist() for batch in data.shuffle(seed=1).batch(2).epoch(3, skip=2)]
    [[2, 1]]
    """

    batched = False
    """Whether the items are batches, and not examples."""
    once = False
    """Whether it comes from an iterator that runs once."""

    @property
    @abstractmethod
    def n(self) -> int | None:
        """Items of an epoch, where known."""

    @abstractmethod
    def epoch(self, number: int = 0, skip: int = 0) -> Iterator[Columns]:
        """Give the items of an epoch, without the first ``skip``."""

    @abstractmethod
    def signature(self) -> list[int]:
        """Return numbers that must be equal for an epoch that was begun to be finished.

        They tell sizes and order, and of arrays, windows and tables a digest of about 16 rows. Of
        examples of objects and of streams they tell no values.
        """

    @abstractmethod
    def __repr__(self) -> str: ...

    def where(self, epoch: int, at: int, row: int = 0) -> str:
        """Say where item ``at`` comes from, or row ``row`` of it if it is a batch."""
        return f"row {row} of batch {at}" if self.batched else f"example {at} of the data"

    def row_numbers(self, epoch: int) -> RowNumbers | None:
        """Return which rows an epoch's items are before all shuffling; None where that is unknown.

        Batches have an array each. A function that changes a batch must leave its rows in place.

        >>> import gradwright as gw
        >>> data = gw.data.dataset({"x": [0, 10, 20, 30]}).shuffle(seed=5)
        >>> data.row_numbers(0).tolist(), [n.tolist() for n in data.batch(3).row_numbers(0)]
        ([3, 2, 1, 0], [[3, 2, 1], [0]])
        """
        return None

    def __iter__(self) -> Iterator[Columns]:
        return self.epoch()

    def __len__(self) -> int:
        if self.n is None:
            raise TypeError(f"how many items {self!r} gives is not known before it was read")
        return self.n

    # -- other data sets -------------------------------------------------------------------------

    def shuffle(self, seed: int = 0, buffer: int = 1024) -> Dataset:
        """Shuffle anew in each epoch, by a function of seed and epoch.

        Rows that can be read at random are permuted. Of a stream, each item is drawn from
        ``buffer`` that wait, so it is shuffled over about as many.

        >>> import gradwright as gw
        >>> data = gw.data.dataset({"x": [0, 1, 2, 3]}).shuffle(seed=5)
        >>> [[int(e["x"]) for e in data.epoch(n)] for n in (0, 0, 1)]
        [[3, 2, 1, 0], [3, 2, 1, 0], [3, 1, 2, 0]]
        """
        from .row_stages import Shuffled
        from .stages import Stirred

        positive("buffer", buffer)
        return Shuffled(self, seed) if isinstance(self, Table) else Stirred(self, seed, buffer)

    def batch(
        self,
        size: int,
        *,
        drop_last: bool = False,
        pad: Mapping[str, Any] | None = None,
        masks: Mapping[str, str] | None = None,
    ) -> Dataset:
        """Put ``size`` examples at a time below each other; the last batch may be short.

        Args:
            size: examples per batch.
            drop_last: whether to leave out a short last batch.
            pad: values by column, with which shorter examples are filled up to the longest.
            masks: names by padded column, for columns ``bool[B, T]`` that are true where the
                data is.

        >>> import gradwright as gw
        >>> words = gw.data.dataset({"ids": [[7, 8, 9], [5]]})
        >>> (batch,) = words.batch(2, pad={"ids": 0}, masks={"ids": "mask"})
        >>> batch["ids"].tolist(), batch["mask"].sum(1).tolist()
        ([[7, 8, 9], [5, 0, 0]], [3, 1])
        """
        from .padding import by_column
        from .stages import Batched

        if self.batched:
            raise TrainingError(
                f"{self!r} gives batches already", hint="set the size where they are made"
            )
        positive("batch size", size)
        filled, named = by_column("pad", pad), by_column("masks", masks)
        return Batched(self, int(size), drop_last, filled, named)

    def map(self, change: Callable[..., Mapping[Any, Any]], seed: int | None = None) -> Dataset:
        """Change each item: ``change(item)`` returns another dict.

        With ``seed`` it is ``change(item, rng)``, and the generator is a function of seed, epoch
        and position, so that augmentation survives a resume, too.

        >>> import gradwright as gw
        >>> data = gw.data.dataset({"x": [1.0, 2.0]}).map(lambda e: {"x": e["x"] * 10})
        >>> data.rows(0, slice(0, 2))["x"].tolist()
        [10.0, 20.0]
        >>> noisy = data.map(lambda e, rng: {"x": e["x"] + rng.normal()}, seed=0)
        >>> bool(next(noisy.epoch(1))["x"] == next(noisy.epoch(1))["x"])
        True
        """
        from .row_stages import MappedRows
        from .stages import Mapped

        cls = MappedRows if isinstance(self, Table) else Mapped
        return cls(self, change, seed)

    def filter(self, keep: Callable[[Columns], Any]) -> Dataset:
        """Leave out the items for which ``keep(item)`` is false; how many stay is then not known.

        >>> import gradwright as gw
        >>> data = gw.data.dataset({"x": [1, 2, 3]}).filter(lambda e: e["x"] > 1)
        >>> [int(e["x"]) for e in data]
        [2, 3]
        """
        from .stages import Filtered

        return Filtered(self, keep)

    def take(self, n: int) -> Dataset:
        """Keep the first n items of each epoch.

        >>> import gradwright as gw
        >>> len(gw.data.dataset({"x": [1, 2, 3]}).take(2))
        2
        """
        from .row_stages import Chosen
        from .stages import First

        positive("number to take", n)
        return (
            Chosen(self, np.arange(min(n, self.n))) if isinstance(self, Table) else First(self, n)
        )

    def columns(
        self, *same: str | Mapping[str, str | Sequence[str]], **renamed: str | Sequence[str]
    ) -> Dataset:
        """Keep some columns, under these names; several become the columns of a matrix.

        A dict says what keywords do.

        >>> import gradwright as gw
        >>> table = gw.data.dataset({"age": [30, 40], "size": [1.7, 1.8], "label": [0, 1]})
        >>> chosen = table.columns("label", x=["age", "size"])
        >>> chosen.rows(0, slice(0, 2))["x"].tolist()
        [[30.0, 1.7], [40.0, 1.8]]
        """
        from .row_stages import PickedRows
        from .stages import Picked

        chosen: dict[str, str | Sequence[str]] = {}
        for one in same:
            if isinstance(one, list | tuple):
                raise TrainingError(
                    f"columns({one!r}) does not say what the matrix is called",
                    hint=f"columns(x={one!r}), or columns(*{one!r}) to keep each",
                )
            chosen |= one if isinstance(one, Mapping) else {one: one}
        chosen |= renamed
        return (PickedRows if isinstance(self, Table) else Picked)(self, chosen)

    def prefetch(self, n: int = 2) -> Dataset:
        """Prepare up to ``n`` items ahead in a thread, while the one before is being used.

        Errors arrive where the item would have. The thread ends with the epoch, and when the
        iteration is closed or given up; its last item is waited for a second at most.

        >>> import gradwright as gw
        >>> len(list(gw.data.dataset({"x": [1, 2, 3, 4]}).batch(2).prefetch()))
        2
        """
        from .prefetch import Prefetched

        positive("number to prefetch", n)
        return Prefetched(self, n)

    def __add__(self, other: Dataset) -> Dataset:
        from .row_stages import Joined
        from .stages import Chained

        if not isinstance(other, Dataset):
            return NotImplemented
        if self.batched != other.batched:
            raise TrainingError(
                "examples and batches cannot be joined",
                facts=[
                    f"{d!r} gives {'batches' if d.batched else 'examples'}" for d in (self, other)
                ],
            )
        if isinstance(self, Table) and isinstance(other, Table):
            return Joined(self, other)
        return Chained(self, other)

    def _rest(self, items: Iterator[Columns], skip: int) -> Iterator[Columns]:
        """Return items without the first ``skip``, unless they go on by themselves."""
        return items if self.once or not skip else itertools.islice(items, skip, None)


class Table(Dataset):
    """Examples that can be read at random."""

    CHUNK = 32
    """Examples read at once where they are then used one by one."""

    is_at_hand = False
    """Whether to read more rows than are asked for costs their bytes, and does nothing else."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Examples of an epoch."""

    @abstractmethod
    def rows(self, epoch: int, at: At) -> Columns:
        """Return columns of the rows ``at`` of an epoch."""

    def row_numbers(self, epoch: int) -> Array:
        """Return which rows an epoch's examples are."""
        return np.arange(self.n)

    def blocks(self) -> Array:
        """Return the sizes of the runs of rows that are cheap to read together."""
        return np.array([self.n])

    def epoch(self, number: int = 0, skip: int = 0) -> Iterator[Columns]:
        """Give the examples of an epoch, without the first ``skip``."""
        from .columns import examples

        for start in range(skip, self.n, self.CHUNK):
            yield from examples(self.rows(number, slice(start, min(start + self.CHUNK, self.n))))

    def where(self, epoch: int, at: int, row: int = 0) -> str:
        """Say which row an example is."""
        return f"row {at} of the data"


def places(at: At, n: int) -> Array:
    """Return the row numbers that ``at`` stands for in a table of n rows."""
    return np.arange(*at.indices(n)) if isinstance(at, slice) else at


def positive(what: str, value: Any) -> None:
    """Raise TrainingError for what is no whole number from 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise TrainingError(f"the {what} is {value!r}", need="an int >= 1")


def picked(columns: Columns, chosen: Mapping[str, str | Sequence[str]]) -> Columns:
    """Return some columns under other names; raises FeedError for one that is not there."""

    def one(name: str) -> Any:
        if name not in columns:
            raise FeedError(
                f"the data has no column {name!r}", facts=[f"columns: {listed(columns)}"]
            )
        return columns[name]

    return {
        name: one(of) if isinstance(of, str) else _matrix(of, [np.asarray(one(o)) for o in of])
        for name, of in chosen.items()
    }


def _matrix(names: Sequence[str], arrays: Sequence[Array]) -> Array:
    """Return columns as those of a matrix; numpy would make text of numbers beside text."""
    if len({a.shape for a in arrays}) > 1 or len({_holds_text(a) for a in arrays}) > 1:
        raise FeedError(
            f"columns {listed(names)} do not make a matrix",
            facts=[
                f"{name!r}: {a.dtype}{list(a.shape)}" for name, a in zip(names, arrays, strict=True)
            ],
            need="the same shape, and numbers alone or text alone",
            hint="number the text first: np.unique(column, return_inverse=True)[1]"
            if any(map(_holds_text, arrays))
            else "",
        )
    return np.stack(arrays, -1)


def _holds_text(array: Array) -> bool:
    return array.dtype.kind in "SUT" or (
        array.dtype == object and bool(array.size) and isinstance(array.flat[0], str | bytes)
    )
