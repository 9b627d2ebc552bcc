"""Text in an archive: where each element ends, and then all of them as UTF-8.

An array of n elements is stored as bytes: n times eight bytes, little-endian, that say where the
element ends in what follows, and what follows.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ...errors import ArchiveError
from ...spec import dtype

Array = np.ndarray[Any, Any]


def pack(array: Array) -> Array:
    """Return an array of text as bytes.

    >>> import numpy as np
    >>> from gradwright.formats.archive.texts import pack, unpack
    >>> packed = pack(np.array(["a", "", "bc"]))
    >>> packed.size, unpack(packed, (3,), "a doctest").tolist()
    (27, ['a', '', 'bc'])
    """
    parts = [text.encode() for text in array.ravel().tolist()]
    ends = np.fromiter(itertools.accumulate(map(len, parts)), "<i8", len(parts))
    return np.frombuffer(ends.tobytes() + b"".join(parts), np.uint8)


def unpack(packed: Array, shape: tuple[int, ...], where: str) -> Array:
    """Return the text again; all that a file says about it is verified."""
    count = math.prod(shape)
    if count * 8 > packed.nbytes:
        raise ArchiveError(f"{count:,} texts in {packed.nbytes:,} bytes", where=where)
    data = packed.tobytes()
    ends = [0, *np.frombuffer(data, "<i8", count).tolist()]
    data = data[count * 8 :]
    if ends != sorted(ends) or ends[-1] != len(data):
        raise ArchiveError("the texts do not fill their bytes", where=where)
    try:
        texts = [data[a:b].decode() for a, b in itertools.pairwise(ends)]
        return np.array(texts, dtype("str")).reshape(shape)
    except ValueError as error:  # no UTF-8, or more axes or larger ones than numpy has
        raise ArchiveError(str(error), where=where) from None
