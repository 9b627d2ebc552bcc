"""Batches: what the trainer feeds, named, checked and converted, from any data."""

from __future__ import annotations

import difflib
import itertools
import numbers
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..errors import DTypeError, FeedError, TrainingError
from ..graph import Graph, Tensor, coerce
from ..session import as_feed
from ..spec import TensorSpec, kind
from ..spec.containers import ContainerSpec
from .columns import Array, Columns, as_array, listed, rows_of
from .dataset import Dataset, Table
from .prefetch import Prefetched
from .row_stages import Shuffled
from .sources import Arrays, dataset
from .stages import Made, Stage

Feeds = dict[Tensor, Any]
Batch = tuple[Feeds, int]
"""Feeds, and how many examples they hold."""

DEFAULT_BATCH = 32


class Batches(Protocol):
    """What the trainer asks of data."""

    seconds: float
    """Time spent waiting for data so far."""

    @property
    def n_batches(self) -> int | None:
        """Batches per epoch, where known."""

    def epoch(self, number: int, skip: int = 0) -> Generator[Batch, None, None]:
        """Give the batches of an epoch, without the first ``skip``."""

    def signature(self) -> list[int]:
        """Return numbers that must be equal for an epoch that was begun to be finished."""

    def origin(self, epoch: int, batch: int, row: int) -> str:
        """Say where a row of a batch comes from."""

    def row_numbers(self, epoch: int) -> list[Array] | None:
        """Return which rows of the data each batch holds; None where that is unknown."""


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
    names: Sequence[str] | None = None,
) -> Batches:
    """Return data as batches; raises FeedError or TrainingError for what does not fit.

    ``needed`` are the placeholders that must be fed, ``names`` those of the parts of a tuple. With
    ``exact`` a batch larger than the data is an error: it would silently become another batch size.
    Evaluation has nothing to lose, and takes batches as they come.

    >>> import gradwright as gw
    >>> from gradwright.data import batches
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None,))
    >>> source = batches(g, {"x": [1, 2, 3]}, [x], 2)
    >>> [(feeds[x].tolist(), rows) for feeds, rows in source.epoch(0)]
    [([1.0, 2.0], 2), ([3.0], 1)]
    """
    if isinstance(data, Mapping):
        data = {t: _array(t, data[k]) for k, t in named(graph, data, needed).items()}
    source = dataset(data, names, seed=seed)
    if source.batched:
        if batch_size is not None and exact:
            raise TrainingError(
                "batch_size is for arrays and examples; this data gives whole batches",
                facts=[repr(source)],
                hint="set it where the batches are made, such as DataLoader(batch_size=...)",
            )
        return Fed(graph, source, needed)
    size = _size(batch_size, source.n, exact)
    fitted = False
    if isinstance(source, Arrays):
        source = _fitted(graph, source, needed, size, drop_last)
        fitted = all(type(a) is np.ndarray for a in source.arrays.values())
    source, ahead = _behind(source)
    if shuffle and isinstance(source, Table) and not _is_shuffled(source):
        source = source.shuffle(seed)
    batched = source.batch(size, drop_last=drop_last)
    return Fed(graph, batched.prefetch(ahead) if ahead else batched, needed, fitted=fitted)


def _behind(data: Dataset) -> tuple[Dataset, int]:
    """Return what a prefetching thread makes items of, and how many it makes ahead.

    What follows is done in the thread, too; but an iterator that runs once must not run in two.
    """
    if isinstance(data, Prefetched) and not data.once:
        return data.source, data.ahead
    return data, 0


def _size(batch_size: int | None, n: int | None, exact: bool) -> int:
    if batch_size is None:
        return DEFAULT_BATCH if n is None else min(DEFAULT_BATCH, n)
    if not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise TrainingError(f"batch_size={batch_size!r} is not a size", need="an int >= 1")
    if n is not None and batch_size > n and exact:
        raise TrainingError(
            f"batch_size={batch_size} is larger than the data",
            facts=[f"the data holds {n} examples"],
            hint=f"batch_size={n} for one batch per epoch",
        )
    return int(batch_size) if n is None else min(int(batch_size), n)


def _is_shuffled(data: Dataset) -> bool:
    """Tell whether the user has decided on an order already."""
    while isinstance(data, Stage) and not isinstance(data, Shuffled):
        data = data.source
    return isinstance(data, Shuffled)


def _fitted(
    graph: Graph, source: Arrays, needed: Sequence[Tensor], size: int, drop_last: bool
) -> Arrays:
    """Return arrays by placeholder: one batch is checked, and all rows are converted once.

    Those that are memory maps stay on disk, and are converted by the batch.
    """
    fitted: dict[Tensor, Array] = {}
    for key, t in named(graph, source.arrays, needed).items():
        array = _array(t, source.arrays[key])
        if not t.rank or not array.ndim:
            fitted[t] = as_feed(t, array)
            continue
        _checked(t, array, rows=size)
        fixed, left = t.shape[0], source.n % size
        if isinstance(fixed, int) and left and not drop_last:
            raise TrainingError(
                f"placeholder {t.name!r} takes exactly {fixed} rows, so the last batch of "
                f"{left} does not fit",
                hint="drop_last=True, or a placeholder of shape (None, ...)",
            )
        if array.dtype != t.dtype and not isinstance(array, np.memmap):
            array = _checked(t, array, whole=TensorSpec(array.shape, t.dtype))
        fitted[t] = array
    return Arrays(fitted)


def _array(t: Tensor, value: Any) -> Array:
    """Return a column as an array; raises FeedError if its rows have different shapes."""
    array = as_array(t.name, value)
    if array.dtype == object and array.ndim == 1 and t.rank != 1 and len(array):
        shapes = [np.shape(row) for row in array]
        other = next((i for i, s in enumerate(shapes) if s != shapes[0]), None)
        if other is not None:
            raise FeedError(
                f"the data of placeholder {t.name!r} is no array",
                need=str(t.spec),
                facts=[f"row 0 has shape {shapes[0]}, row {other} has {shapes[other]}"],
                hint=f'gw.data.buckets(...), or .batch(n, pad={{"{t.name}": 0}})',
            )
    return array


def _checked(
    t: Tensor, array: Array, *, rows: int | None = None, whole: TensorSpec | None = None
) -> Array:
    """Return an array, or its first rows, as a feed, or all of it as an array of another spec."""
    try:
        with np.errstate(over="ignore"):  # a step that is not finite names the row
            if whole is not None:
                return coerce(array, whole, f"placeholder {t.name!r}")
            return as_feed(t, array if rows is None else array[:rows])
    except (FeedError, DTypeError) as error:
        facts = [*error.facts, *_no_number(t, array)]
        raise FeedError(error.problem, need=error.need, facts=facts, hint=error.hint) from None


def _no_number(t: Tensor, array: Array) -> list[str]:
    """Say which row is the first that holds no number where numbers are needed."""
    if array.dtype.kind not in "OSU" or kind(t.dtype) == "s":
        return []
    for at, value in np.ndenumerate(array):
        if not isinstance(value, numbers.Number):
            held = value.item() if isinstance(value, np.generic) else value
            return [f"row {at[0] if at else 0} holds {held!r}"]
    return []


class Fed:
    """Batches of a data set as feeds, with the time that was spent waiting for them.

    With ``fitted`` they come as feeds: by placeholder, and of its spec.
    """

    def __init__(
        self, graph: Graph, data: Dataset, needed: Sequence[Tensor], *, fitted: bool = False
    ) -> None:
        self._graph, self._data, self._needed = graph, data, needed
        self._keys: dict[Any, Tensor] = {}
        self._fits: dict[Tensor, tuple[Any, int, tuple[int, ...]]] = {}
        """Dtype and shape from an axis on of arrays that were found to be feeds as they are."""
        self.seconds = 0.0
        """Time spent waiting for data so far."""
        inner, ahead = _behind(data)
        made = Made(inner, _counted if fitted else self._feeds)
        self._items: Any = Prefetched(made, ahead) if ahead else made

    @property
    def n_batches(self) -> int | None:
        """Batches per epoch, where known."""
        return self._data.n

    def epoch(self, number: int, skip: int = 0) -> Generator[Batch, None, None]:
        """Give the batches of an epoch, without the first ``skip``."""
        items, empty, clock = self._items.epoch(number, skip), True, time.perf_counter
        try:
            while True:
                began = clock()
                item = next(items, None)
                self.seconds += clock() - began
                if item is None:
                    break
                empty = False
                yield item
        finally:
            items.close()
        if empty and not skip:
            raise FeedError(
                f"the data gave no batches in epoch {number + 1}",
                facts=[repr(self._data)],
                need="at least one",
                hint="a list, or a function that returns it: a generator can be used once"
                if self._data.once
                else "",
            )

    def _feeds(self, item: Columns) -> Batch:
        if item.keys() != self._keys.keys():
            self._keys = named(self._graph, item, self._needed)
        return _counted({t: self._fit(t, item[key]) for key, t in self._keys.items()})

    def _fit(self, t: Tensor, value: Any) -> Any:
        if type(value) is np.ndarray and (held := self._fits.get(t)) is not None:
            dtype, axis, shape = held
            if value.dtype == dtype and value.shape[axis:] == shape:
                return value
        if isinstance(t.spec, ContainerSpec):
            return as_feed(t, value)
        array = _array(t, value)
        feed = _checked(t, array)
        if feed is value and t.rank:
            axis = 0 if isinstance(t.shape[0], int) else 1
            self._fits[t] = feed.dtype, axis, feed.shape[axis:]
        return feed

    def signature(self) -> list[int]:
        """Return rows, order and batches, as far as they are known."""
        return self._data.signature()

    def origin(self, epoch: int, batch: int, row: int) -> str:
        """Say where a row of a batch comes from."""
        return self._data.where(epoch, batch, row)

    def row_numbers(self, epoch: int) -> list[Array] | None:
        """Return which rows of the data each batch holds; None where that is unknown."""
        known = self._data.row_numbers(epoch)
        return None if known is None else list(known)


def _counted(feeds: Feeds) -> Batch:
    return feeds, rows_of(feeds)


def grouped(taken: Iterator[Batch], room: Callable[[], int]) -> Iterator[list[Batch]]:
    """Give batches in groups of ``room()``, asked before each; those that differ in size singly.

    Where the data fails, what it gave before is trained first, as it would be without groups.

    >>> from gradwright.data.batches import grouped
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


def named(graph: Graph, keys: Iterable[Any], needed: Sequence[Tensor]) -> dict[Any, Tensor]:
    """Return the placeholder of each key; raises FeedError that names unknown and missing ones.

    >>> import gradwright as gw
    >>> from gradwright.data.batches import named
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None,))
    >>> named(g, ["x"], [x])["x"] is x
    True
    """
    found: dict[Any, Tensor] = {}
    names = [t.name for t in graph.placeholders]
    for key in keys:
        t = graph.check_member(key) if isinstance(key, Tensor) else graph.get(str(key))
        if t is None or t.kind != "placeholder":
            close = difflib.get_close_matches(str(key), names, 2, 0.3)
            raise FeedError(
                f"graph {graph.name!r} has no placeholder {str(key)!r}",
                facts=["placeholders: " + (", ".join(map(repr, names)) or "none")],
                hint=" or ".join([*map(repr, close), _columns(str(key), names)]),
            )
        found[key] = t
    given = set(found.values())
    missing = [t for t in needed if t not in given]
    if missing:
        raise FeedError(
            f"placeholder {' and '.join(repr(t.name) for t in missing)} is not fed",
            facts=["the data holds " + listed(found)],
            need=", ".join(f"{t.name}: {t.spec}" for t in missing),
        )
    return found


def _columns(key: str, names: Sequence[str]) -> str:
    """Return how columns of a table become placeholders: several of them the first of these.

    >>> _columns("age", ["x", "t"])
    'gw.data.dataset(data).columns({"x": ["age", ...], "t": ...})'
    """
    first, *rest = names or ["x", "t"]
    placed = [f'"{first}": ["{key}", ...]', *(f'"{name}": ...' for name in rest[:3])]
    return f"gw.data.dataset(data).columns({{{', '.join(placed)}}})"
