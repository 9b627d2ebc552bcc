"""Blocks of one row in vectors: codes as bytes or as floats, with their scales.

A `Group` is what one turn of a loop reads: blocks of one row that fill vectors. With bytes of x,
codes become unsigned bytes, four to a lane, so that their products are one instruction; what makes
them unsigned is taken off the sums. With floats of x each code becomes a float.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..lanes import chosen, floats, gathered, halves, ints, is_set, joined, load, near, pick, spread
from ..text import Num, lanes
from .layouts import (
    PART,
    Layout,
    blocks_of,
    places_of_scales,
    powers,
    six_bits,
    words_of_scales,
)
from .machine import Machine, looked_up, table


@dataclass
class Group:
    """What a turn of a loop has read: scales and minima of its units, and its numbers.

    ``parts`` are vectors and where their numbers stand in the group: of bytes several that make one
    sum, with the unit of each lane; of floats one with its unit.
    """

    scales: Num
    minima: Num | None = None
    parts: list[tuple[list[tuple[Num, int]], Sequence[int]]] = field(default_factory=list)


def _scales_of_256(form: Layout, w: Num) -> tuple[Num, Num]:
    """Return the scales of eight parts, and what is added to them: −minima."""
    assert form.minimum is not None
    of_scales, of_minima = six_bits([load("i32", w, 4 + 4 * i) for i in range(3)])

    def eight(pair: Sequence[Num], at: int) -> Num:
        codes = ints(gathered(pair).to("bitcast", "<8 x i8>"), "zext")
        return floats(codes) * pick(halves([w], at), [0] * 8)

    return eight(of_scales, form.scale), -eight(of_minima, form.minimum)


def _sixteen_scales(form: Layout, w: Num) -> Group:
    """Return a group with the scales, and what is added to numbers, of 16 parts."""
    of = words_of_scales(form, [load("i32", w, at) for at in places_of_scales(form)])
    scales, minima = (
        ints(gathered(words).to("bitcast", "<16 x i8>"), "zext") if words else None for words in of
    )
    assert scales is not None
    group = Group(
        floats(scales if form.minimum is not None else scales - 32)
        * pick(halves([w], form.scale), [0] * 16)
    )
    if minima is not None and form.minimum is not None:
        group.minima = -(floats(minima) * pick(halves([w], form.minimum), [0] * 16))
    return group


def _signed_scales(form: Layout, w: Num) -> Group:
    """Return a group with the scales of 16 parts of q6_k, which are signed bytes."""
    scales = floats(ints(load("<16 x i8>", w, 192), "sext"))
    return Group(scales * pick(halves([w], form.scale), [0] * 16))


# -- as bytes --------------------------------------------------------------------------------------


def read_bytes(form: Layout, m: Machine, n: int, w: Num) -> Group:
    """Read a group of codes as bytes, for vectors of ``n`` lanes."""
    if form.bits == 2:
        return _twos(form, n, w)
    if form.per < PART:
        return _sixths(form, n, w)
    if form.size > PART:
        return _nibbles_of_256(form, n, w)
    count = blocks_of(form, n)
    if form.numbers:
        group = Group(powers([near(w, form.n_bytes * b) for b in range(count)], form.scale))
    else:
        group = Group(_halves_of(form, n, w, form.scale))
    if form.minimum is not None:
        group.minima = _halves_of(form, n, w, form.minimum)
    if form.signed:
        codes = joined([load("<32 x i8>", near(w, form.n_bytes * b), 2) for b in range(count)])
        codes = codes ^ -128 if m.has_dots else codes
        width = min(4 * n, 32 * count)
        vectors = [
            (codes if width == 32 * count else pick(codes, range(s, s + width)), s)
            for s in range(0, 32 * count, width)
        ]
        group.parts = [(vectors, [lane * 4 * len(vectors) // 32 for lane in range(n)])]
        return group
    codes = _words(form, n, w, form.codes, 8).to("bitcast", f"<{4 * n} x i8>")
    low, high = codes & 15, codes.op("lshr", 4)
    if form.upper is not None:
        low, high = (
            x | chosen(_fifths(form, m, _words(form, n, w, at, 1)), 16, 0, x.type)
            for x, at in ((low, form.upper), (high, form.upper + 2))
        )
    if form.numbers:
        low, high = (looked_up(m, form.numbers, x) for x in (low, high))
    group.parts = [([(low, 0), (high, 16 * count)], [lane // 4 for lane in range(n)])]
    return group


def _fifths(form: Layout, m: Machine, words: Num) -> Num:
    """Return which bits of some 16 are set."""
    count, _ = lanes(words.type)
    if not m.has_tables:
        words = words.to("bitcast", f"<{2 * count} x i8>")
    return is_set(words, 16 * count, as_mask=m.has_tables)


def _halves_of(form: Layout, n: int, w: Num, at: int) -> Num:
    """Return a float16 of each block of a group, as floats."""
    return floats(_words(form, n, w, at, 1).to("bitcast", f"<{blocks_of(form, n)} x half>"))


def _words(form: Layout, n: int, w: Num, at: int, each: int) -> Num:
    """Return some 16 bits of each block of a group: of four blocks picked from two loads.

    Blocks of an odd size have no 16 bits at the same places, and are loaded one by one.
    """
    count = blocks_of(form, n)
    if count < 4 or form.n_bytes % 2:
        of = [load(f"<{each} x i16>", w, form.n_bytes * b + at) for b in range(count)]
        return joined(of)
    second = form.n_bytes * count - 64
    places = []
    for b in range(count):
        for start in range(form.n_bytes * b + at, form.n_bytes * b + at + 2 * each, 2):
            places.append(start // 2 if start < 64 else 32 + (start - second) // 2)
    return pick(load("<32 x i16>", w), places, load("<32 x i16>", w, second))


def _nibbles_of_256(form: Layout, n: int, w: Num) -> Group:
    group = Group(*_scales_of_256(form, w))
    width = 4 * n
    fifth = None if form.upper is None else load("<32 x i8>", w, form.upper)
    for start in range(0, 128, width):
        codes = load(f"<{width} x i8>", w, form.codes + start)
        first = start // 32 * 2
        for high in (0, 1):
            x = codes.op("lshr", 4) if high else codes & 15
            units = [first + high + 2 * (lane // 8) for lane in range(n)]
            if fifth is not None:
                bits = [_bit(fifth, u, 4) for u in sorted(set(units))]
                x = x | joined(bits)
            group.parts.append(([(x, 2 * start + width * high)], units))
    return group


def _bit(x: Num, at: int, to: int) -> Num:
    """Return one bit of bytes, moved to another place."""
    moved = x.op("lshr", at - to) if at > to else x << (to - at)
    return moved & 1 << to


def _twos(form: Layout, n: int, w: Num) -> Group:
    """Read q2_k or q3_k: two bits of four parts in a byte, third ones of eight, if any."""
    group, count = _sixteen_scales(form, w), n // 8

    def moved(raw: Num, by: Sequence[int]) -> Num:
        """Return the bytes of each part, moved to the right by as many bits."""
        wide = joined([raw] * count)
        return wide.op("lshr", wide.code.const(wide.type, [b for b in by for _ in range(8)]))

    for first in range(0, 8, count):
        own = range(first, first + count)
        raw = load("<8 x i32>", w, form.codes + 32 * (first // 4))
        x = moved(raw, [2 * (part % 4) for part in own]) & 0x03030303
        if form.upper is not None:
            x = x | (moved(load("<8 x i32>", w, form.upper), own) & 0x01010101) << 2
        units = [2 * first + lane // 4 for lane in range(n)]
        group.parts.append(([(x.to("bitcast", f"<{4 * n} x i8>"), 32 * first)], units))
    return group


def _sixths(form: Layout, n: int, w: Num) -> Group:
    """Read q6_k: low halves, two bits elsewhere, a signed byte per 16 numbers as scale."""
    group = _signed_scales(form, w)
    width = 4 * n
    for half in (0, 1):
        upper = load("<32 x i8>", w, 128 + 32 * half)
        for start in range(0, 64, width):
            codes = load(f"<{width} x i8>", w, 64 * half + start)
            for high in (0, 1):
                x = codes.op("lshr", 4) if high else codes & 15
                quarters = [2 * high + (start + s) // 32 for s in range(0, width, 32)]
                x = x | joined([_two_bits(upper, q) for q in quarters])
                at = 128 * half + 64 * high + start
                group.parts.append(([(x, at)], [at // 16 + lane // 4 for lane in range(n)]))
    return group


def _two_bits(x: Num, quarter: int) -> Num:
    """Return two bits of bytes as bits 4 and 5."""
    return (x << (4 - 2 * quarter) if quarter < 3 else x.op("lshr", 2)) & 0x30


# -- as floats -------------------------------------------------------------------------------------


def read_floats(form: Layout, m: Machine, n: int, w: Num) -> Group:
    """Read a block of codes as floats, in vectors of ``n`` lanes."""
    code = w.code
    if form.bits == 2:
        group = _twos_as_floats(form, m, n, w)
    elif form.per < PART:
        group = _sixths_as_floats(form, m, n, w)
    elif form.size > PART:
        group = Group(*_scales_of_256(form, w))
        for part in range(8):
            at = form.codes + part // 2 * 32
            for start in range(0, 32, n):
                z = ints(load(f"<{n} x i8>", w, at + start), "zext")
                fifth = None
                if form.upper is not None:
                    bits = ints(load(f"<{n} x i8>", w, form.upper + start), "zext")
                    fifth = (bits & 1 << part).compare("ne", 0)
                x = _nibble(form, m, z, part % 2, fifth)
                group.parts.append(([(x, 32 * part + start)], [part]))
    else:
        group = Group((powers if form.numbers else halves)([w], form.scale))
        if form.minimum is not None:
            group.minima = halves([w], form.minimum)
        for start in range(0, 32 if form.signed else 16, n):
            raw = load(f"<{n} x i8>", w, form.codes + start)
            if form.signed:
                group.parts.append(([(floats(ints(raw, "sext")), start)], [0]))
                continue
            z = ints(raw, "zext")
            for high in (0, 1):
                fifth = None
                if form.upper is not None:
                    first = start + 16 * high
                    bits = spread(load("i32", w, form.upper), n)
                    own = code.const(bits.type, [1 << first + lane for lane in range(n)])
                    fifth = (bits & own).compare("ne", 0)
                x = _nibble(form, m, z, high, fifth)
                group.parts.append(([(x, start + 16 * high)], [0]))
    return group


def _nibble(form: Layout, m: Machine, z: Num, high: int, fifth: Num | None) -> Num:
    """Return a half of bytes, and 16 where a fifth bit is set, without the offset, as floats."""
    if m.has_tables:  # which look at four bits alone
        numbers = [float(q - form.offset) for q in form.numbers or range(16)]
        x = table(m, numbers, z.op("lshr", 4) if high else z)
        return x if fifth is None else fifth.where(x + 16.0, x)
    q = z.op("lshr", 4) if high else z & 15
    if fifth is not None:
        q = q | chosen(fifth, 16, 0, q.type)
    if form.numbers:
        q = ints(looked_up(m, form.numbers, q.to("trunc", f"<{lanes(q.type)[0]} x i8>")), "zext")
    return floats(q - form.offset if form.offset else q)


def _sixths_as_floats(form: Layout, m: Machine, n: int, w: Num) -> Group:
    group = _signed_scales(form, w)
    for half in (0, 1):
        for quarter in range(4):
            for start in range(0, 32, n):
                at = 64 * half + 32 * (quarter % 2) + start
                z = ints(load(f"<{n} x i8>", w, at), "zext")
                upper = ints(load(f"<{n} x i8>", w, 128 + 32 * half + start), "zext")
                low = z.op("lshr", 4) if quarter > 1 else z if m.has_tables else z & 15
                if m.has_tables:  # of 16, and of 4 that stand in one of two places
                    bits = upper.op("lshr", 4) if quarter > 1 else upper
                    shift = 2 * (quarter % 2)
                    sixteens = [16.0 * (i >> shift & 3) - form.offset for i in range(16)]
                    x = table(m, [float(i) for i in range(16)], low) + table(m, sixteens, bits)
                else:
                    x = floats((low | _two_bits(upper, quarter)) - form.offset)
                place = 128 * half + 32 * quarter + start
                group.parts.append(([(x, place)], [place // form.per]))
    return group


def _twos_as_floats(form: Layout, m: Machine, n: int, w: Num) -> Group:
    group = _sixteen_scales(form, w)
    for part in range(8):
        for start in range(0, 32, n):
            z = ints(load(f"<{n} x i8>", w, form.codes + 32 * (part // 4) + start), "zext")
            third = None
            if form.upper is not None:
                bits = ints(load(f"<{n} x i8>", w, form.upper + start), "zext")
                third = (bits & 1 << part).compare("ne", 0)
            if m.has_tables:
                fours = [float((i >> 2 * (part % 2) & 3) - form.offset) for i in range(16)]
                x = table(m, fours, z.op("lshr", 4) if part % 4 > 1 else z)
                x = x if third is None else third.where(x + 4.0, x)
            else:
                q = z.op("lshr", 2 * (part % 4)) & 3
                q = q if third is None else q | chosen(third, 4, 0, q.type)
                x = floats(q - form.offset if form.offset else q)
            place = 32 * part + start
            group.parts.append(([(x, place)], [place // form.per]))
    return group
