"""What object files need from outside: the names that whoever loads one has to find.

LLVM's loader ends the process where a name is nowhere. The text does not tell which names there
will be: the code generator calls helpers of its own, such as ``__truncdfhf2`` for a half whose sign
comes from a double.

Reference: the ELF-64, Mach-O and PE/COFF object file formats.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

ELF, MACH_O, COFF = b"\x7fELF\x02\x01\x01", b"\xcf\xfa\xed\xfe", (b"\x64\x86", b"\x64\xaa")
"""How files begin, all of 64 bits and little-endian; those of COFF for x86-64 and for ARM."""
SECTION, SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
"""Of ELF: a section, and a symbol of a table of kind SYMBOLS."""
SYMBOLS = 2


def outside(code: bytes) -> list[str]:
    """Return the names that an object file uses and does not define, as C spells them.

    Raises:
        ValueError: it is no object file of a format that is known here, or it is damaged.
    """
    try:
        if code.startswith(ELF):
            return sorted(_of_elf(code))
        if code.startswith(MACH_O):
            return sorted(_of_mach_o(code))
        if code.startswith(COFF):
            return sorted(_of_coff(code))
    except (struct.error, IndexError) as error:
        raise ValueError(f"a damaged object file: {error}") from None
    raise ValueError("an object file of a format that is not known")


def _of_elf(code: bytes) -> Iterator[str]:
    (start,) = struct.unpack_from("<Q", code, 40)
    (count,) = struct.unpack_from("<H", code, 60)
    sections = [SECTION.unpack_from(code, start + SECTION.size * n) for n in range(count)]
    for section in sections:
        _, kind, _, _, offset, size, link, *_ = section
        if kind == SYMBOLS:
            for name, _, _, home, _, _ in SYMBOL.iter_unpack(code[offset : offset + size]):
                if name and not home:
                    yield _text(code, sections[link][4] + name)


def _of_mach_o(code: bytes) -> Iterator[str]:
    (count,) = struct.unpack_from("<I", code, 16)
    at, symtab, external = 32, 2, 1
    for _ in range(count):
        command, size = struct.unpack_from("<II", code, at)
        if command == symtab:
            symbols, n, names, _ = struct.unpack_from("<IIII", code, at + 8)
            for k in range(n):
                name, kind, _, _, _ = struct.unpack_from("<IBBHQ", code, symbols + 16 * k)
                if kind == external:  # and of no section
                    yield _text(code, names + name).removeprefix("_")
        at += size


def _of_coff(code: bytes) -> Iterator[str]:
    symbols, count = struct.unpack_from("<II", code, 8)
    k, external = 0, 2
    while k < count:
        name, value, section, _, kind, more = struct.unpack_from("<8sIhHBB", code, symbols + 18 * k)
        if kind == external and not section and not value:
            short, (zero, offset) = name.rstrip(b"\0").decode(), struct.unpack("<II", name)
            text = short if zero else _text(code, symbols + 18 * count + offset)
            if text != "_fltused":  # says that there are floats; nobody refers to it
                yield text
        k += 1 + more


def _text(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode()
