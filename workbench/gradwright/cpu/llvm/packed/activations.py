"""What is multiplied with packed rows, made ready: rounded to bytes, and added up in parts.

32 numbers share a scale, d = max|x|/127, and become q = round(x·127/max|x|), halves to even; a part
with NaN or ∞ becomes NaN as a whole. For products with one row at a time a row of x is

    q: i8[K], as vectors find it; of: i32[K/4], −offset·Σq of four; d: f32[K/32];
    sums: f32[K/per], d·Σq, or Σx where x stays as it is

Panels compute tiles of T rows of x; of bytes a tile is a record for each part

    q: i8[T, 32]; d: f32[T]; of: i32[32/per, T], −offset·Σq; or sums: f32[32/per, T]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..text import Code, Num
from .lanes import joined, load, near, spread, store, total
from .layouts import PART, Layout, offset, order
from .machine import Machine, dot, entries, module

TINY = 1e-37
"""Sizes below it have no reciprocal: such parts are 0."""
ROWS = ("x", "y", "rows", "parts", "x_row", "y_row")
"""Block of what makes rows ready: addresses, counts, and steps in bytes."""
TILES = ("x", "y", "tiles", "rows", "parts", "x_row")
"""Block of what makes tiles ready."""


@dataclass(frozen=True)
class Part:
    """32 numbers as integers, in two vectors, and their scale."""

    q: tuple[Num, Num]
    d: Num

    @property
    def bytes(self) -> tuple[Num, Num]:
        """Return the numbers as bytes."""
        return self.q[0].to("trunc", "<16 x i8>"), self.q[1].to("trunc", "<16 x i8>")

    def sums(self, form: Layout) -> list[Num]:
        """Return the sums of the numbers that share a minimum, with their scale."""
        return [total(q).to("sitofp", "float") * self.d for q in by_unit(form, self.q)]


def rounded(x: Num) -> Part:
    """Return the 32 numbers at an address as integers with a scale."""
    code = x.code
    given = [load("<16 x float>", x, 64 * h) for h in (0, 1)]
    sizes = [v.to("bitcast", "<16 x i32>") & 0x7FFF_FFFF for v in given]
    largest = sizes[0].call("umax", sizes[1])  # NaN's bits are above those of ∞
    size = code.call("i32", "llvm.vector.reduce.umax.v16i32", largest).to("bitcast", "float")
    with code.flagged(""):
        inverse = size.of(127.0) / size
        factor = spread((size < TINY).where(inverse.of(0.0), inverse), 16)
        a, b = (_whole((v * factor).call("rint")) for v in given)
        return Part((a, b), size / 127.0 + (size - size))  # no number from ∞ on


def by_unit(form: Layout, q: tuple[Num, Num]) -> Sequence[Num]:
    """Return what is added up for each scale of 32 numbers."""
    return q if form.per < PART else (q[0] + q[1],)


def _whole(x: Num) -> Num:
    """Return floats as integers; any, where they are none."""
    found = x.to("fptosi", "<16 x i32>")
    return x.code.let(found.type, f"freeze {found.type} {found.name}")


def row_bytes(form: Layout, k: int, *, as_bytes: bool) -> int:
    """Return the bytes of a row that is ready for products one row at a time."""
    sums = 4 * (k // form.per)
    return 2 * k + k // 8 + sums if as_bytes else sums


def rows(form: Layout, m: Machine, *, as_bytes: bool) -> str:
    """Return the text of what makes rows of x ready for products with one row at a time."""
    code = Code()
    at = entries(code, ROWS, 2)
    zero, k = code.const("i64", 0), at["parts"] << 5
    with code.loop(zero, at["rows"]) as row:
        x = near(at["x"], row.index * at["x_row"])
        y = near(at["y"], row.index * at["y_row"])
        if as_bytes:
            count = len(order(form, m.lanes)) // 2
            whole = at["parts"].op("sdiv", count)
            with code.loop(zero, whole) as group:
                _group(form, m, m.lanes, x, y, k, group.index * count)
            with code.loop(whole * count, at["parts"]) as part:
                _group(form, m, 4, x, y, k, part.index)
        elif form.minimum is not None:
            with code.loop(zero, at["parts"]) as part:
                p = near(x, part.index << 7)
                given = load("<16 x float>", p), load("<16 x float>", p, 64)
                into = near(y, part.index * (4 * PART // form.per))
                for unit, x_of in enumerate(by_unit(form, given)):
                    store(total(x_of), into, 4 * unit)
    return module(code, m)


def _group(form: Layout, m: Machine, n: int, x: Num, y: Num, k: Num, first: Num) -> None:
    """Make a group of parts ready for vectors of n lanes."""
    taken, places = offset(form, m), order(form, n)
    is_joint = form.size == PART and (not form.signed or n == 4)  # two vectors make one sum
    q, of, scales = near(y, first << 5), near(near(y, k), first << 5), near(y, k << 1)
    units = PART // form.per
    sums = near(near(scales, k.op("lshr", 3)), first * (4 * units))
    scales = near(scales, first << 2)
    for number in range(len(places) // 2):
        part = rounded(near(near(x, first << 7), 128 * number))
        store(part.d, scales, 4 * number)
        if form.minimum is not None:
            for unit, sum_ in enumerate(part.sums(form)):
                store(sum_, sums, 4 * (units * number + unit))
        own = places[2 * number :][:2]
        for codes, place in zip(part.bytes, own, strict=True):
            store(codes, q, 16 * place)
        if taken:
            of_halves = [-_weighed(m, codes, taken) for codes in part.bytes]
            if is_joint:
                of_halves = [of_halves[0] + of_halves[1]]
            for sums_of, place in zip(of_halves, own, strict=False):
                store(sums_of, of, 16 * place)


def _weighed(m: Machine, codes: Num, by: int) -> Num:
    """Return the sums of each four of 16 bytes, times a number."""
    code = codes.code
    unsigned = code.const(codes.type, by)
    return dot(m, code.const("<4 x i32>", 0), unsigned, codes, signed=False)


def record(form: Layout, tile: int) -> int:
    """Return the bytes of a tile's record of a part."""
    return tile * (PART + 4 + 4 * (PART // form.per))


def tiles(form: Layout, m: Machine, tile: int) -> str:
    """Return the text of what makes tiles of so many rows ready, as bytes.

    Behind the last row of x it is repeated.
    """
    code, taken = Code(), offset(form, m)
    at = entries(code, TILES, 2)
    zero, last, size = code.const("i64", 0), at["rows"] - 1, record(form, tile)
    with code.loop(zero, at["tiles"]) as whole:
        y = near(at["y"], whole.index * at["parts"] * size)
        for row in range(tile):
            number = code.call("i64", "llvm.smin.i64", whole.index * tile + row, last)
            x = near(at["x"], number * at["x_row"])
            with code.loop(zero, at["parts"]) as turn:
                part = rounded(near(x, turn.index << 7))
                into = near(y, turn.index * size)
                store(joined(part.bytes), into, PART * row)
                store(part.d, into, PART * tile + 4 * row)
                if form.minimum is not None:
                    for unit, sum_ in enumerate(part.sums(form)):
                        store(sum_, into, (PART + 4 + 4 * unit) * tile + 4 * row)
                elif taken:
                    for unit, q in enumerate(by_unit(form, part.q)):
                        store(total(q) * -taken, into, (PART + 4 + 4 * unit) * tile + 4 * row)
    return module(code, m)
