"""Buckets: sequences of about the same length together, in few shapes, so that plans are reused."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import FeedError, TrainingError
from .columns import Array, Columns, as_array, boxes, order
from .dataset import Dataset, Table, positive
from .padding import by_column, pad_columns
from .sources import Arrays, dataset


def buckets(
    sequences: Any,
    boundaries: Sequence[int] | None = None,
    *,
    n: int = 4,
    batch_size: int | None = None,
    batch_tokens: int | None = None,
    by: str | None = None,
    pad: Any = 0,
    masks: Mapping[str, str] | None = None,
    shuffle: bool = True,
    seed: int = 0,
) -> Dataset:
    """Return batches of sequences that are padded to the boundary of their bucket.

    A sequence is in the first bucket whose boundary is not below its length. Every column of
    sequences of different lengths is padded, to the same boundary. In each epoch the rows of a
    bucket are shuffled, cut into batches, and the batches of all buckets shuffled: a function of
    seed and epoch, of which a resume reads only what is left.

    Args:
        sequences: lists of sequences by column, beside columns of other values; or what
            `dataset` takes and can be read at random.
        boundaries: lengths of the buckets; by default the ``n`` with the least padding.
        n: how many buckets at most.
        batch_size: rows per batch; default 32.
        batch_tokens: instead, how many places a batch may have: rows times boundary.
        by: the column whose length decides; by default the longest of a row.
        pad: the value to fill with, or values by column.
        masks: names by padded column, for columns ``bool[B, T]`` that are true where the data is.
        shuffle: whether to shuffle.
        seed: decides the order.

    Raises FeedError for data without sequences of different lengths, or with one that is too long
    for the last bucket, and TrainingError for sizes that make no sense.

    >>> import gradwright as gw
    >>> ids = [[1, 2, 3], [4], [5, 6], [7, 8, 9], [1]]
    >>> options = {"n": 2, "batch_size": 2, "masks": {"ids": "mask"}, "shuffle": False}
    >>> data = gw.data.buckets({"ids": ids}, **options)
    >>> [(batch["ids"].shape, int(batch["mask"].sum())) for batch in data]
    [((2, 1), 2), ((2, 3), 5), ((1, 3), 3)]
    """
    if batch_size is not None and batch_tokens is not None:
        raise TrainingError(
            f"batch_size={batch_size} and batch_tokens={batch_tokens} are both given", need="one"
        )
    positive("number of buckets", n)
    positive("batch size", 32 if batch_size is None else batch_size)
    table = _table(sequences)
    lengths = _lengths(table, by)
    longest = lengths[by] if by is not None else np.max(list(lengths.values()), 0)
    ends = best_boundaries(longest, n) if boundaries is None else _checked(boundaries)
    if longest.max() > ends[-1]:
        row = int(longest.argmax())
        raise FeedError(
            f"the sequence of row {row} has length {longest[row]}",
            facts=[f"the last bucket ends at {ends[-1]}"],
            hint=f"boundaries=[..., {longest[row]}], or cut the sequences",
        )
    values = pad if isinstance(pad, Mapping) else dict.fromkeys(lengths, pad)
    if batch_tokens is not None:
        positive("batch_tokens", batch_tokens)
        if batch_tokens < ends[-1]:
            raise TrainingError(
                f"batch_tokens={batch_tokens} is less than one row of the last bucket",
                need=f"at least {ends[-1]}",
            )
    sizes = [(batch_size or 32) if batch_tokens is None else batch_tokens // end for end in ends]
    bucket = np.searchsorted(ends, longest)
    members = [np.flatnonzero(bucket == i) for i in range(len(ends))]
    named = by_column("masks", masks, next(iter(lengths)))
    return Buckets(table, ends, sizes, members, values, named, shuffle, seed)


class Buckets(Dataset):
    """Padded batches, each of rows of one bucket."""

    def __init__(
        self,
        table: Table,
        ends: Sequence[int],
        sizes: Sequence[int],
        members: Sequence[Array],
        pad: Mapping[str, Any],
        masks: Mapping[str, str],
        shuffle: bool,
        seed: int,
    ) -> None:
        self.batched = True
        self._table, self.boundaries, self.sizes = table, list(ends), list(sizes)
        self._members, self._pad, self._masks = members, pad, masks
        self._shuffle, self._seed = shuffle, seed
        self._plan: tuple[int, list[tuple[int, Array]]] = (-1, [])

    @property
    def n(self) -> int:
        """Batches of an epoch."""
        pairs = zip(self._members, self.sizes, strict=True)
        return sum(math.ceil(len(rows) / size) for rows, size in pairs)

    @property
    def padding(self) -> float:
        """Which part of all places is padding, if a row is as long as its boundary says."""
        sizes = [len(rows) * end for rows, end in zip(self._members, self.boundaries, strict=True)]
        columns = _lengths(self._table, None)
        held = sum(
            int(np.max([c[rows] for c in columns.values()], 0).sum()) for rows in self._members
        )
        return 1 - held / sum(sizes)

    def batches(self, epoch: int) -> list[tuple[int, Array]]:
        """Return bucket and rows of each batch of an epoch."""
        if self._plan[0] != epoch:
            made = []
            for i, (rows, size) in enumerate(zip(self._members, self.sizes, strict=True)):
                if self._shuffle:
                    rows = rows[order(self._seed + i, epoch, len(rows))]
                made += [(i, rows[at : at + size]) for at in range(0, len(rows), size)]
            if self._shuffle:
                made = [made[at] for at in order(~self._seed, epoch, len(made))]
            self._plan = epoch, made
        return self._plan[1]

    def epoch(self, number: int = 0, skip: int = 0) -> Iterator[Columns]:
        """Give the batches of an epoch, without the first ``skip``."""
        for bucket, rows in self.batches(number)[skip:]:
            columns = self._table.rows(0, rows)
            yield pad_columns(columns, self._pad, self._masks, self.boundaries[bucket])

    def where(self, epoch: int, at: int, row: int = 0) -> str:
        """Say which row of the data a row of a batch is."""
        return self._table.where(0, int(self.batches(epoch)[at][1][row]))

    def row_numbers(self, epoch: int) -> list[Array]:
        """Return which rows of the data each batch holds."""
        known = self._table.row_numbers(0)
        return [known[rows] for _, rows in self.batches(epoch)]

    def signature(self) -> list[int]:
        """Return order, boundaries, sizes and rows."""
        shape = [len(self.boundaries), *self.boundaries, *self.sizes]
        return [16, int(self._shuffle), self._seed % 2**63, *shape, *self._table.signature()]

    def __repr__(self) -> str:
        return f"{self._table!r} in buckets of {', '.join(map(str, self.boundaries))}"


def best_boundaries(lengths: Array, n: int) -> list[int]:
    """Return at most n boundaries that pad the fewest places, by dynamic programming.

    cost(k, j) = minᵢ cost(k - 1, i) + bⱼ · #{rows between bᵢ and bⱼ}. Of more than 512 different
    lengths, quantiles are the candidates.

    >>> from gradwright.data.buckets import best_boundaries
    >>> import numpy as np
    >>> best_boundaries(np.array([3, 3, 4, 9, 10, 30]), 3)
    [4, 10, 30]
    """
    ends = np.unique(lengths)
    if len(ends) > 512:
        ends = np.unique(np.quantile(lengths, np.linspace(0, 1, 512), method="higher"))
    below = np.searchsorted(np.sort(lengths), ends, side="right")
    cost = ends * below
    before: list[Array] = []
    for _ in range(min(n, len(ends)) - 1):
        step = cost[:, None] + ends * (below - below[:, None])
        step[np.tril_indices(len(ends), -1)] = np.iinfo(np.int64).max
        before.append(step.argmin(0))
        cost = step.min(0)
    at, chosen = len(ends) - 1, [int(ends[-1])]
    for choice in reversed(before):
        at = int(choice[at])
        chosen.append(int(ends[at]))
    return sorted(set(chosen))


def _checked(boundaries: Sequence[int]) -> list[int]:
    for boundary in boundaries:
        positive("boundary", boundary)
    if not boundaries:
        raise TrainingError("there are no boundaries", need="at least one length")
    return sorted({int(b) for b in boundaries})


def _table(data: Any) -> Table:
    if isinstance(data, Mapping):  # lists of sequences stay apart, even if all are equally long
        return Arrays({k: _boxed(k, v) for k, v in data.items()})
    table = dataset(data)
    if not isinstance(table, Table):
        raise FeedError(
            f"{table!r} cannot be sorted into buckets",
            need="rows that can be read at random",
            hint=".batch(size, pad={...}) pads the batches of a stream",
        )
    return table


def _boxed(name: Any, values: Any) -> Array:
    if isinstance(values, np.ndarray):
        return values
    arrays = [as_array(name, v) for v in values]
    return boxes(arrays) if arrays and arrays[0].ndim else as_array(name, values)


def _lengths(table: Table, by: str | None) -> dict[str, Array]:
    """Return the lengths of the rows of every column that holds sequences."""
    parts: dict[str, list[int]] = {}
    ragged = set()
    for start in range(0, table.n, 4096):
        for name, column in table.rows(0, slice(start, min(start + 4096, table.n))).items():
            if column.dtype == object and np.ndim(column[0]):
                ragged.add(name)
            if column.dtype == object or column.ndim > 1 or name == by:
                parts.setdefault(name, []).extend(len(row) if np.ndim(row) else 1 for row in column)
    lengths = {name: np.array(parts[name]) for name in parts if name in ragged}
    if not lengths or (by is not None and by not in lengths):
        raise FeedError(
            f"column {by!r} does not hold sequences" if by else "no column holds sequences",
            facts=[f"columns of sequences: {', '.join(sorted(ragged)) or 'none'}"],
            need="a list of lists or arrays",
        )
    return lengths
