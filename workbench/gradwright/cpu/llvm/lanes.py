"""Vectors in LLVM text: loaded from any byte, put together, looked through, added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .text import Num, lanes, suffix

LINE = 64
"""Bytes of a cache line."""


def near(p: Num, offset: int | Num) -> Num:
    """Return an address some bytes away."""
    if isinstance(offset, Num):
        return p.code.let("ptr", f"getelementptr i8, ptr {p.name}, i64 {offset.name}")
    return p if not offset else p.code.let("ptr", f"getelementptr i8, ptr {p.name}, i64 {offset}")


def aligned(p: Num) -> Num:
    """Return the first address from one on where a line begins."""
    return ((p.to("ptrtoint", "i64") + (LINE - 1)) & -LINE).to("inttoptr", "ptr")


def load(type_: str, p: Num, offset: int = 0) -> Num:
    """Load what stands some bytes away, however it is aligned."""
    return p.code.let(type_, f"load {type_}, ptr {near(p, offset).name}, align 1")


def store(x: Num, p: Num, offset: int = 0) -> None:
    """Store a value some bytes away, however it is aligned."""
    x.code.do(f"store {x.type} {x.name}, ptr {near(p, offset).name}, align 1")


def fetch(p: Num, n_bytes: int) -> None:
    """Ask for the lines of some bytes before they are needed; nothing has to be there."""
    p.code.declarations["prefetch"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
    for offset in range(0, n_bytes, LINE):
        at = near(p, offset)
        p.code.do(f"call void @llvm.prefetch.p0(ptr {at.name}, i32 0, i32 3, i32 1)")


def pick(x: Num, places: Sequence[int], other: Num | None = None) -> Num:
    """Return a vector of lanes of ``x``, and behind them of ``other``."""
    _, of = lanes(x.type)
    second = "poison" if other is None else other.name
    order = ", ".join(f"i32 {i}" for i in places)
    return x.code.let(
        f"<{len(places)} x {of}>",
        f"shufflevector {x.type} {x.name}, {x.type} {second}, <{len(places)} x i32> <{order}>",
    )


def spread(x: Num, n: int) -> Num:
    """Return a vector that has one value in all lanes."""
    return pick(gathered([x]), [0] * n)


def gathered(xs: Sequence[Num]) -> Num:
    """Return a vector of values."""
    code, type_ = xs[0].code, f"<{len(xs)} x {xs[0].type}>"
    found = "poison"
    for i, x in enumerate(xs):
        found = code.let(type_, f"insertelement {type_} {found}, {x.type} {x.name}, i64 {i}").name
    return Num(code, type_, found)


def joined(xs: Sequence[Num]) -> Num:
    """Return vectors one behind the other; there are 1, 2, 4 or 8 of them."""
    parts = list(xs)
    while len(parts) > 1:
        n, _ = lanes(parts[0].type)
        parts = [pick(a, range(2 * n), b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def floats(x: Num) -> Num:
    """Return integers or halves as floats."""
    n, of = lanes(x.type)
    return x.to("fpext" if of == "half" else "sitofp", f"<{n} x float>")


def ints(x: Num, how: str) -> Num:
    """Return narrow integers as 32 bits, by ``zext`` or ``sext``."""
    return x.to(how, f"<{lanes(x.type)[0]} x i32>")


def halves(ps: Sequence[Num], offset: int) -> Num:
    """Return the float16 that stand at some places, as floats."""
    return floats(gathered([load("half", p, offset) for p in ps]))


def total(x: Num) -> Num:
    """Return the sum of lanes, in any order that the machine likes."""
    code, (_, of) = x.code, lanes(x.type)
    if not x.is_float:
        return code.call(of, f"llvm.vector.reduce.add.{suffix(x.type)}", x)
    with code.flagged("reassoc"):
        return code.call(of, f"llvm.vector.reduce.fadd.{suffix(x.type)}", code.const(of, -0.0), x)


def widened(x: Num, n: int) -> Num:
    """Return a vector of n lanes with the same sum."""
    count, _ = lanes(x.type)
    while count > n:
        count //= 2
        x = pick(x, range(count)) + pick(x, range(count, 2 * count))
    zeros = x.code.const(x.type, 0.0)
    return x if count == n else pick(x, [min(lane, count) for lane in range(n)], zeros)


def is_set(x: Num, n: int, *, as_mask: bool) -> Num:
    """Return which of n bits are set, those of integers one behind the other.

    Where a machine has no masks of bits, each goes to a lane of the size that it is for.
    """
    count, of = lanes(x.type)
    if as_mask:
        return x.to("bitcast", f"<{n} x i1>")
    size = int(of[1:])
    each = n // count
    wide = pick(x, [lane // each for lane in range(n)])
    bits = [1 << lane % each % size for lane in range(n)]
    return (wide & wide.code.const(wide.type, bits)).compare("ne", 0)


def chosen(test: Num, yes: Any, no: Any, type_: str) -> Num:
    """Return a vector that is ``yes`` in the lanes where a vector of i1 holds."""
    code = test.code
    a, b = code.const(type_, yes), code.const(type_, no)
    return code.let(type_, f"select {test.type} {test.name}, {a.type} {a.name}, {b.type} {b.name}")
