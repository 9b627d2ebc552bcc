"""The ZIP container: members stored as they are, aligned, written as a whole or not at all.

A member may also be a safetensors file beside the archive, which the manifest refers to.

Nothing is compressed. So members can be mapped, a hostile file cannot unfold into more bytes than
it has, and the same graph gives the same bytes on every machine. Checksums are ZIP's own CRC-32:
they find damage at 1.6 GB/s (SHA-256: 0.36 GB/s), and against forgery no checksum helps that the
file itself states.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import mmap
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ...errors import ArchiveError
from ...files.plain import opened
from ..checked import MAX_JSON, check_version, expect, expect_fields, parse_json
from ..source import LOCAL_HEADER, TOGETHER, sibling

ALIGNMENT = 64
"""Members and tensors start at multiples of this: a cache line, the widest CPU vector."""
FORMAT_NAME = "gradwright graph archive"
"""What the manifest says that the file is."""
ONE_FILE, FORMAT = 2, 3
"""Versions of the archive format: 1 does not tell what is frozen, 3 is one with members in files
beside it, and what is read at most; see :mod:`gradwright.formats.archive`."""
MANIFEST = "manifest.json"

_ZIP64_FIELD = 20  # bytes of the extra field that zipfile adds for force_zip64
_ALIGNMENT_FIELD = 0xD935  # extra field whose only use is to be skipped
_UTF8_NAME = 0x800
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # the earliest ZIP knows, so that equal content is equal bytes
_CRC = re.compile(r"[0-9a-f]{8}", re.ASCII)
_SAFE_NAME = re.compile(r"(?!\.+(/|$))[\w.-]+(/(?!\.+(/|$))[\w.-]+)*", re.ASCII)


class Writer:
    """Writes members and, last, the manifest that states their sizes and checksums."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self._members: list[str] = []
        self._version = ONE_FILE

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        with self._zip:
            if kind is None:
                self._write_manifest()

    def add(self, name: str, size: int, parts: Iterable[Any]) -> None:
        """Write a member of ``size`` bytes from buffers."""
        info = zipfile.ZipInfo(name, _FIRST_DAY)
        info.create_system, info.external_attr = 3, 0o644 << 16  # Unix everywhere: equal bytes
        info.file_size = size
        start = self._file.tell() + LOCAL_HEADER.size + len(name) + _ZIP64_FIELD
        if padding := -start % ALIGNMENT:
            padding += ALIGNMENT if padding < 6 else 0
            info.extra = struct.pack("<HHH", _ALIGNMENT_FIELD, padding - 4, ALIGNMENT)
            info.extra += bytes(padding - 6)
        with self._zip.open(info, "w", force_zip64=True) as member:
            for part in parts:
                member.write(part)
        self._members.append(f'"{name}": {{"size": {size}, "crc32": "{info.CRC:08x}"}}')

    def refer(self, name: str, size: int, crc32: int, header: int, file: str) -> None:
        """Note a member that is a file beside the archive; the checksums are of data and header."""
        row = {"size": size, "crc32": f"{crc32:08x}", "header": f"{header:08x}", "file": file}
        self._members.append(f"{json.dumps(name)}: {json.dumps(row)}")
        self._version = FORMAT

    def _write_manifest(self) -> None:
        head = f'{{"format": "{FORMAT_NAME}", "version": {self._version},'
        rows = ",\n  ".join(self._members)
        data = f'{head}\n "members": {{\n  {rows}}}}}\n'.encode()
        self.add(MANIFEST, len(data), [data])


@dataclass(frozen=True)
class Member:
    """Where a member's bytes lie in the file, and what they must add up to."""

    name: str
    start: int
    size: int
    crc32: int
    file: str = ""
    """The file beside the archive that it is; empty where it lies in the archive."""
    head: int = 0
    """Bytes at its start that ``crc32`` leaves out: the header of a file, verified when opened."""


class NoArchiveError(ArchiveError):
    """A file is no graph archive, or one that is cut off: it may be of another format."""


class Reader:
    """Opens an archive, and verifies names, layout, sizes and checksums.

    ``file`` is a path, or a file that is open for reading; either is closed at the end. Members
    that are files of their own are opened by ``beside``; those of a path lie in its folder.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | BinaryIO,
        beside: Callable[[str], BinaryIO] | None = None,
    ) -> None:
        self._open = beside
        if isinstance(file, str | os.PathLike):
            path = Path(file)
            self._file: BinaryIO = opened(path, follow=True)
            self._open = lambda name: opened(sibling(path, name), follow=True)
        else:
            self._file = file
        try:
            found = self._directory()
            self.members = self._manifest(found)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def _directory(self) -> dict[str, tuple[int, zipfile.ZipInfo]]:
        """Return where each member starts; members follow each other without gap or overlap."""
        try:
            with zipfile.ZipFile(self._file) as archive:
                infos, end = archive.infolist(), archive.start_dir
        except Exception as error:  # zipfile reports damage in a dozen ways
            raise NoArchiveError(
                f"not a graph archive, or one that is cut off: {error}",
                hint="copy or save the file again",
            ) from None
        seen: set[str] = set()
        for info in infos:
            _check_member(info, seen)
        found: dict[str, tuple[int, zipfile.ZipInfo]] = {}
        position = 0
        for info in sorted(infos, key=lambda i: i.header_offset):
            where = info.filename
            if info.header_offset != position:
                raise ArchiveError("the member overlaps another one, or leaves a gap", where=where)
            self._file.seek(position)
            header = self._file.read(LOCAL_HEADER.size)
            if len(header) < LOCAL_HEADER.size or header[:4] != b"PK\3\4":
                raise ArchiveError("the member has no header", where=where)
            *_, name_size, extra_size = LOCAL_HEADER.unpack(header)
            if self._file.read(name_size) != info.filename.encode():
                raise ArchiveError("the member has another name in its header", where=where)
            start = position + LOCAL_HEADER.size + name_size + extra_size
            position = start + info.file_size
            if position > end:
                raise ArchiveError("the member is cut off", where=where)
            found[info.filename] = start, info
        return found

    def _manifest(self, found: Mapping[str, tuple[int, zipfile.ZipInfo]]) -> dict[str, Member]:
        if MANIFEST not in found:
            raise NoArchiveError(
                "not a graph archive", facts=[f"it holds {', '.join(sorted(found)[:5])}"],
                need=f"a member {MANIFEST}",
            )  # fmt: skip
        start, info = found[MANIFEST]
        if info.file_size > MAX_JSON:
            raise ArchiveError(f"{info.file_size:,} bytes of JSON", where=MANIFEST)
        self._file.seek(start)
        data = self._file.read(info.file_size)
        self.stamp = zlib.crc32(data)
        """Checksum of the manifest, and so of all that it states."""
        if self.stamp != info.CRC:
            raise ArchiveError("the bytes are damaged: wrong CRC-32", where=MANIFEST)
        manifest = parse_json(data, MANIFEST)
        if manifest.get("format") != FORMAT_NAME:
            raise NoArchiveError("not a graph archive", where=MANIFEST)
        version = check_version(manifest.get("version"), FORMAT, MANIFEST)
        expect_fields(manifest, ("format", "version", "members"), (), "the manifest", MANIFEST)
        stated = expect(manifest["members"], dict, "members", MANIFEST)
        if extra := sorted(found.keys() - stated.keys() - {MANIFEST}):
            raise ArchiveError("the manifest does not know this member", where=extra[0])
        members: dict[str, Member] = {}
        for name, row in stated.items():
            if isinstance(row, dict) and "file" in row and version > ONE_FILE:
                members[name] = self._beside(name, row, found)
                continue
            expect_fields(row, ("size", "crc32"), (), f"the row of {name!r}", MANIFEST)
            if name not in found or name == MANIFEST:
                raise ArchiveError(f"the member {name[:60]!r} is missing", where=MANIFEST)
            start, info = found[name]
            if expect(row["size"], int, "size", MANIFEST) != info.file_size:
                raise ArchiveError(
                    f"the member has {info.file_size:,} bytes, the manifest says {row['size']:,}",
                    where=name,
                )
            if expect(row["crc32"], str, "crc32", MANIFEST) != f"{info.CRC:08x}":
                raise ArchiveError("the manifest and the directory state two CRC-32", where=name)
            members[name] = Member(name, start, info.file_size, info.CRC)
        return members

    def _beside(self, name: str, row: dict[str, Any], found: Mapping[str, Any]) -> Member:
        """Return a member that is a file of its own, whose header is verified."""
        fields = ("size", "crc32", "header", "file")
        expect_fields(row, fields, (), f"the row of {name!r}", MANIFEST)
        size = expect(row["size"], int, "size", MANIFEST)
        crc32, header, file = (expect(row[key], str, key, MANIFEST) for key in fields[1:])
        if not _SAFE_NAME.fullmatch(name) or name in found or not file:
            raise ArchiveError(f"the member {name[:60]!r} is no file beside it", where=MANIFEST)
        if not all(map(_CRC.fullmatch, (crc32, header))):
            raise ArchiveError(f"the checksums of {file[:80]!r} are none", where=MANIFEST)
        member = Member(name, 0, size, int(crc32, 16), file)
        with self.opened(member) as stream:
            if (there := stream.seek(0, os.SEEK_END)) != size:
                raise ArchiveError(
                    f"the file has {there:,} bytes, the archive says {size:,}: it is cut off, or "
                    "of another archive",
                    where=file,
                    hint=TOGETHER,
                )
            stream.seek(0)
            head = stream.read(8)
            n = int.from_bytes(head, "little")
            if n > min(size - 8, MAX_JSON) or zlib.crc32(head + stream.read(n)) != int(header, 16):
                raise ArchiveError(
                    "the file is of another archive, another part of this one, or damaged",
                    where=file,
                    hint=TOGETHER,
                )
        return dataclasses.replace(member, head=8 + n)

    @property
    def nbytes(self) -> int:
        """Size of the whole file, and of those beside it."""
        beside = sum(m.size for m in self.members.values() if m.file)
        return self._file.seek(0, os.SEEK_END) + beside

    def member(self, name: str) -> Member:
        """Return the member called ``name``."""
        if name not in self.members:
            raise ArchiveError("the member is missing", where=name)
        return self.members[name]

    def read(self, member: Member, start: int, size: int) -> bytes:
        """Return some bytes of a member, unverified."""
        if start + size > member.size:
            raise ArchiveError("the member is too short", where=member.name)
        with self.opened(member) as file:
            file.seek(member.start + start)
            return file.read(size)

    def json(self, name: str) -> dict[str, Any]:
        """Return a JSON member, verified."""
        member = self.member(name)
        if member.size > MAX_JSON:
            raise ArchiveError(f"{member.size:,} bytes of JSON", where=name)
        data = self.read(member, 0, member.size)
        if zlib.crc32(data) != member.crc32:
            raise ArchiveError("the bytes are damaged: wrong CRC-32", where=name)
        return parse_json(data, name)

    @contextlib.contextmanager
    def stream(self, member: Member) -> Iterator[Stream]:
        """Give what follows its head to be read to the end, where the checksum is verified."""
        with self.opened(member) as file:
            file.seek(member.start + member.head)
            stream = Stream(file)
            yield stream
        if stream.crc32 != member.crc32:
            raise ArchiveError(
                "the bytes are damaged: wrong CRC-32", where=member.file or member.name
            )

    @contextlib.contextmanager
    def opened(self, member: Member) -> Iterator[BinaryIO]:
        """Give the file that a member lies in; raises ArchiveError where it is missing."""
        if not member.file:
            yield self._file
            return
        if self._open is None:
            raise ArchiveError("the archive lies in several files", where=member.file)
        with self._open(member.file) as file:
            yield file

    def map(self, member: Member) -> mmap.mmap:
        """Map the file of a member for reading; the mapping lives as long as arrays that use it."""
        with self.opened(member) as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class Stream:
    """Reads on, and sums up what was read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.crc32 = 0

    def skip(self, size: int) -> None:
        """Read bytes that only the checksum needs."""
        self.crc32 = zlib.crc32(self._file.read(size), self.crc32)

    def into(self, buffer: Any) -> None:
        """Fill a buffer; the reader has checked that the file is long enough."""
        self._file.readinto(buffer)  # type: ignore[attr-defined]
        self.crc32 = zlib.crc32(buffer, self.crc32)


def _check_member(info: zipfile.ZipInfo, seen: set[str]) -> None:
    """Refuse what no archive of ours holds: it is damage, an attack, or another kind of file."""
    name = info.orig_filename
    where = repr(name[:80])
    if not _SAFE_NAME.fullmatch(name):
        raise ArchiveError("unsafe member name", where=where, need="a relative path without '..'")
    if name in seen:
        raise ArchiveError("the member occurs twice", where=where)
    seen.add(name)
    if info.flag_bits & 1:
        raise ArchiveError("the member is encrypted", where=where)
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        raise ArchiveError(
            "the member is compressed", where=where, need="stored members", hint="zip -0 -D -X"
        )
    if info.flag_bits & ~_UTF8_NAME:
        raise ArchiveError(f"the member has the ZIP flags {info.flag_bits:#x}", where=where)
