"""Padding: sequences of different lengths as one array, and the mask of what they really hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import FeedError, TrainingError
from .columns import Array, Columns, listed


def pad(sequences: Sequence[Any], length: int | None = None, value: Any = 0) -> tuple[Array, Array]:
    """Return sequences as rows of one array, filled up with ``value``, and a mask ``bool[B, T]``.

    The length is that of the longest if none is given. Raises FeedError for a sequence that is
    longer than ``length``, and for rows whose further axes differ.

    >>> import gradwright as gw
    >>> array, mask = gw.data.pad([[5, 6, 7], [8]], length=4)
    >>> array.tolist(), mask.astype(int).tolist()
    ([[5, 6, 7, 0], [8, 0, 0, 0]], [[1, 1, 1, 0], [1, 0, 0, 0]])
    """
    arrays = [np.asarray(s) for s in sequences]
    lengths = np.array([len(a) if a.ndim else -1 for a in arrays])
    if (lengths < 0).any():
        raise FeedError(f"row {int(lengths.argmin())} is a single value, not a sequence")
    longest = int(lengths.max(initial=0))
    length = longest if length is None else length
    if longest > length:
        row = int(lengths.argmax())
        raise FeedError(f"row {row} has {longest} steps", need=f"at most {length}")
    empty = [len(a) == 0 for a in arrays]
    solid = [a for a, e in zip(arrays, empty, strict=True) if not e] or arrays[:1]
    inner = {a.shape[1:] for a in solid}
    if len(inner) > 1:
        raise FeedError(
            "the steps of the sequences have different shapes",
            facts=[str(shape) for shape in sorted(inner)[:3]],
        )
    dtype = np.result_type(*{a.dtype for a in solid})
    padded = np.full((len(arrays), length, *inner.pop()), value, dtype)
    for row, (array, size) in enumerate(zip(arrays, lengths, strict=True)):
        if size:
            padded[row, :size] = array
    return padded, np.arange(length) < lengths[:, None]


def by_column(option: str, given: Any, column: Any = "x") -> dict[Any, Any]:
    """Return an option as a dict by column; raises TrainingError for what is none."""
    if given is None or isinstance(given, Mapping):
        return dict(given or {})
    shown = f'"{given}"' if isinstance(given, str) else repr(given)
    raise TrainingError(
        f"{option}={shown} does not say for which column",
        need="a dict by column",
        hint=f'{option}={{"{column}": {shown}}}',
    )


def pad_columns(
    columns: Columns,
    values: Mapping[str, Any],
    masks: Mapping[str, str],
    length: int | None = None,
) -> Columns:
    """Return columns with some of them padded, and with their masks under the names of ``masks``.

    Raises FeedError for a column that is not there, and for a mask of one that is not padded.
    """
    unknown = values.keys() - columns.keys() or masks.keys() - values.keys()
    if unknown:
        raise FeedError(
            f"column {listed(unknown)} cannot be padded or masked",
            facts=[f"columns: {listed(columns)}", f"padded: {listed(values)}"],
        )
    padded = dict(columns)
    for name, value in values.items():
        padded[name], mask = pad(columns[name], length, value)
        if name in masks:
            padded[masks[name]] = mask
    return padded
