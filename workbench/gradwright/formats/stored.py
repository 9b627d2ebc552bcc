"""Values of a stored tensor, read from where they lie: in pieces, or a slice, never the whole file.

A tensor of a hundred gigabytes is looked into like a small one: what is read is bounded by what is
asked for, and a file that is cut off meanwhile is an error, no crash.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..errors import ArchiveError, MemoryLimitError
from ..files.plain import opened
from ..ops.quantised.blocks import FORMATS
from ..ops.quantised.blocks.block import Format as Blocks
from ..spec import dtype as as_dtype
from ..spec import dtype_name
from .registry import Range, TensorRange
from .source import TOGETHER

Array = np.ndarray[Any, Any]
Part = int | slice
Opener = Callable[[Path], BinaryIO]

PIECE = 1 << 22
"""Bytes of a piece: large enough for a disk, small enough to be dropped unnoticed."""
HULL = 1 << 22
"""Bytes that are read around what a slice wants rather than to read it element by element."""
WHOLE = 1 << 26
"""Bytes of a tensor that can only be read as a whole: text, varints and sparse ones."""
BITS = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}
"""Dtypes whose elements share bytes where they are ``packed``."""


def plain(path: Path) -> BinaryIO:
    """Open a file; a link to one will do."""
    return opened(path, follow=True)


class Files(contextlib.AbstractContextManager["Files"]):
    """The file or folder at a path, and what its tensors name beside or below it, opened once.

    ``opener`` opens a file, and raises where it should not be.
    """

    def __init__(self, path: Path, opener: Opener = plain) -> None:
        self._path, self._opener = path, opener
        self._open: dict[str, BinaryIO] = {}

    def __exit__(self, *error: object) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def read(self, r: Range) -> bytes:
        """Return the bytes of a range, all of them; raises ArchiveError where there are less."""
        if r.file not in self._open:
            self._open[r.file] = self._opener(self._find(r.file))
        data = _at(self._open[r.file], r.start, r.nbytes)
        if len(data) != r.nbytes:
            raise ArchiveError(
                f"the file is cut off: {r.nbytes:,} bytes should begin at {r.start:,}",
                where=r.file or str(self._path),
                hint="copy or save the file again",
            )
        return data

    def map(self, name: str) -> mmap.mmap:
        """Return a file as it lies in memory, read-only; what is mapped outlives the file."""
        with self._opener(self._find(name)) as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _find(self, name: str) -> Path:
        if not name:
            return self._path
        if self._path.is_dir():
            return self._path / name
        folders = (self._path.parent, self._path.resolve().parent)  # a link's own, and its aim's
        for path in (folder / name for folder in folders):
            if path.is_file():
                return path
        raise ArchiveError(
            "a file that belongs to it is missing", where=f"{self._path}, {name}", hint=TOGETHER
        )


def _at(file: BinaryIO, start: int, nbytes: int) -> bytes:
    """Return bytes of a file, or as many as there are, and no more than these from the disk."""
    if hasattr(os, "pread"):
        parts = []
        while nbytes and (data := os.pread(file.fileno(), min(nbytes, 1 << 30), start)):
            parts.append(data)
            start, nbytes = start + len(data), nbytes - len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)
    file.seek(start)
    return file.read(nbytes)


class Stored:
    """A tensor in files.

    >>> import gradwright as gw, tempfile, pathlib
    >>> from gradwright.formats.archive.format import tensors
    >>> from gradwright.formats.source import at
    >>> g = gw.Graph()
    >>> w = g.variable("w", init=[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    >>> path = pathlib.Path(tempfile.mkdtemp(), "w.gw")
    >>> g.save(path)
    >>> with Files(path) as files:
    ...     held = Stored(tensors(at(path))["w"], files)
    ...     held.take((slice(None), 1)).tolist(), [piece.tolist() for piece in held.pieces()]
    ([1.0, 4.0], [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]])
    """

    def __init__(self, tensor: TensorRange, files: Files) -> None:
        self._tensor, self._files = tensor, files
        self.dtype, self.shape = tensor.dtype, tensor.shape
        self.size = math.prod(tensor.shape)
        self._bits = 8 * self.dtype.itemsize
        if tensor.form == "packed":
            self._bits = BITS[dtype_name(self.dtype)]
        self._blocks = FORMATS.get(tensor.form.removeprefix("ggml:"))
        is_plain = tensor.form in ("", "packed") or self._blocks is not None
        self._is_plain = is_plain and len(tensor.ranges) <= 1
        self._all: Array | None = None
        self.piece = -(-max(1, PIECE // max(1, self.dtype.itemsize)) // 8) * 8
        """Elements of a piece; packed ones begin with a byte."""

    @property
    def stored_bytes(self) -> int:
        """Bytes that it takes in the files."""
        return sum(r.nbytes for r in self._tensor.ranges)

    def pieces(self, every: int = 1) -> Iterator[Array]:
        """Yield all elements in C order, in flat pieces, or of ``every`` pieces one."""
        for start in range(0, self.size, self.piece * every):
            yield self.flat(start, min(self.size, start + self.piece))

    def take(self, parts: Sequence[Part]) -> Array:
        """Return a slice, with a part for each axis; numbers drop theirs, as in numpy.

        Raises IndexError where a number is outside of its axis.
        """
        taken = [range(n)[p : p + 1 or None] if isinstance(p, int) else range(n)[p]
                 for p, n in zip(parts, self.shape, strict=True)]  # fmt: skip
        for part, indices, n in zip(parts, taken, self.shape, strict=True):
            if isinstance(part, int) and not indices:
                raise IndexError(f"{part} is outside of an axis of {n}")
        out = np.empty([len(r) for r in taken], self.dtype)
        if out.size:
            self._fill(out, taken, 0, 0)
        return out[tuple(0 if isinstance(p, int) else slice(None) for p in parts)]

    def _fill(self, out: Array, taken: list[range], axis: int, base: int) -> None:
        """Fill ``out``, what is taken of the axes from ``axis`` on, which begin at ``base``."""
        strides = [math.prod(self.shape[k + 1 :]) for k in range(axis, len(self.shape))]
        own = taken[axis:]
        ends = [sorted((r[0], r[-1])) for r in own]
        low = base + sum(a * s for (a, _), s in zip(ends, strides, strict=True))
        high = base + sum(b * s for (_, b), s in zip(ends, strides, strict=True)) + 1
        if high - low == out.size and all(r.step > 0 for r in own):
            flat, at = out.reshape(-1), low
            for start in range(0, out.size, self.piece):
                stop = min(out.size, start + self.piece)
                flat[start:stop] = self.flat(at + start, at + stop)
        elif (high - low) * self.dtype.itemsize <= HULL:
            index = np.asarray(base - low)
            for r, stride in zip(own, strides, strict=True):
                index = index[..., None] + np.asarray(r) * stride
            out[...] = self.flat(low, high)[index]
        elif len(own) > 1:
            for row, i in zip(out, own[0], strict=True):
                self._fill(row, taken, axis + 1, base + i * strides[0])
        else:
            step = max(1, HULL // (abs(own[0].step) * max(1, self.dtype.itemsize)))
            for start in range(0, out.size, step):
                part = own[0][start : start + step]
                near, far = sorted((base + part[0], base + part[-1]))
                held = self.flat(near, far + 1)[:: abs(part.step)]
                out[start : start + step] = held if part.step > 0 else held[::-1]

    def flat(self, start: int, stop: int) -> Array:
        """Return the elements from ``start`` to ``stop`` in C order."""
        if not self._is_plain:
            if self._all is None:
                self._all = self._whole()
            return self._all[start:stop]
        (r,) = self._tensor.ranges or (Range(0, 0),)
        if self._blocks is not None:
            return self._unpacked(r, self._blocks, start, stop)
        first = start * self._bits // 8
        last = -(-stop * self._bits // 8)
        data = np.frombuffer(self._files.read(Range(r.start + first, last - first, r.file)), "u1")
        if self._tensor.form == "packed":
            skipped = start - first * 8 // self._bits
            return unpacked(data, self.dtype)[skipped : skipped + stop - start]
        return as_elements(data, self.dtype)

    def _unpacked(self, r: Range, blocks: Blocks, start: int, stop: int) -> Array:
        """Return elements that lie in blocks of a ggml format, of which whole ones are read."""
        first, last = start // blocks.size, -(-stop // blocks.size)
        place = Range(r.start + first * blocks.n_bytes, (last - first) * blocks.n_bytes, r.file)
        data = np.frombuffer(self._files.read(place), "u1").reshape(-1, blocks.n_bytes)
        with np.errstate(all="ignore"):  # scales are what the file says, NaN and infinite ones too
            flat = blocks.unpack(data).reshape(-1)
        return flat[start - first * blocks.size : stop - first * blocks.size]

    # -- what can only be read as a whole --------------------------------------------------------

    def _whole(self) -> Array:
        form, ranges = self._tensor.form, self._tensor.ranges
        if form == "six bits":
            raise of_six_bits(self.dtype)
        if max(self.stored_bytes, self.size * max(1, self.dtype.itemsize)) > WHOLE:
            raise MemoryLimitError(
                f"a tensor that is stored as {form or 'many parts'} is read as a whole",
                facts=[f"it has {self.size:,} elements in {self.stored_bytes:,} bytes"],
                need=f"{WHOLE:,} bytes at most",
            )
        if form == "text":
            texts = [self._files.read(r).decode("utf-8", "replace") for r in ranges]
            return np.array(texts, self.dtype)
        if form == "sparse":
            return self._dense()
        data = np.frombuffer(b"".join(map(self._files.read, ranges)), "u1")
        if form == "texts":
            from .archive.texts import unpack

            return unpack(data, (self.size,), "its text")
        if form == "varints":
            return from_varints(data, self.dtype, self.size)
        found = unpacked(data, self.dtype) if form == "packed" else as_elements(data, self.dtype)
        return found[: self.size]

    def _dense(self) -> Array:
        """Return a tensor that is stored by its elements that are not zero, with their places."""
        values, *places = self._tensor.ranges
        count, rank = values.nbytes // max(1, self.dtype.itemsize), len(self.shape)
        if len(places) != 1 or places[0].nbytes not in (8 * count, 8 * count * rank):
            raise ArchiveError("a sparse tensor is stored in a way that is not read here")
        found = np.zeros(self.size, self.dtype)
        index = np.frombuffer(self._files.read(places[0]), "<i8")
        held = as_elements(np.frombuffer(self._files.read(values), "u1"), self.dtype)
        try:
            if places[0].nbytes != 8 * count:
                index = np.ravel_multi_index(tuple(index.reshape(count, rank).T), self.shape)
            found[index] = held
        except (IndexError, ValueError) as error:
            raise ArchiveError(f"a sparse tensor does not fit: {error}") from None
        return found


def of_six_bits(dtype: np.dtype[Any], name: str = "it") -> ArchiveError:
    """Return the error of a tensor whose elements cannot be told apart.

    Writers of such files put them in orders of their own, of which none is in the file.
    """
    return ArchiveError(
        f"{name[:60]} is {dtype_name(dtype)}, and how elements of 6 bits share bytes is not said",
        hint="write it as float8_e4m3fn, which holds all of its numbers",
    )


def as_elements(data: Array, dtype: np.dtype[Any]) -> Array:
    """Return bytes as elements; any byte but 0 is True."""
    return data != 0 if dtype.kind == "b" else data.view(dtype)


def unpacked(data: Array, dtype: np.dtype[Any]) -> Array:
    """Return elements of 2 or 4 bits, the first in the lowest bits of a byte.

    >>> from gradwright.spec import dtype
    >>> unpacked(np.array([0x21, 0x0F], "u1"), dtype("int4")).tolist()
    [1, 2, -1, 0]
    """
    bits = BITS[dtype_name(dtype)]
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (data[:, None] >> shifts & ((1 << bits) - 1)).reshape(-1)
    table = np.arange(1 << bits, dtype=np.uint8).view(dtype)
    if dtype_name(dtype).startswith("int"):  # of two's complement, the upper half is negative
        signed = np.arange(1 << bits)
        table = np.where(signed >> (bits - 1), signed - (1 << bits), signed).astype(dtype)
    return np.asarray(table[codes])


def from_varints(data: Array, dtype: np.dtype[Any], size: int) -> Array:
    """Return elements that are stored as protobuf's varints, or their bits as such.

    >>> from_varints(np.array([1, 0x80, 1], "u1"), np.dtype("int32"), 2).tolist()
    [1, 128]
    """
    ends = np.flatnonzero(data < 0x80)
    starts = np.concatenate([[0], ends[:-1] + 1]) if ends.size else ends
    if (ends.size and ends[-1] != data.size - 1) or (not ends.size and data.size):
        raise ArchiveError("its numbers are cut off")
    place = np.arange(data.size) - np.repeat(starts, ends - starts + 1)
    if place.size and place.max() > 9:
        raise ArchiveError("a number of it has more than ten bytes")
    parts = (data.astype(np.uint64) & 0x7F) << (7 * place).astype(np.uint64)
    numbers = np.add.reduceat(parts, starts) if ends.size else parts
    if dtype_name(dtype) in BITS:
        found = unpacked(numbers.astype("u1"), dtype)[:size]
    elif dtype.kind in "iu":
        found = numbers.astype(dtype)
    elif dtype.kind == "b":
        found = numbers != 0
    else:  # floats of 8 and 16 bits stand as their bits
        found = numbers.astype(f"u{dtype.itemsize}").view(as_dtype(dtype))
    if found.size != size:
        raise ArchiveError(f"it has {found.size:,} elements", need=f"{size:,}")
    return found


def thinned(shape: Sequence[int], most: int, read: int) -> tuple[int, ...]:
    """Return a step per axis so that about ``most`` elements are taken, and ``read`` are passed.

    What lies between elements of the last axis is read with them, so the first axes are thinned
    more where reading is what costs.

    >>> thinned((100, 100), 2500, 10_000), thinned((100, 100), 2500, 1000)
    ((2, 2), (10, 1))
    """
    steps = [1] * len(shape)

    def left(axes: Sequence[int]) -> int:
        return math.prod(-(-shape[k] // steps[k]) for k in axes)

    outer = range(len(shape) - 1)
    while outer and left(outer) * shape[-1] > read and left(outer) > 1:
        longest = max(outer, key=lambda k: shape[k] / steps[k])
        steps[longest] = min(shape[longest], math.ceil(steps[longest] * 1.1 + 0.5))
    while left(range(len(shape))) > most:
        longest = max(range(len(shape)), key=lambda k: shape[k] / steps[k])
        steps[longest] += 1
    return tuple(steps)
