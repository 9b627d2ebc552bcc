"""Digests: a number that tells other data of the same size, from a few rows."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from numbers import Number
from typing import Any

import numpy as np

from .columns import Array, as_array, label

ROWS = 16
"""Rows of a table that are looked at."""
NUMBERS = 1024
"""Numbers of a row, so that a table of images or of long sequences costs as little."""


def spread(n: int) -> Array:
    """Return up to `ROWS` row numbers, from the first to the last of n.

    >>> from gradwright.data.digest import spread
    >>> spread(3).tolist(), spread(151).tolist()[:3]
    ([0, 1, 2], [0, 10, 20])
    """
    return np.linspace(0, n - 1, min(n, ROWS)).astype(np.int64)


def digest(columns: Mapping[Any, Iterable[Any]]) -> int:
    """Return a checksum of columns by name, in whichever order they come.

    >>> from gradwright.data.digest import digest
    >>> import numpy as np
    >>> x = np.array([0.1, 0.2])
    >>> [digest({"x": x}) == digest({"x": other}) for other in (x.astype("float32"), -x)]
    [True, False]
    """
    found = 0
    for key in sorted(columns, key=label):
        found = zlib.crc32(label(key).encode(), found)
        for row in columns[key]:
            found = _added(found, row)
    return found


def _added(found: int, value: Any) -> int:
    """Return a checksum that goes on with a value.

    Numbers count as float32: whether they were converted before must make no difference. Objects
    of unknown types count by type, as their text may hold an address.
    """
    array = as_array("", value)
    found = zlib.crc32(repr(array.shape).encode(), found)
    part = array.reshape(-1)[:: -(-array.size // NUMBERS) or 1]
    if array.dtype == object:
        for held in part:
            if isinstance(held, np.ndarray | list | tuple):
                found = _added(found, held)
            else:
                is_known = isinstance(held, str | bytes | Number | np.generic)
                found = zlib.crc32((str(held) if is_known else type(held).__name__).encode(), found)
        return found
    if array.dtype.kind in "SUTMm" or array.dtype.type is np.void:
        return zlib.crc32(str(part.tolist()).encode(), found)
    with np.errstate(all="ignore"):
        numbers = part.astype(np.complex64 if array.dtype.kind == "c" else np.float32)
    return zlib.crc32(numbers.tobytes(), found)
