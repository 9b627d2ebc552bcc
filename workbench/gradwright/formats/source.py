"""What a format looks at: a file, a folder, or a part of one, read piece by piece.

Everything about a source is a claim of somebody else: reading past its end gives less, a name that
leads elsewhere is refused.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from ..errors import ArchiveError

LOCAL_HEADER = struct.Struct("<4s5H3L2H")
"""What a ZIP file has before each of its members."""


class Source(Protocol):
    """A file has bytes, and names if it is a ZIP; a folder has names, and no bytes of its own."""

    @property
    def name(self) -> str:
        """The path, as errors tell it."""

    @property
    def size(self) -> int:
        """How many bytes it has."""

    def read(self, offset: int, n: int) -> bytes:
        """Return ``n`` bytes, or as many as there are."""

    def names(self) -> list[str]:
        """Return the names of its parts: entries of a folder, members of a ZIP file."""

    def part(self, name: str) -> Source:
        """Return a part; raises ArchiveError where there is none of that name."""

    def beside(self, name: str) -> Source:
        """Return a file of the same folder; raises ArchiveError where there is none."""


class File:
    """A file on disk. It is opened for each reading, so nothing is left to be closed.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.txt")
    >>> _ = path.write_bytes(b"hello")
    >>> source = File(path)
    >>> source.size, source.read(3, 1 << 60), source.names()
    (5, b'lo', [])
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self.name = str(self._path)
        self.size = self._path.stat().st_size

    def read(self, offset: int, n: int) -> bytes:
        """Return ``n`` bytes, or as many as there are."""
        n = min(n, self.size - offset)  # what a file claims is no reason to ask for memory
        if offset < 0 or n <= 0:
            return b""
        with self._path.open("rb") as file:
            file.seek(offset)
            return file.read(n)

    def names(self) -> list[str]:
        """Return the members of a ZIP file, told by the directory at its end."""
        return [info.orig_filename for info in members(self)]

    def part(self, name: str) -> Source:
        """Return a member of a ZIP file that is stored as it is."""
        for info in members(self):
            if info.orig_filename == name and info.compress_type == zipfile.ZIP_STORED:
                header = exactly(self, info.header_offset, LOCAL_HEADER.size)
                *_, name_size, extra_size = LOCAL_HEADER.unpack(header)
                start = info.header_offset + LOCAL_HEADER.size + name_size + extra_size
                return Part(self, name, start, min(info.file_size, max(0, self.size - start)))
        raise ArchiveError(f"no member {name[:60]!r} that is stored as it is", where=self.name)

    def beside(self, name: str) -> Source:
        """Return a file of the same folder."""
        return File(sibling(self._path, name))


@dataclass(frozen=True)
class Part:
    """A range of a file, as a file of its own."""

    whole: Source
    member: str
    start: int
    size: int

    @property
    def name(self) -> str:
        """The path, and which part of it."""
        return f"{self.whole.name}, {self.member}"

    def read(self, offset: int, n: int) -> bytes:
        """Return ``n`` bytes, or as many as there are."""
        return self.whole.read(self.start + offset, min(n, self.size - offset))

    def names(self) -> list[str]:
        """Return no names."""
        return []

    def part(self, name: str) -> Source:
        """Raise: a part has none."""
        raise ArchiveError(f"no part {name[:60]!r}", where=self.name)

    def beside(self, name: str) -> Source:
        """Raise: nothing lies beside a part."""
        raise ArchiveError(f"no file {name[:60]!r} beside it", where=self.name)


class Folder:
    """A folder on disk; ``size`` is that of the files right in it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self.name = str(self._path)
        self.size = sum(entry.stat().st_size for entry in self._path.iterdir() if entry.is_file())

    def read(self, offset: int, n: int) -> bytes:
        """Return nothing: a folder has no bytes of its own."""
        return b""

    def names(self) -> list[str]:
        """Return the names of what is right in it, in order."""
        return sorted(entry.name for entry in self._path.iterdir())

    def part(self, name: str) -> Source:
        """Return a file or folder right in it."""
        if name not in self.names():
            raise ArchiveError(f"no entry {name[:60]!r}", where=self.name)
        return at(self._path / name)

    def beside(self, name: str) -> Source:
        """Raise: what a folder needs is in it."""
        raise ArchiveError(f"no file {name[:60]!r} beside it", where=self.name)


def sibling(path: Path, name: str) -> Path:
    """Return the file of a name in the folder of a file; a link leads to where that one lies.

    Raises ArchiveError for a name that leads elsewhere, and where no file is: opening what a name
    stands for otherwise, such as a FIFO, might never return.
    """
    if not _NAME.fullmatch(name) or len(name.encode("utf-8", "replace")) > MAX_NAME:
        raise ArchiveError(f"{name[:60]!r} is no name of a file", where=str(path))
    found = path.resolve().parent / name
    if not found.is_file():
        what = "this is no file" if found.exists() else "a file that belongs to it is missing"
        raise ArchiveError(what, where=f"{path}, {name}", hint=TOGETHER)
    return found


_NAME = re.compile(r"(?!\.)[^/\\:\x00-\x1f]+")
MAX_NAME = 255
"""Bytes of a name at most, as file systems have it."""
TOGETHER = "copy all its files together, or save it again"


def as_path(path: str | os.PathLike[str], need: str = "text, or a pathlib.Path") -> Path:
    """Return a path; raises ArchiveError for what is none, be it for any file system.

    >>> as_path("a/b.onnx").name
    'b.onnx'
    """
    try:
        if "\0" not in os.fspath(path) and os.fsencode(path):
            return Path(path)
    except (TypeError, UnicodeEncodeError):
        pass
    raise ArchiveError(f"{' '.join(repr(path).split())[:60]} is no path", need=need)


def at(path: str | os.PathLike[str]) -> Source:
    """Return what is at a path; raises OSError where nothing is."""
    path = as_path(path)
    return Folder(path) if path.is_dir() else File(path)


def exactly(source: Source, offset: int, n: int) -> bytes:
    """Return ``n`` bytes, no less; raises ArchiveError where the source is cut off before."""
    data = source.read(offset, n)
    if len(data) != n:
        raise ArchiveError(
            f"the file is cut off, or damaged: {n:,} bytes should begin at {offset:,}",
            facts=[f"it has {source.size:,} bytes"],
            hint="copy or save the file again",
        )
    return data


def members(source: Source) -> list[zipfile.ZipInfo]:
    """Return the directory of a ZIP file; that of any other file is empty."""
    if source.read(0, 4) not in (b"PK\3\4", b"PK\5\6"):
        return []
    try:
        with zipfile.ZipFile(stream(source)) as archive:
            return archive.infolist()
    except Exception:  # zipfile reports damage in a dozen ways; who reads the file says which
        return []


@contextlib.contextmanager
def naming(name: str) -> Iterator[None]:
    """Put the name of a file before the place that an error of reading it tells, once."""
    try:
        yield
    except ArchiveError as error:
        if not error.where.startswith(name):
            error.where = f"{name}, {error.where}" if error.where else name
        raise


def stream(source: Source) -> BinaryIO:
    """Return a source as Python's libraries take files."""
    return cast(BinaryIO, _Stream(source))


class _Stream(io.RawIOBase):
    def __init__(self, source: Source) -> None:
        self._source, self._at = source, 0

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def seekable(self) -> bool:
        """Say that it can be read anywhere."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go on elsewhere."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        if start + offset < 0:
            raise OSError("before the start of the file")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        """Return where it goes on."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, as far as there are bytes."""
        data = self._source.read(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
