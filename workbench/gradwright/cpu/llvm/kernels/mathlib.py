"""Elementary functions as straight lines of arithmetic, so that loops over them become vector code.

Every function reduces its argument to a short interval and takes a polynomial there, whose
coefficients interpolate the function at Chebyshev nodes (computed with 60 digits). Errors are at
most 4 units in the last place; results keep subnormals, infinities, NaN and the sign of zero. The
float64 versions of sin, cos, tan and pow are the C library's, one element at a time.

The shape of exp and log (k·ln 2 in two parts, log(1+f) by s = f/(2+f)) is that of fdlibm; erfc by
exp(−x²) and a polynomial in (x−K)/(x+K) is that of Shepherd and Laframboise, Math. Comp. 36, 1981.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from ..formats import DOUBLE, SINGLE, Format
from ..text import Num


def format_of(x: Num) -> Format:
    """Return the format that a number has."""
    return SINGLE if x.type == "float" else DOUBLE


def polynomial(x: Num, coefficients: Sequence[float]) -> Num:
    """Return c₀ + c₁x + c₂x² + … by Horner's rule."""
    total = x.of(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total.madd(x, c)
    return total


def _clamp(x: Num, low: float, high: float) -> Num:
    """Return x within bounds, NaN as it is."""
    x = (x < low).where(x.of(low), x)
    return (x > high).where(x.of(high), x)


# Exponentials ---------------------------------------------------------------------------------


def _nearest(x: Num) -> tuple[Num, Num]:
    """Return the integer nearest to a small x, as a float and as an int."""
    form = format_of(x)
    shifted = x + form.magic
    whole = shifted - form.magic
    return whole, shifted.to("bitcast", form.ints) - form.magic_bits


def _power_of_two(k: Num) -> Num:
    """Return 2ᵏ for an int k whose power is a normal number."""
    form, type_ = (SINGLE, "float") if k.type == "i32" else (DOUBLE, "double")
    return ((k + form.bias) << form.mantissa).to("bitcast", type_)


def _scale(x: Num, k: Num) -> Num:
    """Return x · 2ᵏ for any k within twice the exponent's range, rounding subnormals once."""
    half = k >> 1
    return x * _power_of_two(half) * _power_of_two(k - half)


def _reduce(x: Num) -> tuple[Num, Num, Num]:
    """Return k as float and int, and r with x = k·ln 2 + r and |r| ≤ ½ ln 2."""
    high, low = format_of(x).ln2
    k, power = _nearest(x * (1 / math.log(2)))
    return k, power, (-k).madd(low, (-k).madd(high, x))


def _exp_of_rest(r: Num) -> Num:
    """Return eʳ − 1 for |r| ≤ ½ ln 2."""
    return (r * r).madd(polynomial(r, format_of(r).exp), r)


def _exponential(x: Num) -> tuple[Num, Num, Num]:
    """Return whether x is below exp's range, else k and eʳ − 1."""
    low, high = format_of(x).exp_range
    below = x < low
    _, k, r = _reduce((x > high).where(x.of(high), below.where(x.of(0.0), x)))
    return below, k, _exp_of_rest(r)


def exp(x: Num) -> Num:
    """Return eˣ = 2ᵏ·eʳ, and 0 below its range.

    No product makes that 0: one that underflows takes 100 cycles, and masks are full of them.
    """
    is_zero, k, rest = _exponential(x)
    return is_zero.where(x.of(0.0), _scale(rest + 1, k))


def exp2(x: Num, rest: Num | None = None) -> Num:
    """Return 2ˣ = 2ᵏ·e^(r ln 2), of x + rest where x alone has too few digits."""
    form = format_of(x)
    x = _clamp(x, -2.0 * form.bias + 100 if form is SINGLE else -1080, form.bias + 1)
    whole, k = _nearest(x)
    r = x - whole if rest is None else (x - whole) + rest
    return _scale(_exp_of_rest(r * math.log(2)) + 1, k)


def _less_one(k: Num, rest: Num) -> Num:
    """Return (2ᵏ·eʳ − 1)/2 for 2ᵏ⁻¹ that is a normal number."""
    half = _power_of_two(k - 1)
    return half.madd(rest, half - 0.5)


def expm1(x: Num, is_beside_exp: bool = False) -> Num:
    """Return eˣ − 1 = 2(2ᵏ⁻¹(eʳ − 1) + 2ᵏ⁻¹ − ½).

    Where exp of the same x is taken, too, k and eʳ − 1 are that one's: then it costs a fifth, but
    alone it would take a tenth longer. The bits are the same.
    """
    form = format_of(x)
    if is_beside_exp:
        _, k, rest = _exponential(x)
        y = (x < -float(form.mantissa + 2)).where(x.of(-0.5), _less_one(k, rest))
    else:
        _, k, r = _reduce(_clamp(x, -float(form.mantissa), form.exp_range[1]))
        y = _less_one(k, _exp_of_rest(r))
    return (x.call("fabs") < 2.0 ** -(form.mantissa + 2)).where(x, y + y)


def tanh(x: Num) -> Num:
    """Return −t/(t + 2) with t = e^(−2|x|) − 1, under x's sign."""
    a, mantissa = x.call("fabs"), format_of(x).mantissa
    near = (a > mantissa / 2 + 1).where(x.of(mantissa / 2 + 1), a)
    _, k, r = _reduce(near * -2)
    y = _less_one(k, _exp_of_rest(r))
    t = y + y
    tiny = a < 2.0 ** -(mantissa + 2)
    return tiny.where(a, -t / (t + 2)).call("copysign", x)


def sigmoid(x: Num) -> Num:
    """Return 1/(1 + e⁻ˣ), from e^(−|x|), which cannot overflow."""
    e = exp(-x.call("fabs"))
    return (x < 0).where(e, 1) / (e + 1)


# Logarithms -----------------------------------------------------------------------------------


def split(x: Num) -> tuple[Num, Num]:
    """Return e and m with x = 2ᵉ·m and √½ ≤ m < √2, for positive finite x."""
    form = format_of(x)
    is_small = x < form.tiny
    bits = is_small.where(x * 2.0**form.mantissa, x).to("bitcast", form.ints)
    e = (bits - form.root_half) >> form.mantissa
    m = (bits - (e << form.mantissa)).to("bitcast", x.type)
    exponent = e.to("sitofp", x.type)
    return is_small.where(exponent - form.mantissa, exponent), m


def log_parts(f: Num) -> tuple[Num, Num]:
    """Return ½f² and s(½f² + R), of which log(1+f) = f − (½f² − s(½f² + R))."""
    s = f / (f + 2)
    z = s * s
    half = f * f * 0.5
    return half, s * (half + z * polynomial(z, format_of(f).log))


def at_edges(x: Num, y: Num) -> Num:
    """Return the logarithm y, or its limit where x is 0, below 0, ∞ or NaN."""
    y = (x.call("fabs").compare("olt", math.inf)).where(y, x)
    y = (x < 0).where(x.of(math.nan), y)
    return x.equals(0).where(x.of(-math.inf), y)


def _log(x: Num, extra: Num | None = None) -> Num:
    """Return log x for positive finite x, plus ``extra``."""
    high, low = format_of(x).ln2
    e, m = split(x)
    f = m - 1
    half, rest = log_parts(f)
    small = e.madd(low, rest)
    if extra is not None:
        small = small + extra
    return e.madd(high, f - (half - small))


def log(x: Num) -> Num:
    """Return the natural logarithm."""
    return at_edges(x, _log(x))


def log1p(x: Num) -> Num:
    """Return log(1 + x): of u = 1 + x rounded, and what rounding lost over u."""
    u = x + 1
    lost = (x > 1).where((x - u) + 1, x - (u - 1))
    y = at_edges(u, _log(u, lost / u))
    return (x.call("fabs") < 2.0 ** -(format_of(x).mantissa + 2)).where(x, y)


def log2(x: Num) -> Num:
    """Return log₂ x = e + log(m)/ln 2."""
    e, m = split(x)
    f = m - 1
    half, rest = log_parts(f)
    return at_edges(x, (f - (half - rest)).madd(1 / math.log(2), e))


def log10(x: Num) -> Num:
    """Return log₁₀ x = e·log₁₀ 2 + log(m)/ln 10."""
    high, low = format_of(x).lg2
    e, m = split(x)
    f = m - 1
    half, rest = log_parts(f)
    y = (f - (half - rest)) * (1 / math.log(10))
    return at_edges(x, e.madd(high, e.madd(low, y)))


# Error functions ------------------------------------------------------------------------------

NEGATIVE_LOG_ERFC = (
    *(-0.0002998213212, 1.13014882, 0.6319749594, 0.1099354459, -0.02633626568),
    *(0.004728751551, -0.0005900143628, 4.522831461e-5, -1.594001235e-6),
)
"""−log(erfc x) on 1 ≤ x ≤ 4.1, where erf in float32 leaves 1."""
ERFCX_SINGLE = (
    *(1.2530080591428, -0.13562110874309, -0.047562404406535, 0.1296452433952),
    *(-0.11927137708937, 0.068307999581449, -0.023787735988358, 0.0025208011455109),
    *(0.0019430951614388, -0.00073031811880801, -0.0001651388549958, 4.1881651589501e-5),
)
"""e^(x²)·erfc(x)·(1 + 2x) in (x−3)/(x+3), on 0 ≤ x ≤ 11."""
ERFCX_DOUBLE = (
    *(1.23299511862555251, -0.139621116840562516, 0.0153796521026201117, 0.0680970542546930409),
    *(-0.101039066036329543, 0.0937328349983332929, -0.0663303658115442027, 0.0371675155378790817),
    *(-0.0161977340670398658, 0.00503196997222568745, -0.000757773214797171853),
    *(-0.000199256642910655651, 0.000150621312176245119, -2.43995054585255443e-5),
    *(-1.12209025043406014e-5, 5.71076947321691303e-6, 2.9164455629391415e-7),
    *(-8.27759191353794477e-7, 7.70349588110278138e-8, 1.13280483042745491e-7),
    *(-1.91062944877791771e-8, -1.66087946718285292e-8, 1.6868082625932293e-9),
    *(2.10310958175703369e-9, 2.91116599553274455e-10),
)
"""e^(x²)·erfc(x)·(1 + 2x) in (x−4)/(x+4), on 0 ≤ x ≤ 28."""


def _erfc_of_positive(a: Num, middle: float, erfcx: Sequence[float]) -> Num:
    """Return erfc of a double a ≥ 0: e^(−a²), with what rounding a² lost, times erfcx."""
    square = a * a
    lost = a.call("fma", a, -square)
    e = exp(-square)
    scaled = polynomial((a - middle) / (a + middle), erfcx) / (a * 2 + 1)
    return (e - e * lost) * scaled


def erf(x: Num) -> Num:
    """Return 2/√π ∫₀ˣ e^(−t²) dt."""
    a = x.call("fabs")
    near = x * polynomial(x * x, format_of(x).erf)
    if x.type == "float":
        far = x.of(1) - exp(-polynomial(_clamp(a, 0, 4.1), NEGATIVE_LOG_ERFC))
    else:
        far = x.of(1) - _erfc_of_positive(_clamp(a, 0, 28), 4.0, ERFCX_DOUBLE)
    return (a < 1).where(near, far.call("copysign", x))


def erfc(x: Num) -> Num:
    """Return 1 − erf(x), precise where it is tiny; float32 goes through float64."""
    if x.type == "float":
        wide = x.to("fpext", "double")
        y = _erfc_of_positive(_clamp(wide.call("fabs"), 0, 11), 3.0, ERFCX_SINGLE)
        return (x < 0).where(y.of(2) - y, y).to("fptrunc", "float")
    a = x.call("fabs")
    y = _erfc_of_positive(_clamp(a, 0, 28), 4.0, ERFCX_DOUBLE)
    y = (x < 0).where(x.of(2) - y, y)
    return (a < 0.5).where(x.of(1) - x * polynomial(x * x, DOUBLE.erf), y)


# Circular functions ---------------------------------------------------------------------------

SIN = (-0.16666666663833, 0.0083333318659594, -0.00019840082012766, 2.7249314054699e-6)
"""(sin(r)/r − 1)/r² in r², on |r| ≤ π/4."""
COS = (0.041666666664302, -0.0013888887664714, 2.4800596435622e-5, -2.7300448619488e-7)
"""(cos(r) − 1 + r²/2)/r⁴ in r², on |r| ≤ π/4."""
TWO_OVER_PI = (0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561)
"""The first 256 binary digits of 2/π."""


def _two_over_pi(skip: Num) -> tuple[Num, Num]:
    """Return the digits of 2/π after the first ``skip`` < 128, as a fraction in two doubles."""
    is_far, shift = skip > 63, skip & 63
    words = [is_far.where(skip.of(far), near) for near, far in itertools.pairwise(TWO_OVER_PI)]
    rest = skip.of(63) - shift
    first, second = (
        (a << shift) | b.op("lshr", 1).op("lshr", rest) for a, b in itertools.pairwise(words)
    )
    second = (first << 52) | second.op("lshr", 12)
    one = DOUBLE.bias << 52
    high, low = ((w.op("lshr", 12) | one).to("bitcast", "double") - 1 for w in (first, second))
    return high, low * 2.0**-52


def _quadrant(x: Num) -> tuple[Num, Num, Num]:
    """Return q mod 4, sin r and cos r in float64, with x = q·π/2 + r: exact for every float32.

    Of x·2/π whole turns do not count. With y = x/2ˢ below 2²⁶, still a multiple of four where
    s > 0, these are the first s binary digits of 2/π (Payne and Hanek, SIGNUM 1983).
    """
    exponent = (x.to("bitcast", "i32").op("lshr", 23) & 0xFF).to("zext", "i64")
    skip = (exponent - (SINGLE.bias + 25)).call("smax", 0)
    high, low = _two_over_pi(skip)
    y = x.to("fpext", "double") * _power_of_two(-skip)
    turns = y * high
    whole, quarter = _nearest(turns)
    rest = (turns - whole) + (y.call("fma", high, -turns) + y * low)
    r = rest * (math.pi / 2)
    z = r * r
    sin = (r * z).madd(polynomial(z, SIN), r)
    cos = (z * z).madd(polynomial(z, COS), z.madd(-0.5, 1))
    return quarter.to("trunc", "i32"), sin, cos


def _circular(x: Num, quarter: Num, sin: Num, cos: Num) -> Num:
    """Return the sine of quarter·π/2 + r; NaN where x is none or infinite."""
    y = (quarter & 1).equals(0).where(sin, cos)
    y = (quarter & 2).equals(0).where(y, -y).to("fptrunc", "float")
    return x.call("fabs").compare("olt", math.inf).where(y, math.nan)


def sin(x: Num) -> Num:
    """Return the sine."""
    if x.type == "double":
        return x.code.call("double", "sin", x)
    return x.equals(0).where(x, _circular(x, *_quadrant(x)))


def cos(x: Num) -> Num:
    """Return the cosine."""
    if x.type == "double":
        return x.code.call("double", "cos", x)
    quarter, s, c = _quadrant(x)
    return _circular(x, quarter + 1, s, c)


def tan(x: Num) -> Num:
    """Return sine over cosine."""
    if x.type == "double":
        return x.code.call("double", "tan", x)
    quarter, s, c = _quadrant(x)
    is_even = (quarter & 1).equals(0)
    y = (is_even.where(s, -c) / is_even.where(c, s)).to("fptrunc", "float")
    y = x.call("fabs").compare("olt", math.inf).where(y, math.nan)
    return x.equals(0).where(x, y)


# Powers ---------------------------------------------------------------------------------------


EASY = frozenset({0.5, 1, 2, 3, 4})
"""Exponents, without their signs, of powers that are products or roots."""


def power(x: Num, n: float) -> Num:
    """Return x to a constant power: by products and roots where these do."""
    if abs(n) == 0.5:
        root = x.equals(-math.inf).where(x.of(math.inf), x.call("sqrt").call("fabs"))
        return root if n > 0 else x.of(1) / root
    if abs(n) in EASY:
        y = x
        for _ in range(int(abs(n)) - 1):
            y = y * x
        return y if n > 0 else x.of(1) / y
    with x.code.flagged(""):
        return pow_(x, x.of(n))


def pow_(x: Num, y: Num) -> Num:
    """Return x to the power y, as C's pow: |x|^y = 2^(y·log₂|x|), in float64 for float32."""
    if x.type == "double":
        return x.code.call("double", "pow", x, y)
    a, n = x.call("fabs"), y.to("fpext", "double")
    return power_of(x, y, exp2(n * log2(a.to("fpext", "double"))).to("fptrunc", "float"))


def power_of(x: Num, y: Num, size: Num) -> Num:
    """Return x to the power y, whose size is known where neither of both decides it alone."""
    size = (x.call("fabs").equals(1) & y.equals(y)).where(size.of(1), size)
    is_whole = y.call("rint").equals(y)
    half = y * 0.5
    is_odd = is_whole & half.call("rint").compare("une", half)
    signed = is_odd.where(size.call("copysign", x), size)
    has_none = (x < 0) & x.compare("une", -math.inf) & (is_whole ^ True)
    signed = has_none.where(x.of(math.nan), signed)
    return (y.equals(0) | x.equals(1)).where(x.of(1), signed)


SERIES: dict[str, Callable[..., Num]] = {
    **{"exp": exp, "exp2": exp2, "expm1": expm1, "tanh": tanh, "sigmoid": sigmoid},
    **{"log": log, "log2": log2, "log10": log10, "log1p": log1p, "erf": erf, "erfc": erfc},
    **{"sin": sin, "cos": cos, "tan": tan, "pow": pow_},
}
"""Element functions that are not a few instructions."""
