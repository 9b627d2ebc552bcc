"""Sources: data sets of arrays, iterables, and of what other libraries hold, told by protocol."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import FeedError
from .columns import Columns, article, as_array, collate, label, listed, named_parts, words
from .dataset import At, Dataset, Table, places
from .digest import digest, spread


def dataset(data: Any, names: Sequence[str] | None = None, *, seed: int = 0) -> Dataset:
    """Return data as a data set.

    ============================================  ===================================
    what                                          gives
    ============================================  ===================================
    dict of arrays, tuple of arrays, array        examples, read at random
    pandas DataFrame, Arrow table, polars         examples, read at random
    object with ``__getitem__`` and ``__len__``   examples, such as a torch Dataset
    Hugging Face dataset                          examples; a stream if it is iterable
    torch DataLoader                              batches
    list, generator, other iterable               batches; examples with `stream`
    function without arguments                    what it returns, anew in each epoch
    ============================================  ===================================

    Memory maps are arrays: of these and all that is read at random, only the rows of a batch are
    read. A loader's shuffling is a function of ``seed`` and epoch, as long as it has no generator
    of its own.

    Args:
        data: one of these.
        names: names of the parts, for data or items that are tuples.
        seed: decides the order of a torch DataLoader.

    Raises FeedError for what is no data, for arrays of different lengths, and for no rows.

    >>> import gradwright as gw, numpy as np
    >>> gw.data.dataset((np.zeros((4, 2)), [0, 1, 1, 0]), names=("x", "t"))
    <4 examples of 'x', 't'>
    >>> gw.data.dataset(lambda: ({"x": [i]} for i in range(3))).n is None
    True
    """
    if isinstance(data, Dataset):
        return data
    if isinstance(data, Mapping):
        return Arrays(data)
    if _is_array(data) or _is_positional(data):
        return Arrays(named_parts(data, names, "data set"))
    if hasattr(data, "column_names") and hasattr(data, "with_format"):
        from .tables import Hugging

        return Hugging(data) if hasattr(data, "__len__") else Stream(data, names, batched=False)
    if hasattr(data, "iloc") or hasattr(data, "__arrow_c_stream__"):
        from .tables import arrow_columns, frame_columns

        return Arrays(frame_columns(data) if hasattr(data, "iloc") else arrow_columns(data))
    if hasattr(data, "batch_sampler") and hasattr(data, "dataset"):
        return Loader(data, names, seed)
    if isinstance(data, str | bytes):
        raise _no_data(data)
    if callable(data) and not isinstance(data, Iterable):
        return Stream(data, names)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, Sequence):
        return Items(data, names)
    if isinstance(data, Iterable):
        return Stream(data, names, batched=not _is_torch_stream(data))
    raise _no_data(data)


def stream(data: Any, names: Sequence[str] | None = None) -> Dataset:
    """Return an iterable of examples, or a function that returns one anew for each epoch.

    >>> import gradwright as gw
    >>> examples = gw.data.stream(lambda: ({"x": i} for i in range(5)))
    >>> [b["x"].tolist() for b in examples.shuffle(seed=1, buffer=3).batch(2)]
    [[0, 2], [3, 1], [4]]
    """
    if isinstance(data, str | bytes) or not (callable(data) or isinstance(data, Iterable)):
        raise _no_data(data)
    return Stream(data, names, batched=False)


def _no_data(data: Any) -> FeedError:
    return FeedError(
        f"{type(data).__name__} is no data",
        need='a dict of arrays, {"x": X, "t": t}, or an iterable of such dicts',
        hint="gw.data.parquet(path) or gw.data.memmap(path) for files",
    )


def _is_array(data: Any) -> bool:
    """Tell arrays of any library from tables."""
    return hasattr(data, "__array__") and hasattr(data, "shape") and not hasattr(data, "columns")


def _is_positional(data: Any) -> bool:
    """Tell a tuple of arrays from a tuple of batches."""
    return isinstance(data, tuple) and any(
        hasattr(p, "shape") or (isinstance(p, list) and p and not isinstance(p[0], Mapping | tuple))
        for p in data
    )


def _is_torch_stream(data: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(data, torch.utils.data.IterableDataset)


class Arrays(Table):
    """Rows of equally long arrays in memory or in files; a single value belongs to every row."""

    def __init__(self, data: Mapping[Any, Any]) -> None:
        self.arrays: Columns = {k: as_array(k, v) for k, v in data.items()}
        lengths = {k: len(a) for k, a in self.arrays.items() if a.ndim}
        if len(set(lengths.values())) > 1:
            raise FeedError(
                "the arrays have different lengths",
                facts=[f"{label(k)}: {n} rows" for k, n in lengths.items()],
                need="one row of each array per example",
            )
        self._n = next(iter(lengths.values()), 1)
        if self._n == 0:
            raise FeedError("the data is empty", facts=[f"{label(k)}: 0 rows" for k in lengths])
        self.is_at_hand = all(type(a) is np.ndarray for a in self.arrays.values())

    @property
    def n(self) -> int:
        """Examples of an epoch."""
        return self._n

    def rows(self, epoch: int, at: At) -> Columns:
        """Return rows; of a memory map, only these are read."""
        if isinstance(at, slice):
            return {k: a[at] if a.ndim else a for k, a in self.arrays.items()}
        return {k: a.take(at, 0) if a.ndim else a for k, a in self.arrays.items()}

    def signature(self) -> list[int]:
        """Return the number of rows, and a digest of some."""
        return [10, self._n, self._digest]

    @functools.cached_property
    def _digest(self) -> int:
        """Of the columns; single values are settings, and may change within an epoch."""
        at, tables = spread(self._n), {k: a for k, a in self.arrays.items() if a.ndim}
        return digest(
            {k: [a[at]] if a.ndim == 1 else map(a.__getitem__, at) for k, a in tables.items()}
        )

    def __repr__(self) -> str:
        return f"<{self._n} examples of {listed(self.arrays)}>"


class Items(Table):
    """Examples of an object that is indexed by row number, such as a torch Dataset."""

    def __init__(self, data: Any, names: Sequence[str] | None) -> None:
        self._data, self._names = data, names
        if self.n == 0:
            raise FeedError("the data is empty", facts=[f"len({type(data).__name__}) is 0"])

    @property
    def n(self) -> int:
        """Examples of an epoch."""
        return len(self._data)

    def rows(self, epoch: int, at: At) -> Columns:
        """Return rows, of which each is asked for once."""
        numbers = places(at, self.n).tolist()
        many = getattr(self._data, "__getitems__", None)
        items = many(numbers) if many is not None else [self._data[i] for i in numbers]
        return collate([named_parts(item, self._names, "example") for item in items])

    def signature(self) -> list[int]:
        """Return the number of rows; to read some may take long, or draw random numbers."""
        return [11, self.n]

    def __repr__(self) -> str:
        return f"<{self.n} examples of a {type(self._data).__name__}>"


class Stream(Dataset):
    """Items of an iterable, or of a function that returns one anew for each epoch."""

    def __init__(
        self,
        data: Iterable[Any] | Callable[[], Iterable[Any]],
        names: Sequence[str] | None,
        batched: bool = True,
    ) -> None:
        self.batched, self.once = batched, isinstance(data, Iterator)
        self._data, self._names = data, names

    @property
    def n(self) -> int | None:
        """Items of an epoch, where known."""
        try:
            return len(self._data)  # type: ignore[arg-type]
        except TypeError:
            return None

    def epoch(self, number: int = 0, skip: int = 0) -> Iterator[Columns]:
        """Give the items of an epoch; those that are skipped are read again."""
        what = "batch" if self.batched else "example"
        given = -1
        for given, item in enumerate(self._open(number)):
            if given >= skip or self.once:
                yield named_parts(item, self._names, what)
        if given + 1 < skip and not self.once:
            raise FeedError(
                f"the data ended after {given + 1} items of epoch {number + 1}",
                facts=[f"at least {skip} were used of that epoch before"],
                need="the same items again",
            )

    def _open(self, epoch: int) -> Iterable[Any]:
        if callable(self._data) and not isinstance(self._data, Iterable):
            items = self._data()
            if not isinstance(items, Iterable):
                raise FeedError(
                    f"the function gave {article(type(items).__name__)}",
                    need="an iterable of dicts",
                )
            return items
        if callable(set_epoch := getattr(self._data, "set_epoch", None)):
            set_epoch(epoch)
        return self._data

    def signature(self) -> list[int]:
        """Return what is known of it: how many items it gives."""
        return [12, -1 if self.n is None else self.n]

    def __repr__(self) -> str:
        what = "batches" if self.batched else "examples"
        name = getattr(self._data, "__name__", type(self._data).__name__)
        return f"<{'' if self.n is None else f'{self.n} '}{what} of {name}>"


END = object()


class Loader(Stream):
    """Batches of a torch DataLoader, with random numbers of torch's that seed and epoch decide."""

    def __init__(self, data: Any, names: Sequence[str] | None, seed: int) -> None:
        super().__init__(data, names)
        self._loader, self._seed = data, seed

    def _open(self, epoch: int) -> Iterator[Any]:
        sampler = getattr(self._loader, "sampler", None)
        if callable(set_epoch := getattr(sampler, "set_epoch", None)):
            set_epoch(epoch)
        torch = sys.modules["torch"]
        generator, items = torch.default_generator, None
        mine = torch.Generator().manual_seed(int(words(self._seed, epoch, 1)[0] >> 1)).get_state()
        while True:
            theirs = generator.get_state()
            generator.set_state(mine)
            try:
                items = iter(self._loader) if items is None else items
                item = next(items, END)
                mine = generator.get_state()
            finally:
                generator.set_state(theirs)
            if item is END:
                return
            yield item
