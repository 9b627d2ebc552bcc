"""Packed rows side by side: lane r of a vector is what row r has at one place.

Four bytes of as many rows as a vector has lanes are one vector, turned within registers; so the
same instructions take apart what a block holds, for all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..lanes import floats, gathered, halves, joined, load, pick
from ..text import Num, lanes
from .layouts import PART, Layout, places_of_scales, powers, six_bits, words_of_scales
from .machine import Machine, looked_up

ONES = 0x01010101


@dataclass(frozen=True)
class Part:
    """32 numbers of each row: eight vectors of four codes each, scales and minima of each unit."""

    codes: Sequence[Num]
    scales: Sequence[Num]
    minima: Sequence[Num] = ()


def parts(form: Layout, m: Machine, rows: Sequence[Num]) -> Iterator[Part]:
    """Read a block of each row, part by part; codes are unsigned bytes but those of q8_0."""
    if form.bits == 2:
        return _twos(form, rows)
    if form.per < PART:
        return _sixths(form, rows)
    return _of_256(form, rows) if form.size > PART else _of_32(form, m, rows)


def sixteen(rows: Sequence[Num], offset: int) -> list[Num]:
    """Return 16 bytes of each row as four vectors."""
    n = len(rows)
    groups = range(0, n, 4)
    given = [joined([load("<4 x i32>", rows[g + i], offset) for g in groups]) for i in range(4)]

    def woven(a: Num, b: Num, *places: int) -> Num:
        return pick(a, [g + place % 4 + n * (place > 3) for g in groups for place in places], b)

    (a, b), (c, d) = ((woven(x, y, 0, 4, 1, 5), woven(x, y, 2, 6, 3, 7))
                      for x, y in (given[:2], given[2:]))  # fmt: skip
    return [
        woven(a, c, 0, 1, 4, 5), woven(a, c, 2, 3, 6, 7),
        woven(b, d, 0, 1, 4, 5), woven(b, d, 2, 3, 6, 7),
    ]  # fmt: skip


def _words(rows: Sequence[Num], offset: int, n_bytes: int) -> list[Num]:
    """Return bytes of each row, four in a lane."""
    return [x for at in range(offset, offset + n_bytes, 16) for x in sixteen(rows, at)]


def byte(x: Num, at: int, *, signed: bool = False) -> Num:
    """Return one of four bytes."""
    if signed:
        top = x << (24 - 8 * at) if at < 3 else x
        return top.op("ashr", 24)
    return x.op("lshr", 24) if at == 3 else _down(x, 8 * at) & 255


def _down(x: Num, by: int) -> Num:
    return x.op("lshr", by) if by else x


def _low(codes: Sequence[Num]) -> list[Num]:
    return [x & 15 * ONES for x in codes]


def _high(codes: Sequence[Num]) -> list[Num]:
    return [x.op("lshr", 4) & 15 * ONES for x in codes]


def _of_32(form: Layout, m: Machine, rows: Sequence[Num]) -> Iterator[Part]:
    codes = _words(rows, form.codes, 32 if form.signed else 16)
    if not form.signed:
        codes = [*_low(codes), *_high(codes)]
    if form.upper is not None:
        bits = gathered([load("i32", row, form.upper) for row in rows])
        codes = [x | _spread_bits(bits, 4 * j) for j, x in enumerate(codes)]
    if form.numbers:
        of_bytes, of_words = f"<{4 * len(rows)} x i8>", codes[0].type
        codes = [
            looked_up(m, form.numbers, x.to("bitcast", of_bytes)).to("bitcast", of_words)
            for x in codes
        ]
    scale = (powers if form.numbers else halves)(rows, form.scale)
    yield Part(codes, [scale], [] if form.minimum is None else [halves(rows, form.minimum)])


def _spread_bits(x: Num, start: int) -> Num:
    """Return four bits of each lane as bit 4 of its bytes."""
    return (_down(x, start) & 15) * 0x02040810 & 16 * ONES


def _with(codes: Sequence[Num], upper: Sequence[Num], by: int, to: int, mask: int) -> list[Num]:
    """Return codes with the bits of a mask that stand elsewhere: moved down, and up to a place."""
    pairs = zip(codes, upper, strict=True)
    return [x | _down(more, by) << to & mask * ONES for x, more in pairs]


def _of_256(form: Layout, rows: Sequence[Num]) -> Iterator[Part]:
    head, *packed = sixteen(rows, 0)
    n, _ = lanes(head.type)
    d, least = (
        floats(x.to("trunc", f"<{n} x i16>").to("bitcast", f"<{n} x half>"))
        for x in (head, head.op("lshr", 16))
    )
    scales, minima = six_bits(packed)
    fifth = [] if form.upper is None else _words(rows, form.upper, 32)
    for number in range(8):
        if number % 2 == 0:
            raw = _words(rows, form.codes + 16 * number, 32)
        codes = _high(raw) if number % 2 else _low(raw)
        if fifth:
            codes = _with(codes, fifth, number, 4, 16)
        scale, minimum = (
            floats(byte(of[number // 4], number % 4)) * by
            for of, by in ((scales, d), (minima, least))
        )
        yield Part(codes, [scale], [-minimum])


def _twos(form: Layout, rows: Sequence[Num]) -> Iterator[Part]:
    words = [gathered([load("i32", row, at) for row in rows]) for at in places_of_scales(form)]
    of, of_minima = words_of_scales(form, words)
    d, less = halves(rows, form.scale), 32 if form.minimum is None else 0
    third = [] if form.upper is None else _words(rows, form.upper, 32)
    for number in range(8):
        if number % 4 == 0:
            raw = _words(rows, form.codes + 8 * number, 32)
        codes = [_down(x, 2 * (number % 4)) & 3 * ONES for x in raw]
        if third:
            codes = _with(codes, third, number, 2, 4)
        units = [(unit // 4, unit % 4) for unit in (2 * number, 2 * number + 1)]
        scales = [floats(byte(of[i], at) - less) * d for i, at in units]
        minima: list[Num] = []
        if form.minimum is not None:
            least = halves(rows, form.minimum)
            minima = [-(floats(byte(of_minima[i], at)) * least) for i, at in units]
        yield Part(codes, scales, minima)


def _sixths(form: Layout, rows: Sequence[Num]) -> Iterator[Part]:
    of, d = sixteen(rows, 192), halves(rows, form.scale)
    for half in (0, 1):
        low = _words(rows, 64 * half, 64)
        upper = _words(rows, 128 + 32 * half, 32)
        for quarter in range(4):
            own = low[8 * (quarter % 2) :][:8]
            four = _high(own) if quarter > 1 else _low(own)
            codes = _with(four, upper, 2 * quarter, 4, 48)
            first = 8 * half + 2 * quarter
            scales = [
                floats(byte(of[unit // 4], unit % 4, signed=True)) * d
                for unit in (first, first + 1)
            ]
            yield Part(codes, scales)
