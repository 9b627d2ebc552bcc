"""What machine code on the CPU takes from the C library, in float64: as formulas for the GPU."""

from __future__ import annotations

from collections.abc import Callable

from gradwright.cpu.llvm.kernels.mathlib import (
    at_edges,
    exp2,
    format_of,
    polynomial,
    power_of,
    split,
)
from gradwright.cpu.llvm.text import Num

TWO_OVER_LN2 = 2.8853900817779268, 4.0710547481862066e-17
"""2/ln 2 in two parts."""
FARTHEST = 1080.0
"""Logarithms from which on powers are 0 or ∞."""


def tan(x: Num) -> Num:
    """Return sine over cosine."""
    return x.code.call("double", "sin", x) / x.code.call("double", "cos", x)


def pow_(x: Num, y: Num) -> Num:
    """Return x to the power y, as C's pow: 2^(y·log₂|x|), the logarithm in two parts."""
    a = x.call("fabs")
    high, low = _log2(a)
    high = at_edges(a, high)
    n = y * high
    rest = y.call("fma", high, -n) + y * low
    rest = (n.call("fabs") < FARTHEST).where(rest, 0.0)
    return power_of(x, y, exp2(n, rest))


def _log2(x: Num) -> tuple[Num, Num]:
    """Return the logarithm of a positive number in two parts, e + 2·artanh s with s = f/(2 + f).

    The quotient has a second part, and so has its product with 2/ln 2. Of the series behind it one
    part is enough: it is a hundredth of the sum.
    """
    e, m = split(x)
    f = m - 1
    d = f + 2
    s = f / d
    s_low = ((-s).call("fma", d, f) - s * (f - (d - 2))) / d
    z = s * s
    tail = s * z * polynomial(z, format_of(x).log)
    factor, factor_low = TWO_OVER_LN2
    high = s * factor
    low = s.call("fma", factor, -high) + s * factor_low + s_low * factor + tail * (factor / 2)
    whole = e + high
    low = (e - whole) + high + low
    total = whole + low
    return total, (whole - total) + low


IN_DOUBLE: dict[str, Callable[..., Num]] = {"tan": tan, "pow": pow_}
"""Functions by name."""
