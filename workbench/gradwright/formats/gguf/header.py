"""The header of a GGUF file: its keys, which tensors it holds, and where their bytes lie.

``GGUF``, a version, the counts of tensors and keys; each key with the number of its type and its
value; each tensor with name, sizes (the last axis first), kind and offset; then, aligned, the bytes
of the tensors. All numbers are little-endian. Nothing that a header says is believed: counts and
lengths end where the file does, and offsets are aligned, inside, and overlap nothing.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ...errors import ArchiveError
from ..source import Source, exactly
from .kinds import ARRAY, BOOL, FLOAT, KINDS, SCALARS, STRING, Kind

T = TypeVar("T")
MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32
"""Where a file does not say otherwise in ``general.alignment``."""
FIRST = 1 << 14
"""Bytes that are read at first; then as many again, until the header ends."""
MAX_HEADER = 1 << 27
"""Bytes of a header at most; a vocabulary of 256,000 tokens takes 12 MB."""
MAX_KEY = 1 << 16
"""Bytes of the name of a key or tensor at most."""
_LENGTH = struct.Struct("<Q").unpack_from


class Texts(Sequence[str]):
    """An array of texts, which are decoded when they are asked for.

    >>> Texts((1).to_bytes(8, "little") + b"a", [0])[0]
    'a'
    """

    def __init__(self, data: bytes, starts: Sequence[int]) -> None:
        self._data, self._starts = data, starts

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(len(self))[i]]
        at = self._starts[i]
        n = int.from_bytes(self._data[at : at + 8], "little")
        return self._data[at + 8 : at + 8 + n].decode("utf-8", "replace")


@dataclass(frozen=True)
class Info:
    """A tensor: its kind, its sizes in our order, and where its bytes begin in the file."""

    kind: Kind
    shape: tuple[int, ...]
    start: int

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return math.prod(self.shape) // self.kind.size * self.kind.n_bytes

    @property
    def stored(self) -> tuple[int, ...]:
        """The shape of its bytes, or of its elements where they are not packed."""
        if self.kind.dtype is not None:
            return self.shape
        return (*self.shape[:-1], self.shape[-1] // self.kind.size * self.kind.n_bytes)


@dataclass(frozen=True)
class Header:
    """What stands before the bytes of tensors; arrays of numbers are numpy's."""

    version: int
    keys: Mapping[str, Any]
    tensors: Mapping[str, Info]


class _Cursor:
    """Goes through the header; what lies ahead is read in larger and larger pieces."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.data, self.at = source.read(0, FIRST), 0

    def need(self, n: int) -> int:
        """Return where the next ``n`` bytes begin, and go past them."""
        start, end = self.at, self.at + n
        if end > len(self.data):
            if end > min(self._source.size, MAX_HEADER):
                limit = "" if end > self._source.size else f", limit {MAX_HEADER:,} bytes"
                raise ArchiveError(
                    f"its header is cut off, or damaged: {n:,} bytes should begin at {start:,}",
                    facts=[f"the file has {self._source.size:,} bytes{limit}"],
                    hint="copy or download the file again",
                )
            have = len(self.data)
            wanted = min(max(end, 2 * have), self._source.size, MAX_HEADER)
            self.data += exactly(self._source, have, wanted - have)
        self.at = end
        return start

    def number(self, n: int) -> int:
        """Return an unsigned integer of so many bytes."""
        at = self.need(n)
        return int.from_bytes(self.data[at : at + n], "little")

    def text(self, most: int = MAX_HEADER) -> str:
        """Return text; raises ArchiveError for bytes that are none."""
        n = self.number(8)
        if n > most:
            raise ArchiveError(f"a text of {n:,} bytes", need=f"{most:,} at most")
        at = self.need(n)
        try:
            return self.data[at : at + n].decode()
        except UnicodeDecodeError:
            raise ArchiveError(f"{self.data[at : at + 40]!r} is no text in UTF-8") from None

    def scalar(self, kind: int) -> Any:
        """Return a number, or whether."""
        dtype = SCALARS[kind]
        at = self.need(dtype.itemsize)
        if kind == BOOL:
            return _flag(self.data[at])
        value = np.frombuffer(self.data, dtype, 1, at)[0]
        return float(str(value)) if kind == FLOAT else value.item()  # 1e-05, no 9.99999974e-06

    def array(self) -> Any:
        """Return an array of numbers, or texts."""
        kind, count = self.number(4), self.number(8)
        if kind == STRING:
            return self._texts(count)
        if kind not in SCALARS:
            raise ArchiveError(f"an array of elements of type {kind}", need="numbers, or texts")
        dtype = SCALARS[kind]
        at = self.need(count * dtype.itemsize)
        if kind == BOOL:
            return np.array([_flag(b) for b in self.data[at : at + count]], bool)
        return np.frombuffer(self.data, dtype, count, at)

    def _texts(self, count: int) -> Texts:
        """Go past texts, which are decoded later: a vocabulary has 400,000 of them."""
        starts, at = array("Q"), self.need(8 * count)  # each has its length
        data, end = self.data, len(self.data)
        for _ in range(count):
            if at + 8 > end:
                self.at = at
                self.need(8)
                data, end = self.data, len(self.data)
            starts.append(at)
            at += 8 + _LENGTH(data, at)[0]
            if at > end:
                self.at = starts[-1] + 8
                self.need(at - self.at)
                data, end = self.data, len(self.data)
        self.at = at
        return Texts(data, starts)


def _flag(byte: int) -> bool:
    if byte > 1:
        raise ArchiveError(f"{byte} is neither true nor false")
    return byte == 1


def is_gguf(source: Source) -> bool:
    """Tell a file by its first four bytes."""
    return source.read(0, 4) == MAGIC


def read_header(source: Source) -> Header:
    """Return the header; raises ArchiveError where it is damaged, cut off, or lies."""
    cursor = _Cursor(source)
    if cursor.data[:4] != MAGIC:
        raise ArchiveError("it does not begin with GGUF", facts=[f"but with {cursor.data[:4]!r}"])
    cursor.at = 4
    version = cursor.number(4)
    if version not in VERSIONS:
        big = version.to_bytes(4, "little")[:2] == b"\0\0" and version
        said = "its numbers are big-endian" if big else f"it is of version {version:,}"
        raise ArchiveError(said, need="little-endian GGUF, version 2 or 3", hint="convert it anew")
    n_tensors, n_keys = cursor.number(8), cursor.number(8)
    for n, least, what in ((n_tensors, 24, "tensors"), (n_keys, 13, "keys")):
        if n * least > source.size:
            raise ArchiveError(f"it has {n:,} {what}", need=f"fewer: {source.size:,} bytes in all")
    keys = _named(cursor, n_keys, "key", _value)
    infos = _named(cursor, n_tensors, "tensor", _info)
    return Header(version, keys, _placed(infos, keys, cursor.at, source.size))


def _named(
    cursor: _Cursor, count: int, what: str, read: Callable[[_Cursor, str], T]
) -> dict[str, T]:
    """Return what is read behind each of so many names, none of which may come twice."""
    found: dict[str, T] = {}
    for _ in range(count):
        name = cursor.text(MAX_KEY)
        if name in found:
            raise ArchiveError(f"the {what} {name[:60]!r} is given twice")
        found[name] = read(cursor, name)
    return found


def _value(cursor: _Cursor, name: str) -> Any:
    kind = cursor.number(4)
    try:
        if kind == STRING:
            return cursor.text()
        if kind == ARRAY:
            return cursor.array()
        if kind in SCALARS:
            return cursor.scalar(kind)
        raise ArchiveError(f"its value is of type {kind}", need="a type of GGUF, 0 to 12")
    except ArchiveError as error:
        error.where = error.where or f"the key {name[:60]!r}"
        raise


def _info(cursor: _Cursor, name: str) -> Info:
    """Return a tensor whose offset counts from where all bytes of tensors begin."""
    where = f"the tensor {name[:60]!r}"
    rank = cursor.number(4)
    if rank > 4:
        raise ArchiveError(f"it has {rank:,} axes", where=where, need="4 at most")
    shape = tuple(cursor.number(8) for _ in range(rank))[::-1]
    number, offset = cursor.number(4), cursor.number(8)
    if number not in KINDS:
        raise ArchiveError(
            f"its elements are of the kind {number}", where=where, need=f"one of {len(KINDS)} known"
        )
    kind = KINDS[number]
    if not all(shape) or math.prod(shape) >= 1 << 60:
        raise ArchiveError(f"its sizes are {shape}", where=where, need="1 or more, and fewer bytes")
    if (shape[-1] if shape else 1) % kind.size:
        raise ArchiveError(
            f"rows of {shape[-1:]} are no whole blocks of {kind.name}",
            where=where,
            need=f"a multiple of {kind.size}",
        )
    return Info(kind, shape, offset)


def _placed(
    infos: Mapping[str, Info], keys: Mapping[str, Any], end: int, size: int
) -> dict[str, Info]:
    """Return tensors with the place of their bytes in the file, which has ``size``."""
    alignment = keys.get("general.alignment", ALIGNMENT)
    if type(alignment) is not int or not 8 <= alignment <= 1 << 20 or alignment & (alignment - 1):
        raise ArchiveError(
            f"general.alignment is {alignment!r:.40}", need="a power of 2, from 8 on"
        )
    base = -(-end // alignment) * alignment
    found = {name: Info(t.kind, t.shape, base + t.start) for name, t in infos.items()}
    free = base
    for name, t in sorted(found.items(), key=lambda item: item[1].start):
        where = f"the tensor {name[:60]!r}"
        if (t.start - base) % alignment:
            raise ArchiveError(
                f"its offset is {t.start - base:,}", where=where, need=f"a multiple of {alignment}"
            )
        if t.start + t.nbytes > size:
            raise ArchiveError(
                f"its {t.nbytes:,} bytes should begin at {t.start:,}",
                where=where,
                facts=[f"the file has {size:,} bytes: it is cut off, or damaged"],
                hint="copy or download the file again",
            )
        if t.start < free:
            raise ArchiveError("it overlaps another tensor", where=where)
        free = t.start + t.nbytes
    return found
