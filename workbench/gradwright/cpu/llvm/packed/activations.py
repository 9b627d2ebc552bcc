"""What is multiplied with packed rows, made ready: rounded to bytes, and added up in parts.

32 numbers share a scale, d = max|x|/127, and become q = round(x·127/max|x|), halves to even; a part
with NaN or ∞ becomes NaN as a whole. As exact as floats are three bytes, q = 2¹⁶·q₁ + 2⁸·q₂ + q₃,
where d is a power of two: |q| is 2²² to 2²³ for the largest. For products with one row at a time a
row of x is a record for each group of P parts that vectors read at once, and behind all of them
another one for each

    q: i8[1 or 3, 32·P], as vectors find it; of: i32[8·P], −128·Σq of four, for signed codes
    d: f32[P]; sums: f32[P, 32/per], d·Σq for minima, −offset·d·Σq for codes that are too large

If it stays as it is, there are Σx of each 32/per for minima alone.

Panels compute tiles of T rows of x; of bytes a tile is a record for each part

    q: i8[T, 32]; d: f32[T]; of: i32[32/per, T], −offset·Σq; or sums: f32[32/per, T]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..text import Code, Num
from .lanes import LINE, joined, load, near, spread, store, total
from .layouts import PART, Layout, digits, offset, order
from .machine import Machine, dot, entries

TINY = 1e-37
"""Sizes below it have no reciprocal: such parts are 0."""
FULL = 0x10200
"""Bits of a size that, added, carry into its exponent where three digits would not do."""
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
        """Return the lowest bytes of the numbers, from −128 to 127."""
        return self.q[0].to("trunc", "<16 x i8>"), self.q[1].to("trunc", "<16 x i8>")

    @property
    def above(self) -> Part:
        """Return what is left without those bytes, which are the last digit."""
        a, b = ((q + 128).op("ashr", 8) for q in self.q)
        return Part((a, b), self.d)

    def sums(self, form: Layout) -> list[Num]:
        """Return the sums of the numbers that share a minimum, with their scale."""
        return [total(q).to("sitofp", "float") * self.d for q in by_unit(form, self.q)]


def rounded(x: Num) -> Part:
    """Return the 32 numbers at an address as bytes with a scale."""
    code = x.code
    given, size = _sized(x)
    size = size.to("bitcast", "float")
    with code.flagged(""):
        inverse = size.of(127.0) / size
        factor = spread((size < TINY).where(inverse.of(0.0), inverse), 16)
        a, b = (_whole((v * factor).call("rint")) for v in given)
        return Part((a, b), size / 127.0 + (size - size))  # no number from ∞ on


def fixed(x: Num) -> Part:
    """Return the 32 numbers at an address as integers of three digits, with a scale 2ᵉ.

    The largest is 2²² to 2²³ in size, half where its first digit would be 128. 2ᵉ stays a normal
    float: of parts below 2⁻¹⁰⁴ fewer digits are left, of subnormal ones none.
    """
    given, size = _sized(x)
    exponent = (size + FULL).op("lshr", 23).call("umax", size.of(23))
    scale = ((exponent - 22) << 23).to("bitcast", "float")
    factor = ((-exponent + 276) << 23).to("bitcast", "float")
    size = size.to("bitcast", "float")
    with x.code.flagged(""):
        a, b = (_whole((v * spread(factor, 16)).call("rint")) for v in given)
        return Part((a, b), scale + (size - size))


def _sized(x: Num) -> tuple[list[Num], Num]:
    """Return 32 numbers in two vectors, and the bits of the largest size."""
    given = [load("<16 x float>", x, 64 * h) for h in (0, 1)]
    sizes = [v.to("bitcast", "<16 x i32>") & 0x7FFF_FFFF for v in given]
    largest = sizes[0].call("umax", sizes[1])  # NaN's bits are above those of ∞
    return given, x.code.call("i32", "llvm.vector.reduce.umax.v16i32", largest)


def by_unit(form: Layout, q: tuple[Num, Num]) -> Sequence[Num]:
    """Return what is added up for each scale of 32 numbers."""
    return q if form.per < PART else (q[0] + q[1],)


def _whole(x: Num) -> Num:
    """Return floats as integers; any, where they are none."""
    found = x.to("fptosi", "<16 x i32>")
    return x.code.let(found.type, f"freeze {found.type} {found.name}")


def row_bytes(form: Layout, m: Machine, k: int, *, as_bytes: bool) -> int:
    """Return the bytes of a row that is ready for products one row at a time; 0: it is as it is."""
    if n_digits := digits(form, m, as_bytes=as_bytes):
        return -(-k // PART * sum(_held(form, m, n_digits)) // LINE) * LINE
    return 0 if form.minimum is None else 4 * (k // form.per)


def _held(form: Layout, m: Machine, n_digits: int) -> tuple[int, int]:
    """Return the bytes of a part in each of its records."""
    sums = 0 if form.signed else PART // form.per
    return PART * (n_digits + (form.signed and m.has_dots)), 4 * (1 + sums)


def records(form: Layout, m: Machine, n_digits: int, y: Num, parts: Num, first: Num) -> list[Num]:
    """Return where the records of a group stand in a row of so many parts."""
    codes, more = _held(form, m, n_digits)
    return [near(y, first * codes), near(near(y, parts * codes), first * more)]


def rows(form: Layout, m: Machine, *, as_bytes: bool) -> str:
    """Return the text of what makes rows of x ready for products with one row at a time."""
    code = Code()
    at = entries(code, ROWS, 2)
    zero = code.const("i64", 0)
    n_digits = digits(form, m, as_bytes=as_bytes)
    with code.loop(zero, at["rows"]) as row:
        x = near(at["x"], row.index * at["x_row"])
        y = near(at["y"], row.index * at["y_row"])
        if n_digits:
            count = len(order(form, m.lanes)) // 2
            whole = at["parts"].op("sdiv", count)
            with code.loop(zero, whole) as group:
                _group(form, m, m.lanes, n_digits, x, y, at["parts"], group.index * count)
            with code.loop(whole * count, at["parts"]) as part:
                _group(form, m, 4, n_digits, x, y, at["parts"], part.index)
        elif form.minimum is not None:
            with code.loop(zero, at["parts"]) as part:
                p = near(x, part.index << 7)
                given = load("<16 x float>", p), load("<16 x float>", p, 64)
                into = near(y, part.index * (4 * PART // form.per))
                for unit, x_of in enumerate(by_unit(form, given)):
                    store(total(x_of), into, 4 * unit)
    return code.module(m.attributes)


def _group(
    form: Layout, m: Machine, n: int, n_digits: int, x: Num, y: Num, parts: Num, first: Num
) -> None:
    """Make a group of parts ready for vectors of n lanes."""
    places, units = order(form, n), PART // form.per
    q, scales = records(form, m, n_digits, y, parts, first)
    count = len(places) // 2
    for number in range(count):
        part = (rounded if n_digits == 1 else fixed)(near(near(x, first << 7), 128 * number))
        store(part.d, scales, 4 * number)
        own = places[2 * number :][:2]
        if not form.signed:
            for unit, sum_ in enumerate(part.sums(form)):
                taken = sum_ if form.minimum is not None else sum_ * -float(form.offset)
                store(taken, scales, 4 * (count + units * number + unit))
        elif m.has_dots:
            of_halves = [-_weighed(m, codes, offset(form, m)) for codes in part.bytes]
            if n == 4:  # two vectors make one sum
                of_halves = [of_halves[0] + of_halves[1]]
            for sums_of, place in zip(of_halves, own, strict=False):
                store(sums_of, q, PART * count + 16 * place)
        for digit in range(n_digits)[::-1]:
            for codes, place in zip(part.bytes, own, strict=True):
                store(codes, q, PART * count * digit + 16 * place)
            part = part.above


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
    return code.module(m.attributes)
