"""GGUF files by hand: bytes as the format's description has them, wrong ones too."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

STRING, ARRAY = 8, 9
CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def value(kind: int, held: Any) -> bytes:
    """Return a value without its type; an array is (type of its elements, elements)."""
    if kind == STRING:
        return text(held)
    if kind == ARRAY:
        inner, elements = held
        rows = b"".join(value(inner, e) for e in elements)
        return struct.pack("<IQ", inner, len(elements)) + rows
    return struct.pack(f"<{CODES[kind]}", held)


@dataclass
class Key:
    name: str
    kind: int
    held: Any

    def bytes(self) -> bytes:
        return text(self.name) + struct.pack("<I", self.kind) + value(self.kind, self.held)


@dataclass
class Tensor:
    """A tensor, its sizes in the order of the file; ``offset`` None is after the one before."""

    name: str
    sizes: Sequence[int]
    kind: int
    data: bytes = b""
    offset: int | None = None
    rank: int | None = None


@dataclass
class File:
    keys: Sequence[Key] = ()
    tensors: Sequence[Tensor] = ()
    version: int = 3
    alignment: int = 32
    counts: tuple[int | None, int | None] = (None, None)
    """Tensors and keys that it says it has, where that is not how many there are."""
    extra: bytes = field(default=b"")
    """What stands after the last tensor of the header."""

    def bytes(self) -> bytes:
        n_tensors = len(self.tensors) if self.counts[0] is None else self.counts[0]
        n_keys = len(self.keys) if self.counts[1] is None else self.counts[1]
        head = b"GGUF" + struct.pack("<IQQ", self.version, n_tensors, n_keys)
        head += b"".join(key.bytes() for key in self.keys)
        body = b""
        for t in self.tensors:
            offset = len(body) if t.offset is None else t.offset
            rank = len(t.sizes) if t.rank is None else t.rank
            head += text(t.name) + struct.pack(f"<I{len(t.sizes)}Q", rank, *t.sizes)
            head += struct.pack("<IQ", t.kind, offset)
            body += t.data + bytes(-len(t.data) % self.alignment)
        head += self.extra
        return head + bytes(-len(head) % self.alignment) + body


F4 = Tensor("w", (3,), 0, bytes(12))
