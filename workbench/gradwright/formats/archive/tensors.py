"""Safetensors members: how arrays lie in an archive, ready to be mapped.

A member is a complete safetensors file: eight bytes with the size of the header, the header (JSON:
dtype, shape and byte range of each tensor), the bytes of the tensors without gaps. Three rules are
added within what that format allows:

- Every tensor starts at a multiple of 64 bytes, so fillers stand between them: U8 tensors called
  ``:pad:0``, ``:pad:1`` ... A name that begins with a colon, or is ``__metadata__``, gets one more
  colon in front.
- The format has no complex128, and complex64 only lately. ``complex64[2, 3]`` is stored as
  ``F32[2, 3, 2]``, real and imaginary part side by side (``complex128`` as F64), and the entry
  ``complex`` of ``__metadata__`` lists the names of such tensors, one per line.
- Numbers of 2, 4 and 6 bits take a byte each, as in memory, so that they can be mapped: stored as
  U8, and listed in the entry ``narrow`` of ``__metadata__`` as lines such as ``int4 name``.
- Text is packed into a U8 tensor (see :mod:`.texts`), and listed in the entry ``text`` with its
  shape, as lines such as ``2,3 name``.
- A folder ``values/`` holds the members ``00001-of-00003.safetensors`` and so on.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import ArchiveError, GraphError
from ...spec import NARROW, TensorSpec, dtype_name
from ...spec import dtype as as_dtype
from ..checked import expect
from ..registry import Range, TensorRange
from ..safetensors.header import (
    CODES,
    DTYPES,
    MAX_HEADER,
    METADATA,
    Entry,
    in_order,
    read_entry,
    read_header,
)
from .container import ALIGNMENT, Member, Reader, Writer
from .texts import pack, unpack

Array = np.ndarray[Any, Any]

_PAIRS = {"complex64": "F32", "complex128": "F64"}
_COMPLEX = {code: as_dtype(name) for name, code in _PAIRS.items()}
_BYTES = {dtype_name(d): d for d in NARROW if dtype_name(d) not in CODES}
_FILLER = ":pad:"


# -- writing -------------------------------------------------------------------------------------


def check_tensors(arrays: Mapping[str, Any], what: str) -> dict[str, Array]:
    """Return ``arrays`` as numpy arrays of dtypes that can be stored, under names that can be."""
    found = {}
    for name, value in arrays.items():
        if not isinstance(name, str) or not name or not name.isprintable():
            raise GraphError(f"{what}: {name!r} cannot name a tensor", need="printable text")
        array = np.asarray(value)
        try:
            as_dtype(array.dtype)
        except GraphError as error:
            error.where = f"{what}, {name!r}"
            raise
        found[name] = array
    return found


@dataclass(frozen=True)
class Shard:
    """A member to be written: a safetensors file of some arrays."""

    name: str
    arrays: Mapping[str, Array]
    texts: Mapping[str, tuple[int, ...]]
    """Shapes of those that are packed text."""

    def header(self, **facts: str) -> tuple[bytes, int]:
        """Return the header with its size in front, and the size of the whole member."""
        return _header(self.arrays, self.texts, facts)

    def data(self) -> Iterator[Any]:
        """Yield the bytes that follow the header."""
        position = 0
        for array in self.arrays.values():
            yield bytes(-position % ALIGNMENT)
            position += -position % ALIGNMENT + array.nbytes
            yield np.ascontiguousarray(array).reshape(-1).view(np.uint8)


ROW, REST = 320, 192
"""Bytes of a header at most: of a tensor, beside twice its name, with filler and shape; the rest.
"""


def sharded(
    folder: str, arrays: Mapping[str, Array], most: int, *, with_header: bool = False
) -> list[Shard]:
    """Return arrays, in order, as shards of at most ``most`` bytes, or of one tensor.

    These are bytes of arrays, or ``with_header`` of the whole shard.
    """
    texts = {name: array.shape for name, array in arrays.items() if array.dtype.kind == "T"}
    arrays = {name: pack(array) if name in texts else array for name, array in arrays.items()}
    parts: list[dict[str, Array]] = [{}]
    start = most - REST if with_header else most
    room = start
    for name, array in arrays.items():
        nbytes = array.nbytes + -array.nbytes % ALIGNMENT
        nbytes += ROW + 2 * len(name.encode()) if with_header else 0
        if nbytes > room and parts[-1]:
            parts.append({})
            room = start
        parts[-1][name] = array
        room -= nbytes
    return [
        Shard(f"{folder}/{i:05}-of-{len(parts):05}.safetensors", part, texts)
        for i, part in enumerate(parts, 1)
    ]


def write_shard(writer: Writer, shard: Shard) -> None:
    """Write a shard as a member."""
    header, size = shard.header()
    writer.add(shard.name, size, itertools.chain([header], shard.data()))


def _header(
    arrays: Mapping[str, Array], texts: Mapping[str, tuple[int, ...]], facts: Mapping[str, str]
) -> tuple[bytes, int]:
    rows: dict[str, Any] = {}
    pairs = [_stored(n) for n, a in arrays.items() if a.dtype.kind == "c"]
    narrow = [
        f"{d} {_stored(n)}" for n, a in arrays.items() if (d := dtype_name(a.dtype)) in _BYTES
    ]
    text = [f"{','.join(map(str, texts[n]))} {_stored(n)}" for n in arrays if n in texts]
    lists = {"complex": pairs, "narrow": narrow, "text": text}
    stated = {key: "\n".join(lines) for key, lines in lists.items() if lines}
    if stated or facts:
        rows[METADATA] = {**facts, **stated}
    position = 0
    for i, (name, array) in enumerate(arrays.items()):
        if filler := -position % ALIGNMENT:
            rows[f"{_FILLER}{i}"] = _place("U8", (filler,), position, filler)
            position += filler
        known = dtype_name(array.dtype)
        code, tail = (_PAIRS[known], (2,)) if known in _PAIRS else (CODES.get(known, "U8"), ())
        rows[_stored(name)] = _place(code, (*array.shape, *tail), position, array.nbytes)
        position += array.nbytes
    head = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()
    if len(head) > MAX_HEADER:
        raise GraphError(f"a header of {len(head):,} bytes", hint="a smaller max_shard_bytes")
    head += b" " * (-(8 + len(head)) % ALIGNMENT)
    return len(head).to_bytes(8, "little") + head, 8 + len(head) + position


def _place(code: str, shape: tuple[int, ...], start: int, nbytes: int) -> dict[str, Any]:
    return {"dtype": code, "shape": list(shape), "data_offsets": [start, start + nbytes]}


def _stored(name: str) -> str:
    return ":" + name if name.startswith(":") or name == METADATA else name


# -- reading -------------------------------------------------------------------------------------


def members_of(reader: Reader, folder: str) -> list[Member]:
    """Return the members of a folder; all of them have to be there."""
    names = sorted(n for n in reader.members if n.rpartition("/")[0] == folder)
    expected = [f"{folder}/{i:05}-of-{len(names):05}.safetensors" for i in range(1, len(names) + 1)]
    if not names:
        raise ArchiveError("no such member", where=f"{folder}/00001-of-00001.safetensors")
    if names != expected:
        wrong = next(n for n in (*expected, *names) if n not in names or n not in expected)
        raise ArchiveError("the shards are not complete", where=wrong)
    return [reader.members[n] for n in names]


def read_entries(reader: Reader, member: Member) -> list[Entry]:
    """Return what a member holds, in the order of the bytes, without reading these."""
    where = member.name
    read = functools.partial(reader.read, member)
    rows, metadata, base = read_header(read, member.size, where)
    complex_names = set(_lines(metadata, "complex", where))
    narrow = {
        n: d for d, _, n in (line.partition(" ") for line in _lines(metadata, "narrow", where))
    }
    texts = {n: s for s, _, n in (line.partition(" ") for line in _lines(metadata, "text", where))}
    stated = ((complex_names, "complex"), (narrow.keys(), "narrow"), (texts.keys(), "text"))
    for names, what in stated:
        if unknown := sorted(names - rows.keys()):
            raise ArchiveError(
                f"no tensor {unknown[0][:60]!r}, which should be {what}", where=where
            )
    entries = []
    for name, row in rows.items():
        dtypes = _COMPLEX if name in complex_names else DTYPES
        if name in narrow:
            dtypes = {"U8": _BYTES[narrow[name]]} if narrow[name] in _BYTES else {}
        entry = read_entry(name, row, base, dtypes, where)
        entries.append(_as_text(entry, texts[name], where) if name in texts else entry)
    return [
        dataclasses.replace(entry, name=entry.name.removeprefix(":"))
        for entry in in_order(entries, base, member.size, where)
        if not entry.name.startswith(_FILLER)
    ]


def _lines(metadata: dict[str, Any], key: str, where: str) -> list[str]:
    return expect(metadata.get(key, ""), str, key, where).splitlines()


def _as_text(entry: Entry, sizes: str, where: str) -> Entry:
    shape = tuple(int(n) for n in sizes.split(",") if n.isascii() and n.isdecimal() and len(n) < 19)
    if entry.dtype != np.uint8 or ",".join(map(str, shape)) != sizes:
        raise ArchiveError(f"{entry.name[:60]!r} is no text of shape {sizes[:60]!r}", where=where)
    return dataclasses.replace(entry, dtype=as_dtype("str"), shape=shape)


def shards_in(reader: Reader, folder: str) -> list[tuple[Member, list[Entry]]]:
    """Return the members of a folder with the tensors in each."""
    found: list[tuple[Member, list[Entry]]] = []
    seen: set[str] = set()
    for member in members_of(reader, folder):
        entries = read_entries(reader, member)
        for entry in entries:
            if entry.name in seen:
                raise ArchiveError(f"{entry.name!r} occurs twice", where=member.name)
            seen.add(entry.name)
        found.append((member, entries))
    return found


def ranges_in(reader: Reader, folder: str) -> dict[str, TensorRange]:
    """Return what the headers of a folder say, and where in the file the bytes of arrays lie."""
    return {
        e.name: TensorRange(
            e.dtype,
            e.shape,
            (Range(member.start + e.start, e.nbytes, member.file),),
            "texts" if e.dtype.kind == "T" else "",
        )
        for member, entries in shards_in(reader, folder)
        for e in entries
    }


SMALL = 4096
"""Bytes of an array that is read for an outline: shapes, axes and bounds are smaller."""


def outlined(reader: Reader, folder: str) -> dict[str, Array | TensorSpec]:
    """Return the small arrays of a folder, unverified, and of all others the specs."""
    found: dict[str, Array | TensorSpec] = {}
    for member, entries in shards_in(reader, folder):
        for e in entries:
            found[e.name] = TensorSpec(e.shape, e.dtype)
            if e.nbytes <= SMALL:
                array = _shaped(e, member, buffer=reader.read(member, e.start, e.nbytes))
                text = e.dtype.kind == "T"
                found[e.name] = unpack(array, e.shape, member.name) if text else array
    return found


def read_tensors(reader: Reader, folder: str, mapped: bool) -> dict[str, Array]:
    """Return the arrays of a folder: read and verified, or mapped read-only from the file."""
    arrays: dict[str, Array] = {}
    memory: dict[str, mmap.mmap] = {}
    """What is mapped, by file."""
    for member, entries in shards_in(reader, folder):
        if mapped:
            if member.file not in memory:
                memory[member.file] = reader.map(member)
            made = {e.name: _mapped(memory[member.file], member, e) for e in entries}
        else:
            made = _read(reader, member, entries)
        for name, array in made.items():
            if not _is_valid(array):
                what = dtype_name(array.dtype)
                raise ArchiveError(f"{name[:60]!r} is no array of {what}s", where=member.name)
        arrays.update(made)
    return arrays


def _is_valid(array: Array) -> bool:
    """Tell whether each byte of an array of bools or narrow numbers stands for one of them."""
    if array.dtype == bool:
        return bool(array.view(np.uint8).max(initial=0) <= 1)
    if dtype_name(array.dtype) not in _BYTES:
        return True
    written = np.arange(256, dtype=np.uint8).view(array.dtype).astype(np.float32)
    known = written.astype(array.dtype).view(np.uint8) == np.arange(256)
    return bool(known[array.view(np.uint8)].all())


def _read(reader: Reader, member: Member, entries: Sequence[Entry]) -> dict[str, Array]:
    found = {}
    with reader.stream(member) as stream:
        position = member.head
        for entry in entries:
            array = found[entry.name] = _shaped(entry, member)
            stream.skip(entry.start - position)
            stream.into(array.reshape(-1).view(np.uint8))
            position = entry.start + entry.nbytes
        stream.skip(member.size - position)
    texts = {e.name: e.shape for e in entries if e.dtype.kind == "T"}
    return found | {name: unpack(found[name], shape, member.name) for name, shape in texts.items()}


def _shaped(entry: Entry, member: Member, **place: Any) -> Array:
    if entry.dtype.kind == "T":  # as it is stored
        return np.ndarray((entry.nbytes,), np.uint8, **place)
    try:
        return np.ndarray(entry.shape, entry.dtype, **place)
    except (ValueError, OverflowError) as error:  # (0, 2**70), more axes than numpy has
        raise ArchiveError(f"{entry.name[:60]!r}: {error}", where=member.name) from None


def _mapped(memory: mmap.mmap, member: Member, entry: Entry) -> Array:
    start = member.start + entry.start
    if start % ALIGNMENT:
        raise ArchiveError(
            f"{entry.name!r} is not aligned to {ALIGNMENT} bytes: another program packed the file",
            where=member.name,
            hint="load it without mmap, and save it again",
        )
    array = _shaped(entry, member, buffer=memory, offset=start)
    return unpack(array, entry.shape, member.name) if entry.dtype.kind == "T" else array
