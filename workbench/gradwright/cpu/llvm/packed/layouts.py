"""Where numbers and scales lie in blocks; ``ops/quantised`` says what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..lanes import gathered, ints, load
from ..text import Num
from .machine import Machine

PART = 32
"""Numbers of x that share a scale where x is bytes."""


@dataclass(frozen=True)
class Layout:
    """Where things stand in a block of a format."""

    size: int
    n_bytes: int
    scale: int
    codes: int
    offset: int = 0
    """What is taken off an unsigned code."""
    minimum: int | None = None
    upper: int | None = None
    """Where a bit more of each code stands."""
    per: int = 32
    """Numbers that share a scale."""
    signed: bool = False
    bits: int = 4
    """Of a code that stand with others in a byte, where it is no byte."""
    numbers: tuple[int, ...] = ()
    """What codes mean, if not themselves; the offset is in them."""

    @property
    def units(self) -> int:
        """Return how many scales a block has."""
        return self.size // self.per


E2M1 = tuple(12 + sign * x for sign in (1, -1) for x in (0, 1, 2, 3, 4, 6, 8, 12))
"""Floats of 4 bits, twice as large, and 12 more."""
LAYOUTS = {
    "q4_0": Layout(32, 18, scale=0, codes=2, offset=8),
    "q4_1": Layout(32, 20, scale=0, codes=4, minimum=2),
    "q5_0": Layout(32, 22, scale=0, codes=6, offset=16, upper=2),
    "q5_1": Layout(32, 24, scale=0, codes=8, minimum=2, upper=4),
    "q8_0": Layout(32, 34, scale=0, codes=2, signed=True),
    "mxfp4": Layout(32, 17, scale=0, codes=1, offset=12, numbers=E2M1),
    "q2_k": Layout(256, 84, scale=80, codes=16, minimum=82, per=16, bits=2),
    "q3_k": Layout(256, 110, scale=108, codes=32, offset=4, upper=0, per=16, bits=2),
    "q4_k": Layout(256, 144, scale=0, codes=16, minimum=2),
    "q5_k": Layout(256, 176, scale=0, codes=48, minimum=2, upper=16),
    "q6_k": Layout(256, 210, scale=208, codes=0, offset=32, per=16),
}
"""Formats whose blocks machine code reads."""
PLAIN = {"f32": Layout(32, 128, scale=0, codes=0), "f32_by_8": Layout(8, 32, scale=0, codes=0)}
"""Numbers that are floats, which panels take in blocks, too: of 8 in rows that have no whole 32."""


def layout(name: str) -> Layout:
    """Return the layout of a format, or of float32.

    >>> layout("f32").n_bytes
    128
    """
    return PLAIN[name] if name in PLAIN else LAYOUTS[name]


def offset(form: Layout, m: Machine) -> int:
    """Return what codes as bytes are too large by."""
    return 128 if form.signed and m.has_dots else form.offset


def digits(form: Layout, m: Machine, *, as_bytes: bool) -> int:
    """Return how many bytes stand for a number of x where rows meet one by one; 0: it is a float.

    Three, to the base of 256, are as exact as floats, and their products are fewer instructions
    than codes that become floats. Sums of 8 products stay below 2³¹ with codes below 32.
    """
    if as_bytes:
        return 1
    return 3 if m.level and not form.signed else 0


def is_signed(form: Layout, m: Machine) -> bool:
    """Tell whether codes as bytes are signed."""
    return form.signed and not m.has_dots


def blocks_of(form: Layout, n: int) -> int:
    """Return how many blocks a group of bytes has, for vectors of ``n`` lanes."""
    if form.size > PART:
        return 1
    return max(1, n // 8 if form.signed else n // 4)


def order(form: Layout, n: int) -> tuple[int, ...]:
    """Return where each 16 numbers of a group stand, for vectors of ``n`` lanes.

    >>> order(LAYOUTS["q4_0"], 16)
    (0, 4, 1, 5, 2, 6, 3, 7)
    """
    count = blocks_of(form, n)
    if form.size > PART:
        swapped = n == 16 and form.per == PART  # 64 low halves are parts 0 and 2
        places = [p & ~3 | (p & 1) << 1 | p >> 1 & 1 if swapped else p for p in range(8)]
        return tuple(2 * p + h for p in places for h in (0, 1))
    if form.signed:
        return tuple(range(2 * count))
    return tuple(h * count + b for b in range(count) for h in (0, 1))


# -- scales ----------------------------------------------------------------------------------------


def powers(ps: Sequence[Num], offset: int) -> Num:
    """Return 2^(e − 128) of the bytes e that stand at some places."""
    e = ints(gathered([load("i8", p, offset) for p in ps]), "zext")
    tiny = e.of(1 << 21) << e  # of 0 and 1, which floats have without a leading one
    return (e < 2).where(tiny, (e - 1) << 23).to("bitcast", f"<{len(ps)} x float>")


def six_bits(given: Sequence[Num]) -> tuple[list[Num], list[Num]]:
    """Return eight scales and eight minima of 6 bits, four bytes in each, from twelve bytes."""
    u, v, mixed = given
    scales = [u & 0x3F3F3F3F, mixed & 0x0F0F0F0F | u.op("lshr", 2) & 0x30303030]
    minima = [v & 0x3F3F3F3F, mixed.op("lshr", 4) & 0x0F0F0F0F | v.op("lshr", 2) & 0x30303030]
    return scales, minima


def words_of_scales(form: Layout, words: Sequence[Num]) -> tuple[list[Num], list[Num]]:
    """Return 16 scales of q2_k or q3_k, four bytes in each, and minima if there are any."""
    if form.minimum is not None:
        return [x & 0x0F0F0F0F for x in words], [x.op("lshr", 4) & 0x0F0F0F0F for x in words]
    *low, high = words
    low = [*(x & 0x0F0F0F0F for x in low), *(x.op("lshr", 4) & 0x0F0F0F0F for x in low)]
    twos = [high << 4, high << 2, high, high.op("lshr", 2)]
    return [x | two & 0x30303030 for x, two in zip(low, twos, strict=True)], []


def places_of_scales(form: Layout) -> range:
    """Return where the words stand that 16 scales of q2_k or q3_k are made of."""
    return range(0, 16, 4) if form.minimum is not None else range(96, 108, 4)
