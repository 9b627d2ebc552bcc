"""Processors as products of bytes see them: how wide vectors are, and how bytes are multiplied.

An instruction that a processor lacks would end the process when it is compiled or run, so the
system's word for each is asked for first. Each function then names the level that it is compiled
for and what it needs beyond it: neither the compiler's own idea of the processor nor its name
matters.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from ..target import V3, V4, has
from ..text import Code, Num, lanes
from .lanes import pick

SHUFFLES = {
    16: "llvm.x86.ssse3.pshuf.b.128",
    32: "llvm.x86.avx2.pshuf.b",
    64: "llvm.x86.avx512.pshuf.b.512",
}
"""By bytes: each 16 of them looked up in a table of their own."""
PAIRS = {
    4: ("llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.sse2.pmadd.wd"),
    8: ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"),
    16: ("llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"),
}
"""By lanes: products of unsigned and signed bytes, added in pairs; likewise of 16 bits."""


@dataclass(frozen=True)
class Machine:
    """What a kernel is written for."""

    name: str
    needs: frozenset[str]
    lanes: int
    """Of 32 bits in its widest vector."""
    level: str = ""
    more: str = ""
    """Features beyond the level, as LLVM calls them."""

    @property
    def has_dots(self) -> bool:
        """Tell whether four products of bytes and their sum are one instruction."""
        return "vnni" in self.name

    @property
    def has_tables(self) -> bool:
        """Tell whether sixteen floats can be looked up in a register, and bits be masks."""
        return self.lanes == 16

    @property
    def attributes(self) -> str:
        """Return the attributes of a function for it."""
        if not self.level:
            return ""
        features = f' "target-features"="{self.more}"' if self.more else ""
        wide = ' "prefer-vector-width"="512"' if self.lanes == 16 else ""
        return f'"target-cpu"="{self.level}"{features}{wide}'


MACHINES = (
    Machine("avx512 vnni", V4 | {"avx512_vnni"}, 16, "x86-64-v4", "+avx512vnni"),
    Machine("avx512", V4, 16, "x86-64-v4"),
    Machine("avx2 vnni", V3 | {"avx_vnni"}, 8, "x86-64-v3", "+avxvnni"),
    Machine("avx2", V3, 8, "x86-64-v3"),
    Machine("any", frozenset(), 8),
)
"""The best comes first; the last one is written without any instruction's name."""


@functools.cache
def machine() -> Machine:
    """Return the best that this process may use.

    >>> machine() in MACHINES
    True
    """
    return next(m for m in MACHINES if m.needs <= has())


def dot(m: Machine, total: Num, codes: Num, y: Num, *, signed: bool) -> Num:
    """Return ``total`` and, lane by lane, four products of bytes; those of y lie within ±127.

    ``codes`` are unsigned, or signed ones that a machine without dots takes.
    """
    code, (n, _) = total.code, lanes(total.type)
    if m.has_dots:
        assert not signed
        of_ints = f"<{n} x i32>"
        given = [x.to("bitcast", of_ints) for x in (codes, y)]
        return code.call(of_ints, f"llvm.x86.avx512.vpdpbusd.{32 * n}", total, *given)
    if not m.level:
        return total + _plain(codes, y, n, "sext" if signed else "zext")
    if signed:  # |a|·(b with a's sign)
        y = (codes < 0).where(-y, y)
        codes = (codes < 0).where(-codes, codes)
    bytes_, words = PAIRS[n]
    pairs = code.call(f"<{2 * n} x i16>", bytes_, codes, y)
    return total + code.call(f"<{n} x i32>", words, pairs, code.const(pairs.type, 1))


def _plain(codes: Num, y: Num, n: int, widen: str) -> Num:
    """Return sums of four products without an instruction's name."""
    wide = f"<{4 * n} x i32>"
    products = codes.to(widen, wide) * y.to("sext", wide)
    pairs = _evens(products, 0) + _evens(products, 1)
    return _evens(pairs, 0) + _evens(pairs, 1)


def _evens(x: Num, start: int) -> Num:
    return pick(x, range(start, lanes(x.type)[0], 2))


def table(m: Machine, numbers: Sequence[float], index: Num) -> Num:
    """Return floats of sixteen, by the low four bits of lanes."""
    code, of = index.code, f"<{lanes(index.type)[0]} x float>"
    if m.has_tables:
        return code.call(of, "llvm.x86.avx512.permvar.sf.512", code.const(of, numbers), index)
    if m.level:  # tables of eight: by three bits, then by the fourth
        halves = [code.const(of, numbers[i : i + 8]) for i in (0, 8)]
        low, high = (code.call(of, "llvm.x86.avx2.permps", t, index) for t in halves)
        return (index & 8).compare("ne", 0).where(high, low)
    return _by_bits(of, numbers, index)


def looked_up(m: Machine, numbers: Sequence[int], index: Num) -> Num:
    """Return bytes of a table of sixteen, by bytes below 16."""
    code, (n, _) = index.code, lanes(index.type)
    if m.level and n in SHUFFLES:
        of = code.const(index.type, [*numbers] * (n // 16))
        return code.call(index.type, SHUFFLES[n], of, index)
    return _by_bits(index.type, numbers, index)


def _by_bits(of: str, numbers: Sequence[float], index: Num) -> Num:
    """Return what a table does without an instruction's name."""
    found = [index.code.const(of, number) for number in numbers]
    for bit in (1, 2, 4, 8):  # from pairs, the one that the bit says
        is_second = (index & bit).compare("ne", 0)
        found = [is_second.where(b, a) for a, b in zip(found[::2], found[1::2], strict=True)]
    return found[0]


# -- functions ------------------------------------------------------------------------------------


def entries(code: Code, names: Sequence[str], pointers: int) -> dict[str, Num]:
    """Read the block of a function, whose first entries are addresses."""
    found = {}
    for slot, name in enumerate(names):
        kind = "ptr" if slot < pointers else "i64"
        at = code.let("ptr", f"getelementptr i64, ptr %block, i64 {slot}")
        found[name] = code.let(kind, f"load {kind}, ptr {at.name}, {code.constant}")
    return found
