"""GGUF files written: keys, then tensors, those to be packed a piece at a time."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import ArchiveError
from ...files.whole import replacing
from ...ops.quantised.blocks import FORMATS, packed_ggml
from ...spec import dtype_name
from .header import ALIGNMENT, MAGIC
from .kinds import ARRAY, BOOL, BY_NAME, NUMBERS, SCALARS, STRING, Kind

Array = np.ndarray[Any, Any]
_TYPES = {dtype.newbyteorder("<"): number for number, dtype in SCALARS.items()}
_BY_DTYPE = {dtype_name(k.dtype): k.name for k in BY_NAME.values() if k.dtype is not None}
PIECE = 1 << 20
"""Numbers that are packed and written at a time."""


def write(
    path: str | os.PathLike[str],
    keys: Mapping[str, Any],
    tensors: Mapping[str, Array],
    kinds: Mapping[str, str] | None = None,
) -> None:
    """Write a GGUF file, whole or not at all.

    Of values, ints become u32 (i32 if negative), floats f32, numpy's numbers and arrays what they
    are. ``kinds`` says what a tensor is stored as: ``"f16"`` or the name of a format of blocks;
    others are stored by their dtype. A tensor of bytes, u8[..., bytes of a row], whose kind is a
    format of blocks holds these already. Raises ArchiveError for what no file can hold.

    >>> import numpy as np, pathlib, tempfile
    >>> from gradwright.formats.gguf.writing import write
    >>> path = pathlib.Path(tempfile.mkdtemp(), "w.gguf")
    >>> write(path, {"general.architecture": "llama"}, {"w": np.ones((2, 32), "f4")}, {"w": "q4_0"})
    >>> path.stat().st_size
    192
    """
    made = {name: _kind(name, a, (kinds or {}).get(name)) for name, a in tensors.items()}
    head = [MAGIC, struct.pack("<IQQ", 3, len(made), len(keys))]
    for key, value in keys.items():
        head += [_text(key), _value(key, value)]
    offset = 0
    for name, a in tensors.items():
        shape, nbytes = _stored(name, a, made[name])
        head += [_text(name), struct.pack("<I", len(shape))]
        head += [struct.pack(f"<{len(shape)}Q", *shape[::-1])]
        head += [struct.pack("<IQ", NUMBERS[made[name].name], offset)]
        offset += _padded(nbytes)
    header = b"".join(head)
    with replacing(path) as file:
        file.write(header + bytes(_padded(len(header)) - len(header)))
        for name, a in tensors.items():
            written = 0
            for piece in _pieces(a, made[name]):
                file.write(piece)
                written += len(piece)
            file.write(bytes(_padded(written) - written))


def _padded(n: int) -> int:
    return -(-n // ALIGNMENT) * ALIGNMENT


def _kind(name: str, a: Array, asked: str | None) -> Kind:
    """Return what a tensor is stored as."""
    kind = BY_NAME.get(asked or _BY_DTYPE.get(dtype_name(a.dtype), ""))
    if kind is None or (kind.dtype is None and kind.name not in FORMATS):
        raise ArchiveError(
            f"{name[:60]!r} is {a.dtype}, stored as {asked}", need="one of " + ", ".join(BY_NAME)
        )
    is_packed = kind.dtype is None and a.dtype == np.uint8
    if kind.dtype is None and not is_packed and FORMATS[kind.name].pack is None:
        raise ArchiveError(f"{name[:60]!r}: blocks of {kind.name} are read here, not written")
    if a.ndim > 4 or not a.size:
        raise ArchiveError(f"{name[:60]!r} has the shape {a.shape}", need="1 to 4 axes, none empty")
    return kind


def _stored(name: str, a: Array, kind: Kind) -> tuple[tuple[int, ...], int]:
    """Return the sizes of a tensor in elements, and its bytes in the file."""
    shape = a.shape
    if kind.dtype is None:
        size = kind.n_bytes if a.dtype == np.uint8 else kind.size
        if not shape or shape[-1] % size:
            raise ArchiveError(
                f"{name[:60]!r} has rows of {shape[-1:]}, which are no whole blocks of {kind.name}",
                need=f"a multiple of {size}",
            )
        shape = (*shape[:-1], shape[-1] // size * kind.size)
    return shape, math.prod(shape) // kind.size * kind.n_bytes


def _pieces(a: Array, kind: Kind) -> Iterator[bytes]:
    """Yield the bytes of a tensor, in C order."""
    rows = a.reshape(-1, a.shape[-1]) if a.ndim else a.reshape(1, 1)
    step = max(1, PIECE // rows.shape[1])
    for start in range(0, len(rows), step):
        piece = rows[start : start + step]
        if kind.dtype is not None:
            piece = piece.astype(kind.dtype.newbyteorder("<"), copy=False)
        elif piece.dtype != np.uint8:
            piece = packed_ggml(piece, kind.name)
        yield np.ascontiguousarray(piece).tobytes()


# -- keys ------------------------------------------------------------------------------------------


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def _value(key: str, value: Any) -> bytes:
    """Return the number of a value's type, and the value."""
    match value:
        case bool() | np.bool_():
            return struct.pack("<I?", BOOL, value)
        case str():
            return struct.pack("<I", STRING) + _text(value)
        case int():
            value = np.int32(value) if -(1 << 31) <= value < 0 else np.uint32(value)
        case float():
            value = np.float32(value)
    if isinstance(value, np.generic) and value.dtype in _TYPES:
        return struct.pack("<I", _TYPES[value.dtype]) + value.tobytes()
    if isinstance(value, np.ndarray) and value.dtype in _TYPES and value.ndim == 1:
        little = np.ascontiguousarray(value, value.dtype.newbyteorder("<"))
        return struct.pack("<IIQ", ARRAY, _TYPES[value.dtype], len(value)) + little.tobytes()
    if isinstance(value, Sequence) and all(isinstance(v, str) for v in value):
        return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(_text, value))
    raise ArchiveError(
        f"the key {key[:60]!r} holds {type(value).__name__}",
        need="text, a number, a list of texts or an array of one axis",
    )
