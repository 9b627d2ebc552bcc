"""Float formats as the elementary functions see them: bits, intervals, polynomials."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """A float format, and the intervals and polynomials that its precision asks for."""

    ints: str
    mantissa: int
    magic: float
    magic_bits: int
    """Adding it rounds a number below 2²² (2⁵¹) to an integer, by which the bits then differ."""
    bias: int
    tiny: float
    """The least normal number."""
    root_half: int
    """The bits of √½."""
    ln2: tuple[float, float]
    lg2: tuple[float, float]
    """ln 2 and log₁₀ 2, each in two parts, of which the first has many trailing zeros."""
    exp_range: tuple[float, float]
    """Below it e^x is 0, above it ∞."""
    exp: tuple[float, ...]
    """(eʳ − 1 − r)/r² on |r| ≤ ½ ln 2."""
    log: tuple[float, ...]
    """(log((1+s)/(1−s)) − 2s)/s³ in s², on |s| ≤ 0.172."""
    erf: tuple[float, ...]
    """erf(x)/x in x², on |x| ≤ 1."""


SINGLE = Format(
    ints="i32",
    mantissa=23,
    magic=1.5 * 2**23,
    magic_bits=0x4B400000,
    bias=127,
    tiny=2.0**-126,
    root_half=0x3F3504F3,
    ln2=(0.693359375, -2.1219444005469058277e-4),
    lg2=(0.30078125, 2.4874566398119521374e-4),
    exp_range=(-104.0, 89.0),
    exp=(
        0.5000000014,
        0.1666666668,
        0.04166646257,
        0.008333310664,
        0.001393391035,
        0.0001989127995,
    ),
    log=(0.666666856, 0.3998855099, 0.2959031736),
    erf=(
        *(1.128379166, -0.376126266, 0.112835938, -0.02685416834),
        *(0.005188994224, -0.000801595619, 7.872582762e-5),
    ),
)
DOUBLE = Format(
    ints="i64",
    mantissa=52,
    magic=1.5 * 2**52,
    magic_bits=0x4338000000000000,
    bias=1023,
    tiny=2.0**-1022,
    root_half=0x3FE6A09E667F3BCD,
    ln2=(float.fromhex("0x1.62e42feep-1"), 1.908214929270587816e-10),
    lg2=(float.fromhex("0x1.34413508p-2"), 1.1451100898021838691e-10),
    exp_range=(-746.0, 710.0),
    exp=(
        *(0.5, 0.166666666666666711, 0.0416666666666666698, 0.00833333333332596637),
        *(0.00138888888888836278, 0.000198412698754088902, 2.48015873259678272e-5),
        *(2.75572546562023364e-6, 2.75572731118109676e-7, 2.51055257611409953e-8),
        2.091490745304636e-9,
    ),
    log=(
        *(0.666666666666666991, 0.399999999998932218, 0.285714286288109956),
        *(0.222222106742385152, 0.181829225135159416, 0.153306173067433049, 0.146300313641228605),
    ),
    erf=(
        *(1.12837916709551257, -0.37612638903183748, 0.11283791670954876, -0.0268661706450762693),
        *(0.00522397762481263732, -8.54832698050941287e-4, 1.2055331099279798e-4),
        *(-1.49255949575960262e-5, 1.64609953381954121e-6, -1.63502562786964984e-7),
        *(1.46593838213400676e-8, -1.13712918310479531e-9, 5.95447158315348262e-11),
    ),
)
