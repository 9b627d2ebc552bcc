"""Functions that LLVM's code generator calls where a processor has no instruction for halves.

libgcc and compiler-rt have them, and processes usually neither. Here each is a text like any other,
compiled when object code asks for it.
"""

from __future__ import annotations

import functools

from .text import Code, Num

SINGLE_BITS, HALF_BITS = 23, 10
"""Digits after the point."""


def _narrow(x: Num) -> Num:
    """Return the bits of a double as a half, rounded once, ties to even.

    Adding 2²⁸, whose last place is that of a subnormal half, rounds a small one; of others 42
    digits go, and their exponent is 1008 too large.
    """
    bits = x.to("bitcast", "i64")
    size = bits & 0x7FFF_FFFF_FFFF_FFFF
    odd = size.op("lshr", 42) & 1
    normal = (size + odd + (2**41 - 1)).op("lshr", 42) - (1008 << HALF_BITS)
    tiny = (x.call("fabs") + 2.0**28).to("bitcast", "i64") - 0x41B0_0000_0000_0000
    found = (size < 0x3F10_0000_0000_0000).where(tiny, normal)  # 2⁻¹⁴
    found = (size > 0x40EF_FDFF_FFFF_FFFF).where(found.of(0x7C00), found)  # 65520
    found = x.is_nan().where(found.of(0x7E00), found)
    return (found | (bits.op("lshr", 48) & 0x8000)).to("trunc", "i16")


def _widen(half: Num) -> Num:
    """Return the float that the bits of a half are; a subnormal one is a small integer · 2⁻²⁴."""
    bits = half.to("zext", "i32")
    size = bits & 0x7FFF
    tiny = (size.to("uitofp", "float") * 2.0**-24).to("bitcast", "i32")
    shifted = size << (SINGLE_BITS - HALF_BITS)
    normal = shifted + ((127 - 15) << SINGLE_BITS)
    found = (size < 0x400).where(tiny, normal)
    found = (size > 0x7BFF).where(shifted | 0x7F80_0000, found)
    return (found | (bits & 0x8000) << 16).to("bitcast", "float")


def _function(result: str, argument: str, body: str) -> str:
    code = Code(flags="")
    x = Num(code, argument, "%x")
    if body == "narrow":
        wide = x if argument == "double" else x.to("fpext", "double")
        y = _narrow(wide).to("bitcast", "half")
    else:
        y = _widen(x.to("bitcast", "i16"))
    head = f"define {result} @k({argument} %x) nounwind {{"
    end = f"  ret {result} {y.name}\n}}"
    return "\n".join([head, *code.lines, end, *code.declarations.values(), ""])


@functools.cache
def texts() -> dict[str, str]:
    """Return the text of each function ``k`` by the name that object code calls it by.

    >>> sorted(texts())
    ['__extendhfsf2', '__truncdfhf2', '__truncsfhf2']
    """
    return {
        "__truncdfhf2": _function("half", "double", "narrow"),
        "__truncsfhf2": _function("half", "float", "narrow"),
        "__extendhfsf2": _function("float", "half", "widen"),
    }
