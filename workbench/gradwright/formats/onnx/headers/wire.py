"""Protobuf as it lies in a file: the fields of a message, told without reading what they hold.

So a model of many gigabytes is described from a few kilobytes of it, and without its library.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....errors import ArchiveError
from ...source import Source

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
PAGE = 1024
"""Bytes that are read at once: names and sizes lie close together, weights far apart."""
MAX_TEXT = 1 << 16
"""Bytes of a name at most."""
_BROKEN = "this is no ONNX model, or a damaged one"


class Pages:
    """A source, read page by page."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._start, self._page = 0, b""

    def take(self, start: int, n: int) -> bytes:
        """Return some bytes, or as many as there are."""
        at = start - self._start
        if not 0 <= at <= at + n <= len(self._page):
            self._start, self._page, at = start, self._source.read(start, max(n, PAGE)), 0
        return self._page[at : at + n]

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """Return a number of up to ten bytes of seven bits, and where it ends."""
        value = 0
        for i, byte in enumerate(self.take(at, min(10, end - at))):
            value |= (byte & 0x7F) << 7 * i
            if byte < 0x80:
                return value, at + i + 1
        raise ArchiveError(f"{_BROKEN}: no number where one should begin, at byte {at:,}")


@dataclass(frozen=True)
class Field:
    """A field of a message: its number and kind, and its value or where its bytes lie."""

    pages: Pages
    number: int
    kind: int
    start: int
    size: int
    value: int = 0
    """Of a varint."""

    def fields(self) -> Iterator[Field]:
        """Yield the fields of the message that it is."""
        return fields(self.pages, self.start, self._size(BYTES))

    def text(self) -> str:
        """Return the text that it is."""
        if self._size(BYTES) > MAX_TEXT:
            raise ArchiveError(f"a name of {self.size:,} bytes")
        try:
            return self.pages.take(self.start, self.size).decode()
        except UnicodeDecodeError:
            raise ArchiveError("a name in the model is no UTF-8 text") from None

    def ints(self) -> Iterator[int]:
        """Yield the signed integers that it is: one, or several that are packed."""
        at, end = self.start, self.start + self.size
        while at < end:
            value, at = self.pages.varint(at, end)
            yield value - (1 << 64) if value >> 63 else value

    def _size(self, kind: int) -> int:
        if self.kind != kind:
            raise ArchiveError(f"field {self.number} is of the wrong kind {self.kind}")
        return self.size


def fields(pages: Pages, start: int, size: int) -> Iterator[Field]:
    """Yield the fields of a message; raises ArchiveError where its bytes are none."""
    at, end = start, start + size
    while at < end:
        tag, at = pages.varint(at, end)
        number, kind = tag >> 3, tag & 7
        value = 0
        if kind == BYTES:
            n, at = pages.varint(at, end)
        elif kind == VARINT:
            value, stop = pages.varint(at, end)
            n = stop - at
        elif kind in (FIXED32, FIXED64):
            n = 4 if kind == FIXED32 else 8
        else:
            raise ArchiveError(f"{_BROKEN}: no field where one should begin, at byte {at:,}")
        if not number or n > end - at:
            raise ArchiveError(
                f"{_BROKEN}: a field of {n:,} bytes at {at:,}", need=f"{end - at:,} bytes at most"
            )
        yield Field(pages, number, kind, at, n, value)
        at += n
