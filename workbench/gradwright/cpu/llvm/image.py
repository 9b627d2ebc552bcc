"""Images: object code as executable memory, placed here so that LLVM need not be loaded for it.

LLVM's library takes 46 MB and 60 ms, which a process whose kernels are all on disk does not spend.
Kernels are one function and its constants, and refer to each other by 64-bit addresses alone: what
is more than that, or of another system than Linux on x86-64, LLVM places itself.

Reference: the ELF-64 object file format, and the System V ABI of AMD64, 4.4 (relocations).
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .objects import ELF, SECTION, SYMBOL, SYMBOLS

X86_64, RELOCATIONS, NO_BITS = 62, 4, 8
WRITABLE, ALLOCATED = 1, 2
ABSOLUTE, RELATIVE = 1, 24
"""64 bits that become an address, or the distance of one from where they stand."""
_RELOCATION = struct.Struct("<QIIq")
_images: list[mmap.mmap] = []
"""What has been placed: machine code stays for good."""


class UnfitError(Exception):
    """An object file has more in it than images are made of."""


Find = Callable[[str], "int | None"]
"""What knows the addresses of names outside."""


def place(code: bytes, name: str, find: Find) -> int | None:
    """Return the address of a function in an object file, which is kept for good.

    None: this system, or the file, needs LLVM's own loader.
    """
    if not sys.platform.startswith("linux") or not code.startswith(ELF):
        return None
    try:
        return _Object(code, find).place(name)
    except (UnfitError, OSError, struct.error, IndexError):
        return None


@dataclass(frozen=True)
class _Section:
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class _Object:
    """An object file, and where its sections come to lie."""

    def __init__(self, code: bytes, find: Find) -> None:
        (machine,) = struct.unpack_from("<H", code, 18)
        (start,) = struct.unpack_from("<Q", code, 40)
        size, count = struct.unpack_from("<HH", code, 58)
        if machine != X86_64 or size != SECTION.size:
            raise UnfitError
        self._code, self._find = code, find
        self._sections = [
            _Section(*SECTION.unpack_from(code, start + size * n)) for n in range(count)
        ]
        self._at: dict[int, int] = {}
        """Offsets in the image, by number of section."""
        self.size = 0
        for number, section in enumerate(self._sections):
            if not section.flags & ALLOCATED or not section.size:
                continue
            if section.flags & WRITABLE or section.kind == NO_BITS:
                raise UnfitError
            align = max(section.align, 1)
            self._at[number] = -(-self.size // align) * align
            self.size = self._at[number] + section.size

    def place(self, name: str) -> int:
        """Write the image into memory of its own, and make that executable."""
        memory = mmap.mmap(-1, max(self.size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for number, at in self._at.items():
            section = self._sections[number]
            memory[at : at + section.size] = self._bytes(section)
        function = None
        for section in self._sections:
            if section.kind == RELOCATIONS and section.info in self._at:
                for entry in self._entries(section, _RELOCATION):
                    self._relocate(memory, base, section, *entry)
            if section.kind == SYMBOLS:
                for symbol in self._entries(section, SYMBOL):
                    if symbol[3] in self._at and self._name(section, symbol[0]) == name.encode():
                        function = self._address(section, symbol, base)
        if function is None:
            raise UnfitError
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        if protect(base, self.size, mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError(ctypes.get_errno(), "memory does not become executable")
        _images.append(memory)
        return function

    def _bytes(self, section: _Section) -> bytes:
        return self._code[section.offset : section.offset + section.size]

    def _entries(self, section: _Section, kind: struct.Struct) -> list[tuple[Any, ...]]:
        return list(kind.iter_unpack(self._bytes(section)))

    def _name(self, symbols: _Section, start: int) -> bytes:
        names = self._bytes(self._sections[symbols.link])
        return bytes(itertools.takewhile(lambda byte: byte, names[start:]))

    def _address(self, symbols: _Section, symbol: tuple[Any, ...], base: int) -> int:
        """Return the address of a symbol: in the image, or outside."""
        name, _, _, section, value, _ = symbol
        if section:
            if section not in self._at:
                raise UnfitError
            return int(base + self._at[section] + value)
        found = self._find(self._name(symbols, name).decode())
        if not found:
            raise UnfitError
        return found

    def _relocate(
        self, memory: mmap.mmap, base: int, section: _Section,
        offset: int, kind: int, number: int, addend: int,
    ) -> None:  # fmt: skip
        symbols = self._sections[section.link]
        symbol = SYMBOL.unpack_from(self._bytes(symbols), number * SYMBOL.size)
        at = self._at[section.info] + offset
        value = self._address(symbols, symbol, base) + addend
        if kind == RELATIVE:
            value -= base + at
        elif kind != ABSOLUTE:
            raise UnfitError
        struct.pack_into("<Q", memory, at, value & 0xFFFF_FFFF_FFFF_FFFF)
