"""Places in a sorted vector, of many values at a time: halves without branches, in vectors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...call import Call, Cut
from ..lanes import load, spread, store
from ..text import Code, Num, lanes, suffix
from .items import TYPES, item

Array = np.ndarray[Any, Any]
BLOCK = ("sorted", "values", "places", "count", "n", "halves")
"""The block; ``halves`` is how many bits n has."""
LANES = 16
"""Values that are looked for at a time."""
LEAST = 1 << 10
"""Values of the smallest piece, some 5 µs."""


def bind_search(a: Array, x: Array, y: Array, *, right: bool) -> Sequence[Call] | None:
    """Return the call that finds places of values; None: numpy has to.

    >>> a, x, y = np.array([1.0, 3.0]), np.array([2.0]), np.empty(1, np.int64)
    >>> from gradwright.cpu.llvm.compiler import available
    >>> calls = bind_search(a, x, y, right=False) if available() else None
    >>> calls is None or [operand for _, operand in calls[0].slots] == [0, 1, 2]
    True
    """
    dense = all(b.flags.c_contiguous and b.flags.aligned for b in (a, x, y))
    if not dense or a.dtype != x.dtype or a.dtype.char not in TYPES or len(a) >= 1 << 31:
        return None
    bits = len(a).bit_length()
    block = np.array([*(b.ctypes.data for b in (a, x, y)), x.size, len(a), bits], np.int64)
    steps = [(1, x.itemsize), (2, y.itemsize)]
    return [
        Call(
            _compiled(TYPES[a.dtype.char], right), block, [(0, 0), (1, 1), (2, 2)],
            cut=Cut(BLOCK.index("count"), x.size, steps, LEAST, LANES),
            cost=0.5 * x.size * bits, label=f"places {a.dtype.char} {len(a)} of {x.size}",
        )
    ]  # fmt: skip


@functools.cache
def _compiled(type_: str, right: bool) -> int:
    from ..compiler import compile_text  # llvmlite, which no import of ours may load

    code = Code()
    at = code.entries(BLOCK, 3)
    zero, whole = code.const("i64", 0), at["count"] & -LANES
    for first, last, n in ((zero, whole, LANES), (whole, at["count"], 1)):
        with code.loop(first, last, n) as some:
            _find(code, at, some.index, type_, n, right)
    return compile_text(code.module())


def _find(code: Code, at: dict[str, Num], first: Num, type_: str, n: int, right: bool) -> None:
    """Write the search for n values: bit by bit, from the highest one, how many come before."""

    def of(one: str) -> str:
        return one if n == 1 else f"<{n} x {one}>"

    def all_(x: Num) -> Num:
        return x if n == 1 else spread(x, n)

    x = load(of(type_), item(at["values"], type_, first))
    size = all_(at["n"].to("trunc", "i32"))
    nothing, one = code.const(of("i32"), 0), code.const("i64", 1)
    with code.loop(code.const("i64", 0), at["halves"], carried=[nothing]) as turn:
        (so_far,) = turn.carried
        half = (one << (at["halves"] - turn.index - 1)).to("trunc", "i32")
        there = so_far + all_(half)
        inside = there.compare("sle", size)
        found = _taken(at["sorted"], type_, there.call("smin", size) - 1)
        before = _before(found, x, right)
        turn.turned = [(inside & before).where(there, so_far)]
    store(turn.carried[0].to("sext", of("i64")), item(at["places"], "i64", first))


def _taken(p: Num, type_: str, index: Num) -> Num:
    """Return the elements at places."""
    code = p.code
    if not index.type.startswith("<"):
        at = code.let("ptr", f"getelementptr {type_}, ptr {p.name}, i32 {index.name}")
        return code.let(type_, f"load {type_}, ptr {at.name}")
    n, _ = lanes(index.type)
    vector = f"<{n} x {type_}>"
    at = code.let(f"<{n} x ptr>", f"getelementptr {type_}, ptr {p.name}, {index.type} {index.name}")
    name = f"llvm.masked.gather.{suffix(vector)}.v{n}p0"
    code.declarations[name] = f"declare {vector} @{name}(<{n} x ptr>, i32, <{n} x i1>, {vector})"
    every = code.const(f"<{n} x i1>", 1)
    return code.let(
        vector,
        f"call {vector} @{name}(<{n} x ptr> {at.name}, i32 4, <{n} x i1> {every.name}, "
        f"{vector} poison)",
    )


def _before(a: Num, x: Num, right: bool) -> Num:
    """Return whether an element comes before a value; NaN comes last."""
    if not a.is_float:
        return a.compare("sle" if right else "slt", x)
    if right:  # unless the value comes before it
        return a.compare("ole", x) | x.is_nan()
    return a.compare("olt", x) | (x.is_nan() & a.compare("ord", a))
