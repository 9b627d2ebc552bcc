"""Random numbers as machine code: Philox4x32-10, eight blocks of four words at a time.

    words      u32 as they come                        bernoulli  bool, word < threshold
    uniform    f32, (word div 2⁸)·2⁻²⁴                 normal     f32 by Box and Muller in float64
                                                       truncated  f32 by inversion in float64

Numbers are (x·scale + offset)·factor, each step rounded. The float64 values that normals are
rounded from may differ from numpy's in their last bits, and numpy's from processor to processor:
where so little could decide how a float32 is rounded, 2 in 10⁷, the group of 32 numbers is flagged,
for numpy to draw it. So the bits are numpy's.

One core of a Xeon with AVX-512 draws 1.4 billion words a second, 1.3 of bools, 1.1 of uniform
numbers, 0.3 of normals and 0.13 of truncated ones; numpy's own normals are 0.07.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from enum import IntEnum

from ..llvm.formats import DOUBLE
from ..llvm.kernels.mathlib import log_parts, polynomial
from ..llvm.text import Code, Num

LANES = 8
GROUP = 4 * LANES
"""Numbers that are drawn at a time."""
M0, M1, W0, W1, LOW = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85, 0xFFFFFFFF
CLOSE = 64
"""Units in the last place of a double within which a middle between two floats is doubtful."""
HALF_PI = tuple(
    map(float.fromhex, ("0x1.921fb544p+0", "0x1.0b4611a6p-34", "0x1.3198a2e037073p-69"))
)
"""π/2 in three parts; multiples of the first two by small integers are exact."""


NEAR = 1e-14
"""How far a truncated normal may be from numpy's: ten times what both are off."""
FAR = math.exp(-25.0)
"""The probability below which a quantile is left to numpy."""
CENTRE, TAIL = (
    (
        (
            *(3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427),
            *(13731.693765509461125, 45921.953931549871457, 67265.770927008700853),
            *(33430.575583588128105, 2509.0809287301226727),
        ),
        (
            *(1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077),
            *(21213.794301586595867, 39307.895800092710610, 28729.085735721942674),
            5226.4952788528545610,
        ),
    ),
    (
        (
            *(1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550),
            *(3.64784832476320460504, 1.27045825245236838258, 0.241780725177450611770),
            *(0.0227238449892691845833, 7.74545014278341407640e-4),
        ),
        (
            *(1.0, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550),
            *(0.148103976427480074590, 0.0151986665636164571966, 5.47593808499534494600e-4),
            1.05075007164441684324e-9,
        ),
    ),
)
"""Numerators and denominators of the normal quantile near the middle and beside it: Wichura 1988,
"Algorithm AS 241", Applied Statistics 37."""


class Slot(IntEnum):
    """What stands where in the block of a call; the last four are of truncated normals."""

    OUT, FLAGS, GROUPS, FIRST, KEY0, KEY1, STREAM, STEP0, STEP1 = range(9)
    SCALE, OFFSET, FACTOR, LOW, SPAN, LEAST, MOST = range(9, 16)


class _Writer:
    """The code of one kernel."""

    def __init__(self) -> None:
        self.code = Code(flags="")

    def slot(self, slot: int, type_: str = "i64") -> Num:
        at = self.code.let("ptr", f"getelementptr i64, ptr %block, i64 {int(slot)}")
        return self.code.let(type_, f"load {type_}, ptr {at.name}")

    def splat(self, x: Num) -> Num:
        """Return a vector with a number in all lanes."""
        type_ = f"<{LANES} x {x.type}>"
        one = self.code.let(type_, f"insertelement {type_} poison, {x.type} {x.name}, i64 0")
        zeros = f"<{LANES} x i32> zeroinitializer"
        return self.code.let(type_, f"shufflevector {type_} {one.name}, {type_} poison, {zeros}")

    def woven(self, parts: list[Num], type_: str) -> Num:
        """Return four vectors as one: the first lanes of all, then the second ones."""
        of, halves = f"<{LANES} x {type_}>", []
        for a, b in (parts[:2], parts[2:]):
            index = ", ".join(f"i32 {i}" for i in range(2 * LANES))
            text = f"shufflevector {of} {a.name}, {of} {b.name}, <{2 * LANES} x i32> <{index}>"
            halves.append(self.code.let(f"<{2 * LANES} x {type_}>", text))
        index = ", ".join(f"i32 {part * LANES + i}" for i in range(LANES) for part in range(4))
        a, b = halves
        text = f"shufflevector {a.type} {a.name}, {b.type} {b.name}, <{GROUP} x i32> <{index}>"
        return self.code.let(f"<{GROUP} x {type_}>", text)

    def rounds(self, first: Num, fixed: list[Num], keys: list[tuple[Num, Num]]) -> list[Num]:
        """Return the four words of eight blocks, each in the low half of 64 bits."""
        c0, (c1, c2, c3) = first, fixed
        for k0, k1 in keys:
            p0, p1 = c0 * M0, c2 * M1
            c0, c1 = p1.op("lshr", 32) ^ c1 ^ k0, p1 & LOW
            c2, c3 = p0.op("lshr", 32) ^ c3 ^ k1, p0 & LOW
        return [c0, c1, c2, c3]


def _double(word: Num) -> Num:
    """Return a whole number below 2³² as a double: or-ed into the last places of 2⁵²."""
    bits = word | 0x4330000000000000
    return bits.to("bitcast", f"<{LANES} x double>") - 2.0**52


def _log(x: Num) -> Num:
    """Return the logarithm of normal positive doubles, lane by lane."""
    high, low = DOUBLE.ln2
    bits = x.to("bitcast", f"<{LANES} x i64>")
    e = (bits - DOUBLE.root_half) >> DOUBLE.mantissa
    f = (bits - (e << DOUBLE.mantissa)).to("bitcast", x.type) - 1
    exponent = (e + DOUBLE.magic_bits).to("bitcast", x.type) - DOUBLE.magic
    half, rest = log_parts(f)
    return exponent.madd(high, f - (half - exponent.madd(low, rest)))


def _sin_cos(x: Num) -> tuple[Num, Num]:
    """Return sine and cosine of doubles in [0, 2π], by series on a quarter around 0."""
    shifted = x * (2 / math.pi) + DOUBLE.magic
    whole, quarter = shifted - DOUBLE.magic, shifted.to("bitcast", f"<{LANES} x i64>")
    r = x
    for part in HALF_PI:
        r = whole.madd(-part, r)
    z = r * r
    odd = [(-1) ** n / math.factorial(2 * n + 1) for n in range(1, 9)]
    even = [(-1) ** n / math.factorial(2 * n) for n in range(2, 10)]
    s = (r * z).madd(polynomial(z, odd), r)
    c = (z * z).madd(polynomial(z, even), z.madd(-0.5, 1))
    swapped = (quarter & 1).equals(0)

    def signed(y: Num, turn: Num) -> Num:
        sign = (turn & 2) << 62
        return (y.to("bitcast", sign.type) ^ sign).to("bitcast", y.type)

    return signed(swapped.where(s, c), quarter), signed(swapped.where(c, s), quarter + 1)


def _pair(a: Num, b: Num) -> tuple[Num, Num]:
    """Return two normals from two words, as the formula of ``ops.draws.philox.normal`` has them."""
    radius = (_log((_double(a) + 1) * 2.0**-32) * -2).call("sqrt")
    sine, cosine = _sin_cos(_double(b) * (2.0 * math.pi * 2.0**-32))
    return radius * cosine, radius * sine


def _doubtful(x: Num) -> Num:
    """Return in which lanes a double is as good as the middle between two floats."""
    last = x.to("bitcast", f"<{LANES} x i64>") & (2**29 - 1)
    return (last - (2**28 - CLOSE)).compare("ult", 2 * CLOSE + 1)


def _quantile(p: Num) -> tuple[Num, Num]:
    """Return the normal quantile, and in which lanes it is far out and not right."""
    q, top = p - 0.5, p.of(1.0) - p
    least = (p < top).where(p, top)
    r = (q * q - 0.180625) * -1
    near = q * polynomial(r, CENTRE[0]) / polynomial(r, CENTRE[1])
    t = (_log(least) * -1).call("sqrt") - 1.6
    far = (polynomial(t, TAIL[0]) / polynomial(t, TAIL[1])).call("copysign", q)
    return (r < 0).where(far, near), least < FAR


def _truncated(p: Num, least: Num, most: Num) -> tuple[Num, Num]:
    """Return a normal within bounds as a float, and in which lanes it is doubtful."""
    z, doubtful = _quantile(p)
    off = (z.call("fabs") + 1) * NEAR
    ends = []
    for end in (z - off, z + off):
        end = (end < least).where(least, end)
        ends.append((end > most).where(most, end).to("fptrunc", f"<{LANES} x float>"))
    return ends[0], doubtful | ends[0].compare("une", ends[1])


def _numbers(kind: str, words: list[Num], bounds: list[Num]) -> tuple[list[Num], Num | None]:
    """Return what words become as floats, and which lanes are doubtful."""
    floats = f"<{LANES} x float>"
    if kind == "uniform":
        small = [w.op("lshr", 8).to("trunc", f"<{LANES} x i32>") for w in words]
        return [w.to("sitofp", floats) * 2.0**-24 for w in small], None
    if kind == "truncated":
        low, span, least, most = bounds
        units = [(_double(w) + 0.5) * 2.0**-32 for w in words]
        found, doubts = zip(*(_truncated(low + span * u, least, most) for u in units), strict=True)
        return list(found), functools.reduce(Num.__or__, doubts)
    wide = [*_pair(*words[:2]), *_pair(*words[2:])]
    doubtful = functools.reduce(Num.__or__, map(_doubtful, wide))
    return [z.to("fptrunc", floats) for z in wide], doubtful


@functools.cache
def text(kind: str) -> str:
    """Return the kernel that draws words, uniform numbers, normals or bools.

    >>> "define" in text("normal")
    True
    """
    w = _Writer()
    code, slot = w.code, w.slot
    out, flags, groups, first = (
        slot(Slot.OUT, "ptr"),
        slot(Slot.FLAGS, "ptr"),
        slot(Slot.GROUPS),
        slot(Slot.FIRST),
    )
    keys, (k0, k1) = [], (slot(Slot.KEY0), slot(Slot.KEY1))
    for _ in range(10):
        keys.append((w.splat(k0), w.splat(k1)))
        k0, k1 = (k0 + W0) & LOW, (k1 + W1) & LOW
    fixed = [w.splat(slot(s)) for s in (Slot.STREAM, Slot.STEP0, Slot.STEP1)]
    bounds = []
    if kind == "truncated":
        bounds = [w.splat(slot(s, "double")) for s in (Slot.LOW, Slot.SPAN, Slot.LEAST, Slot.MOST)]
    if kind in ("uniform", "normal", "truncated"):
        scale, offset, factor = (
            w.splat(slot(s, "double").to("fptrunc", "float"))
            for s in (Slot.SCALE, Slot.OFFSET, Slot.FACTOR)
        )
    elif kind == "bernoulli":
        threshold = w.splat(slot(Slot.SCALE))
    steps = code.const(f"<{LANES} x i64>", list(range(LANES)))
    size = {"words": 4, "bernoulli": 1}.get(kind, 4) * GROUP
    with code.loop(code.const("i64", 0), groups) as loop:
        at = first + loop.index * LANES
        words = w.rounds(w.splat(at) + steps, fixed, keys)
        if kind == "words":
            whole = w.woven([x.to("trunc", f"<{LANES} x i32>") for x in words], "i32")
        elif kind == "bernoulli":
            bits = [(x < threshold).to("zext", f"<{LANES} x i8>") for x in words]
            whole = w.woven(bits, "i8")
        else:
            found, doubtful = _numbers(kind, words, bounds)
            whole = w.woven([(x * scale + offset) * factor for x in found], "float")
            if doubtful is not None:
                reduce = f"llvm.vector.reduce.or.v{LANES}i1"
                flag = code.call("i1", reduce, doubtful).to("zext", "i8")
                there = code.let(
                    "ptr", f"getelementptr i8, ptr {flags.name}, i64 {loop.index.name}"
                )
                code.do(f"store i8 {flag.name}, ptr {there.name}")
        offset_ = loop.index * size
        place = code.let("ptr", f"getelementptr i8, ptr {out.name}, i64 {offset_.name}")
        code.do(f"store {whole.type} {whole.name}, ptr {place.name}, align 4")
    return code.module()


@functools.cache
def function(kind: str) -> Callable[[int], None]:
    """Return the kernel as a function of the address of its block; the GIL is free meanwhile."""
    from ..llvm.compiler import compile_text  # llvmlite, which no import of ours may load

    made: Callable[[int], None] = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(compile_text(text(kind)))
    return made
