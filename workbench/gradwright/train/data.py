"""Batches: arrays or any iterable of dicts, checked once, in an order that a resume finds again."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..errors import FeedError, TrainingError
from ..graph import Graph, Tensor, coerce
from ..session import as_feed
from ..spec import TensorSpec

Array = np.ndarray[Any, Any]
Feeds = dict[Tensor, Any]
Batch = tuple[Feeds, int]
"""Feeds, and how many examples they hold."""

DEFAULT_BATCH = 32


class Batches(Protocol):
    """What the trainer asks of data."""

    @property
    def n_batches(self) -> int | None:
        """Batches per epoch, where known."""

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        """Give the batches of an epoch, without the first ``skip``."""

    def signature(self) -> list[int]:
        """Return numbers that must be equal for an epoch that was begun to be finished."""

    def origin(self, epoch: int, batch: int, row: int) -> str:
        """Say where a row of a batch comes from."""


def batches(
    graph: Graph,
    data: Any,
    needed: Sequence[Tensor],
    batch_size: int | None,
    *,
    shuffle: bool = False,
    seed: int = 0,
    drop_last: bool = False,
    exact: bool = True,
) -> Batches:
    """Return data as batches; raises FeedError or TrainingError for what does not fit.

    ``needed`` are the placeholders that must be fed. With ``exact`` a batch larger than the data
    is an error: it would silently become another batch size. Evaluation has nothing to lose.
    """
    if isinstance(data, Mapping):
        return _ArrayBatches(graph, data, needed, batch_size, shuffle, seed, drop_last, exact)
    if isinstance(data, str) or not isinstance(data, Iterable):
        raise FeedError(
            f"{type(data).__name__} is no data",
            need='a dict of arrays, {"x": X, "t": y}, or an iterable of such dicts',
        )
    if batch_size is not None:
        raise TrainingError(
            "batch_size is for arrays; an iterable gives whole batches",
            hint="set it where the batches are made, such as DataLoader(batch_size=...)",
        )
    return _IterableBatches(graph, data, needed)


def grouped(taken: Iterator[Batch], room: Callable[[], int]) -> Iterator[list[Batch]]:
    """Give batches in groups of ``room()``, asked before each; those that differ in size singly.

    Where the data fails, what it gave before is trained first, as it would be without groups.

    >>> pairs = [({}, 4), ({}, 4), ({}, 4), ({}, 2)]
    >>> [len(group) for group in grouped(iter(pairs), lambda: 2)]
    [2, 1, 1]
    """
    while True:
        size, group = room(), list[Batch]()
        try:
            for batch in itertools.islice(taken, size):
                group.append(batch)
        except BaseException:
            yield from ([batch] for batch in group)
            raise
        if len(group) == size and _are_alike(group):
            yield group
        else:
            yield from ([batch] for batch in group)
        if len(group) < size:
            return


def _are_alike(group: Sequence[Batch]) -> bool:
    """Tell whether batches have the same size and shapes."""
    first, rows = group[0]
    shapes = {t: v.shape for t, v in first.items()}
    return all(
        n == rows and {t: v.shape for t, v in feeds.items()} == shapes for feeds, n in group[1:]
    )


def order(seed: int, epoch: int, n: int) -> Array:
    """Return the shuffled row numbers of an epoch, a function of seed and epoch alone.

    Sorted Philox words, not ``Generator.permutation``: numpy promises the words for all versions.

    >>> order(0, 0, 6).tolist(), order(0, 1, 6).tolist()
    ([0, 2, 1, 5, 4, 3], [3, 5, 2, 0, 1, 4])
    """
    words = np.random.Philox(key=(seed % 2**64 << 64) | epoch).random_raw(n)
    return np.argsort(np.atleast_1d(words), kind="stable")


def named(graph: Graph, keys: Iterable[Any], needed: Sequence[Tensor]) -> dict[Any, Tensor]:
    """Return the placeholder of each key; raises FeedError that names unknown and missing ones."""
    found: dict[Any, Tensor] = {}
    names = [t.name for t in graph.placeholders]
    for key in keys:
        t = graph.check_member(key) if isinstance(key, Tensor) else graph.get(str(key))
        if t is None or t.kind != "placeholder":
            close = difflib.get_close_matches(str(key), names, 2, 0.3)
            raise FeedError(
                f"graph {graph.name!r} has no placeholder {str(key)!r}",
                facts=["placeholders: " + (", ".join(map(repr, names)) or "none")],
                hint=" or ".join(map(repr, close)) if close else "the names given when building",
            )
        found[key] = t
    given = set(found.values())
    missing = [t for t in needed if t not in given]
    if missing:
        raise FeedError(
            f"placeholder {' and '.join(repr(t.name) for t in missing)} is not fed",
            facts=["the data holds " + (", ".join(repr(str(k)) for k in found) or "nothing")],
            need=", ".join(f"{t.name}: {t.spec}" for t in missing),
        )
    return found


def _array(t: Tensor, value: Any) -> Array:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise FeedError(
            f"the data of placeholder {t.name!r} is no array", need=str(t.spec), facts=[str(error)]
        ) from None


class _ArrayBatches:
    """Rows of equally long arrays, in order or shuffled anew in each epoch."""

    def __init__(
        self,
        graph: Graph,
        data: Mapping[Any, Any],
        needed: Sequence[Tensor],
        batch_size: int | None,
        shuffle: bool,
        seed: int,
        drop_last: bool,
        exact: bool,
    ) -> None:
        self._shuffle, self._seed = shuffle, seed
        arrays = {t: _array(t, data[k]) for k, t in named(graph, data, needed).items()}
        self._n = self._rows(arrays)
        size = batch_size if batch_size is not None else min(DEFAULT_BATCH, self._n)
        if not isinstance(size, int | np.integer) or size < 1:
            raise TrainingError(f"batch_size={batch_size!r} is not a size", need="an int >= 1")
        if size > self._n and exact:
            raise TrainingError(
                f"batch_size={size} is larger than the data",
                facts=[f"the data holds {self._n} examples"],
                hint=f"batch_size={self._n} for one batch per epoch",
            )
        self._size = min(int(size), self._n)
        self.n_batches: int = self._n // self._size if drop_last else -(-self._n // self._size)
        self._whole = {t: as_feed(t, a) for t, a in arrays.items() if not t.rank}
        self._arrays = {t: self._fit(t, a) for t, a in arrays.items() if t.rank}
        for t in self._arrays:
            if isinstance(t.shape[0], int) and self._n % self._size and not drop_last:
                raise TrainingError(
                    f"placeholder {t.name!r} takes exactly {t.shape[0]} rows, so the last batch of "
                    f"{self._n % self._size} does not fit",
                    hint="drop_last=True, or a placeholder of shape (None, ...)",
                )

    @staticmethod
    def _rows(arrays: Mapping[Tensor, Array]) -> int:
        lengths = {}
        for t, array in arrays.items():
            if t.rank and not array.ndim:
                as_feed(t, array)  # raises: the rank differs
            if t.rank:
                lengths[t] = len(array)
        if len(set(lengths.values())) > 1:
            raise FeedError(
                "the arrays have different lengths",
                facts=[f"{t.name!r}: {n} rows" for t, n in lengths.items()],
                need="one row of each array per example",
            )
        n = next(iter(lengths.values()), 1)
        if n == 0:
            raise FeedError("the data is empty", facts=[f"{t.name!r}: 0 rows" for t in lengths])
        return n

    def _fit(self, t: Tensor, array: Array) -> Array:
        """Check one batch against the placeholder, and convert all rows once."""
        label = f"placeholder {t.name!r}"
        with np.errstate(over="ignore"):  # a step that is not finite names the row
            as_feed(t, array[: self._size])
            same = array.dtype == t.dtype
            return array if same else coerce(array, TensorSpec(array.shape, t.dtype), label)

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        """Give the batches of an epoch; the last may be short."""
        size, n = self._size, self._n
        rows = order(self._seed, number, n) if self._shuffle else None
        for start in range(skip * size, self.n_batches * size, size):
            stop = min(start + size, n)
            if rows is None:
                feeds = {t: a[start:stop] for t, a in self._arrays.items()}
            else:
                chosen = rows[start:stop]
                feeds = {t: a.take(chosen, 0) for t, a in self._arrays.items()}
            yield feeds | self._whole if self._whole else feeds, stop - start

    def signature(self) -> list[int]:
        """Return rows, batch size and order."""
        return [0, self._n, self._size, int(self._shuffle), self.n_batches]

    def origin(self, epoch: int, batch: int, row: int) -> str:
        """Say which row of the arrays a row of a batch is."""
        at = batch * self._size + row
        number = int(order(self._seed, epoch, self._n)[at]) if self._shuffle else at
        return f"row {number} of the data"


class _IterableBatches:
    """Whole batches from an iterable of dicts, such as a torch DataLoader or a generator."""

    def __init__(self, graph: Graph, data: Iterable[Any], needed: Sequence[Tensor]) -> None:
        self._graph, self._data, self._needed = graph, data, needed
        self._once = isinstance(data, Iterator)
        try:
            self.n_batches: int | None = len(data)  # type: ignore[arg-type]
        except TypeError:
            self.n_batches = None
        self._keys: dict[Any, Tensor] = {}

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        """Give the batches of an epoch; an iterator that runs once goes on where it stands."""
        empty = True
        for position, batch in enumerate(self._data):
            empty = False
            if position >= skip or self._once:
                yield self._feeds(batch)
        if empty and not (self._once and skip):
            raise FeedError(
                f"the data gave no batches in epoch {number + 1}",
                need="at least one",
                hint="a list or a DataLoader; a generator can be used once" if self._once else "",
            )

    def _feeds(self, batch: Any) -> Batch:
        if not isinstance(batch, Mapping):
            raise FeedError(
                f"a batch is a {type(batch).__name__}, not a dict",
                need="dicts keyed by placeholder name",
                hint='({"x": x, "t": t} for x, t in loader)',
            )
        if batch.keys() != self._keys.keys():
            self._keys = named(self._graph, batch, self._needed)
        feeds = {t: _array(t, batch[k]) for k, t in self._keys.items()}
        return feeds, next((len(a) for a in feeds.values() if a.ndim), 1)

    def signature(self) -> list[int]:
        """Return what is known of an iterable: how many batches it gives."""
        return [1, -1 if self.n_batches is None else self.n_batches]

    def origin(self, epoch: int, batch: int, row: int) -> str:
        """Say which row of the batch it is."""
        return f"row {row} of batch {batch}"
