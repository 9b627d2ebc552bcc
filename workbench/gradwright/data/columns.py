"""Columns: named arrays with one row per example; how examples become columns and come apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import FeedError

Array = np.ndarray[Any, Any]
Columns = dict[Any, Any]
"""Arrays by name; of a batch they have one row per example, of an example none."""
RowNumbers = Array | list[Array]
"""Row numbers of examples, or of each batch."""


def order(seed: int, epoch: int, n: int) -> Array:
    """Return the shuffled row numbers of an epoch, a function of seed and epoch alone.

    Sorted Philox words, not ``Generator.permutation``: numpy promises the words for all versions.

    >>> from gradwright.data import order
    >>> order(0, 0, 6).tolist(), order(0, 1, 6).tolist()
    ([0, 2, 1, 5, 4, 3], [3, 5, 2, 0, 1, 4])
    """
    return ranks(words(seed, epoch, n))


def ranks(keys: Array) -> Array:
    """Return what sorts keys, equal ones in their order: stable, at the speed of a sort that isn't.

    Where no two are equal there is one order, which numpy's vectors find 4 times as soon.

    >>> ranks(np.array([3, 1, 2, 1])).tolist()
    [1, 3, 2, 0]
    """
    found = np.argsort(keys)
    ordered = keys[found]
    is_one = not (ordered[1:] == ordered[:-1]).any()
    return found if is_one else np.argsort(keys, kind="stable")


def words(seed: int, epoch: int, n: int) -> Array:
    """Return n random ``u64`` words, a function of seed and epoch alone."""
    philox = np.random.Philox(key=(seed % 2**64 << 64) | (epoch % 2**64))
    return np.atleast_1d(philox.random_raw(n))


def as_array(name: Any, value: Any) -> Array:
    """Return a value as an array; rows of different lengths become an object array of arrays."""
    if isinstance(value, np.ndarray):
        return value
    try:
        return np.asarray(value)
    except ValueError:  # ragged
        if isinstance(value, Sequence):
            return boxes([np.asarray(v) for v in value])
        raise
    except (TypeError, RuntimeError) as error:
        raise FeedError(
            f"column {label(name)} holds a {type(value).__name__}, which is no array",
            facts=[str(error).splitlines()[0]],
            need="what np.asarray takes",
        ) from None


def boxes(arrays: Sequence[Any]) -> Array:
    """Return arrays of any shapes as a one-dimensional array of objects."""
    boxed = np.empty(len(arrays), object)
    for i, array in enumerate(arrays):
        boxed[i] = array
    return boxed


def collate(examples: Sequence[Columns]) -> Columns:
    """Return examples as the columns of a batch; raises FeedError where their names differ.

    >>> from gradwright.data.columns import collate
    >>> collate([{"x": [1, 2]}, {"x": [3, 4]}])["x"].tolist()
    [[1, 2], [3, 4]]
    """
    names = examples[0].keys()
    for i, example in enumerate(examples):
        if example.keys() != names:
            raise FeedError(
                f"example {i} of a batch has other columns than the first",
                facts=[f"example {i}: {listed(example)}", f"example 0: {listed(names)}"],
            )
    return {name: stack(name, [e[name] for e in examples]) for name in names}


def stack(name: Any, values: Sequence[Any]) -> Array:
    """Return values as the rows of one column, boxed if their shapes differ."""
    arrays = [as_array(name, v) for v in values]
    alike = all(a.shape == arrays[0].shape for a in arrays)
    return np.stack(arrays) if alike else boxes(arrays)


def rows_of(columns: Mapping[Any, Any]) -> int:
    """Return how many examples columns hold: 1 if all of them are single values."""
    for a in columns.values():  # a loop: a generator and np.ndim take 1.5 us of a step's 14
        if a.ndim if type(a) is np.ndarray else np.ndim(a):
            return len(a)
    return 1


def examples(columns: Columns) -> Iterable[Columns]:
    """Give the examples of columns one by one; a single value belongs to each of them."""
    for i in range(rows_of(columns)):
        yield {k: a[i] if np.ndim(a) else a for k, a in columns.items()}


def join(parts: Sequence[Columns]) -> Columns:
    """Return columns below each other; raises FeedError where their names or shapes differ."""
    first = parts[0]
    for part in parts[1:]:
        if part.keys() != first.keys():
            raise FeedError(
                "data sets of different columns cannot be joined",
                facts=[listed(first), listed(part)],
            )
    joined: Columns = {}
    for name in first:
        arrays = [part[name] for part in parts]
        if not np.ndim(arrays[0]):
            joined[name] = arrays[0]
        elif len({a.shape[1:] for a in arrays}) == 1:
            joined[name] = np.concatenate(arrays)
        else:
            joined[name] = boxes([row for a in arrays for row in a])
    return joined


class Names(tuple[str, ...]):
    """Names of the parts of a tuple, of which some are masks that may be None, or left out.

    >>> from gradwright.data.columns import Names, named_parts
    >>> names = Names(("x", "t", "mask"))
    >>> names.masks = {"mask": ("t", 1)}
    >>> named_parts(([[1], [2]], [0, 1], None), names)["mask"].tolist()
    [True, True]
    """

    masks: Mapping[str, tuple[str, int]] = {}
    """By name of a mask, what it masks and its rank: None stands for one that shows all of that."""


def named_parts(item: Any, names: Sequence[str] | None, what: str = "batch") -> Columns:
    """Return a dict as it is, and a tuple or list with its parts named in order.

    Tuples within it are opened, as in ``((x1, x2), t)``. Raises FeedError without names, or if
    there are more or fewer parts than names.

    >>> from gradwright.data.columns import named_parts
    >>> named_parts(([1, 2], [0]), ("x", "t"))
    {'x': [1, 2], 't': [0]}
    """
    if isinstance(item, Mapping):
        return dict(item)
    if names is None:
        raise FeedError(
            f"{article(what)} is {article(type(item).__name__)}, not a dict",
            need="dicts keyed by placeholder name",
            hint='({"x": x, "t": t} for x, t in loader); for tuples, '
            'gw.Trainer(..., features="x", labels="t") or gw.data.dataset(..., names=("x", "t"))',
        )
    parts = _opened(item) if isinstance(item, tuple | list) else [item]
    masks = names.masks if isinstance(names, Names) else {}
    if all(name in masks for name in names[len(parts) :]):
        parts += [None] * (len(names) - len(parts))
    if len(parts) != len(names):
        raise FeedError(
            f"{article(what)} has {len(parts)} parts, but there are {len(names)} names for them",
            facts=["names: " + ", ".join(map(repr, names))],
        )
    found = dict(zip(names, parts, strict=True))
    for name in [name for name in masks if found[name] is None]:
        of, rank = masks[name]
        shape = np.shape(found[of])[: rank - (what == "example")]
        found[name] = np.ones(shape, bool)
    return found


def _opened(item: Any) -> list[Any]:
    parts: list[Any] = []
    for part in item:
        inner = part if isinstance(part, tuple | list) and part else ()
        nested = inner and all(p is None or hasattr(p, "shape") for p in inner)
        parts += _opened(part) if nested else [part]
    return parts


def article(word: str) -> str:
    """Return a word after "a" or "an".

    >>> from gradwright.data.columns import article
    >>> article("batch"), article("int")
    ('a batch', 'an int')
    """
    return f"{'an' if word[:1] in 'aeiou' else 'a'} {word}"


def label(key: Any) -> str:
    """Return the name of a column or placeholder for a message."""
    return repr(str(getattr(key, "name", key)))


def listed(keys: Iterable[Any]) -> str:
    """Return the names of columns or placeholders for a message."""
    return ", ".join(map(label, keys)) or "nothing"
