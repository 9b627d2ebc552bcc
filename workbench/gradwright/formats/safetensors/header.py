"""The header of a safetensors file: which tensors it holds, and where their bytes lie.

Eight bytes with the size of the header, the header (JSON: dtype, shape and byte range of each
tensor, and text in ``__metadata__``), the bytes of the tensors, without gaps, to the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ArchiveError
from ...spec import dtype as as_dtype
from ..checked import expect, expect_fields, parse_json

MAX_HEADER = 100_000_000
"""Bytes of a header at most, as in the safetensors library."""
METADATA = "__metadata__"
MAP = "weight_map"
"""What of an index says in which file a tensor lies."""
CODES = {
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
    **{"bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "bool": "BOOL"},
    **{"float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ"},
    **{"float8_e8m0fnu": "F8_E8M0"},
}
"""Dtype -> what it is called in a header."""
DTYPES = {code: as_dtype(name) for name, code in CODES.items()}
PLAIN = {**CODES, "complex64": "C64"}
"""The same in files of others, where complex numbers have a code of their own."""
PACKED = {"float4_e2m1fn": "F4"}
"""Dtypes of which two elements share a byte there."""
SIX = {"float6_e2m3fn": "F6_E2M3", "float6_e3m2fn": "F6_E3M2"}
"""Dtypes of which four elements share three bytes, in an order that nothing says."""
_SHARED = dict.fromkeys(PACKED.values(), ("packed", 4)) | dict.fromkeys(
    SIX.values(), ("six bits", 6)
)
"""Code -> the form of a tensor and the bits of an element."""


@dataclass(frozen=True)
class Entry:
    """One tensor: what it is, and where its bytes lie in the file."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    nbytes: int
    form: str = ""
    """As that of a `TensorRange`."""


def read_header(
    read: Callable[[int, int], bytes], size: int, where: str
) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Return the rows of a header, its metadata, and where the bytes of tensors begin.

    ``read(offset, n)`` gives ``n`` bytes of the file or raises ArchiveError.
    """
    n = int.from_bytes(read(0, 8), "little")
    if n > min(MAX_HEADER, size - 8):
        raise ArchiveError(f"the header has {n:,} bytes", where=where, need="less than the file")
    rows = parse_json(read(8, n), where)
    return rows, expect(rows.pop(METADATA, {}), dict, METADATA, where), 8 + n


def read_entry(
    name: str, row: Any, base: int, dtypes: Mapping[str, np.dtype[Any]], where: str
) -> Entry:
    """Return the entry of a row whose offsets count from ``base``.

    ``dtypes`` are those that codes stand for. Where the code of reals stands for a complex dtype,
    the file has an axis of size 2 more than the tensor.
    """
    what = f"the row of {name[:60]!r}"
    expect_fields(row, ("dtype", "shape", "data_offsets"), (), what, where)
    code = expect(row["dtype"], str, "dtype", where)
    shape = tuple(_sizes(row["shape"], f"the shape of {name[:60]!r}", where))
    offsets = _sizes(row["data_offsets"], f"data_offsets of {name[:60]!r}", where)
    dtype = dtypes.get(code)
    is_pair = dtype is not None and dtype.kind == "c" and code in DTYPES
    if dtype is None or (is_pair and shape[-1:] != (2,)):
        raise ArchiveError(f"{name[:60]!r} has the unknown dtype {code[:20]!r}", where=where)
    if is_pair:
        shape = shape[:-1]
    form, bits = _SHARED.get(code, ("", 8 * dtype.itemsize))
    nbytes, rest = divmod(math.prod(shape) * bits, 8)
    if rest:
        raise ArchiveError(f"{name[:60]!r} ends within a byte", where=where)
    if len(offsets) != 2 or offsets[1] - offsets[0] != nbytes:
        raise ArchiveError(
            f"{name[:60]!r} has {nbytes:,} bytes", where=where, facts=[f"data_offsets: {offsets}"]
        )
    return Entry(name, dtype, shape, base + offsets[0], nbytes, form)


def _sizes(value: Any, what: str, where: str) -> list[int]:
    found = expect(value, list, what, where)
    if any(expect(n, int, what, where) < 0 for n in found):
        raise ArchiveError(f"{what} has a negative number", where=where)
    return found


def in_order(entries: Iterable[Entry], base: int, size: int, where: str) -> list[Entry]:
    """Return entries in the order of their bytes, which fill the file from ``base`` to ``size``."""
    found = sorted(entries, key=lambda e: (e.start, e.nbytes))
    position = base
    for entry in found:
        if entry.start != position:
            raise ArchiveError(f"{entry.name!r} overlaps a tensor, or leaves a gap", where=where)
        position += entry.nbytes
    if position != size:
        raise ArchiveError("the tensors do not fill the member, or exceed it", where=where)
    return found
