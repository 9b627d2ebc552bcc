"""Rows in batches: cut as a model takes them, and put together again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ....errors import FeedError
from ....spec import AnyDim, Dim
from .ports import ValueInfo

Array = np.ndarray[Any, Any]


def batch_axis(
    inputs: Mapping[str, ValueInfo], shared: Collection[str]
) -> tuple[AnyDim, list[str]]:
    """Return the size or symbol of a batch, and the inputs that have it as first axis.

    It is the first axis of the first input; ``shared`` names inputs that every batch gets whole.
    """
    unknown = [name for name in shared if name not in inputs]
    if unknown:
        raise FeedError(f"there is no input {unknown[0]!r}", facts=[f"inputs: {', '.join(inputs)}"])
    tensors = [i for i in inputs.values() if i.shape and i.name not in shared and not i.is_optional]
    if not tensors:
        raise FeedError(
            "the model has no input with a batch axis",
            facts=[repr(info) for info in inputs.values()],
            need="a tensor whose first axis is the batch",
        )
    assert tensors[0].shape is not None
    size = tensors[0].shape[0]
    return size, [i.name for i in tensors if i.shape is not None and i.shape[0] == size]


def rows_of(feeds: Mapping[str, Any], batched: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Return the number of rows, and what is fed with its batched inputs as arrays."""
    found = dict(feeds)
    counts = {}
    for name in batched:
        if name in feeds:
            found[name] = np.asarray(feeds[name])
            if not found[name].ndim:
                raise FeedError(f"input {name!r} is fed with a number", need="rows")
            counts[name] = len(found[name])
    if len(set(counts.values())) > 1:
        raise FeedError(
            "inputs differ in their number of rows",
            facts=[f"{name}: {n}" for name, n in counts.items()],
            hint="shared=(name,) for what every batch gets whole",
        )
    return next(iter(counts.values()), 0), found


def batches(
    feeds: Mapping[str, Any], batched: Sequence[str], rows: int, size: int, *, fixed: bool
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield batches and how many of their rows count; a fixed last one repeats its last row."""
    for first in range(0, rows, size):
        n = min(size, rows - first)
        part = dict(feeds)
        for name in batched:
            if name in feeds:
                cut = feeds[name][first : first + n]
                if fixed and n < size:
                    cut = np.concatenate([cut, np.repeat(cut[-1:], size - n, axis=0)])
                part[name] = cut
        yield n, part


def joined(info: ValueInfo, parts: Sequence[Any], counts: Sequence[int], batch: AnyDim) -> Any:
    """Return an output of all batches as one; raises FeedError if it has no row per input row."""
    if info.kind == "sequence" or info.kind == "map":
        lists = [part if isinstance(part, list) else [part] for part in parts]
        if any(len(part) < n for part, n in zip(lists, counts, strict=True)):
            raise _rowless(info)
        return [item for part, n in zip(lists, counts, strict=True) for item in part[:n]]
    stated = info.shape[0] if info.shape else None
    if not info.shape or (not isinstance(stated, Dim) and stated != batch):
        raise _rowless(info)
    if any(np.ndim(p) == 0 or len(p) < n for p, n in zip(parts, counts, strict=True)):
        raise _rowless(info)
    return np.concatenate([part[:n] for part, n in zip(parts, counts, strict=True)])


def _rowless(info: ValueInfo) -> FeedError:
    return FeedError(
        f"output {info.name!r} has no row for each row that goes in",
        facts=[f"it is {info}"],
        hint="predict(feeds, outputs=[...]) without it, or run(...)",
    )
