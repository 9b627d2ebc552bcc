"""Functions of elements that ONNX lacks: signs, angles, divisors, and the gamma function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....graph import Tensor
from ....ops.arithmetic.elementary import INVERSE_ERF
from ....ops.arithmetic.gamma import BERNOULLI
from ....ops.control.loop import while_loop
from ....ops.core.special import finfo
from ....spec import kind
from ..node import cast, op
from ..nodes import spelled
from ..versions import CannotExport


def _where(condition: Any, a: Any, b: Any) -> Any:
    return op("where")(condition, a, b)


def is_negative(x: Tensor) -> Any:
    """Return the sign bit, which 0 has, too."""
    zero = x == 0.0
    return (x < 0.0) | (zero & (1.0 / _where(zero, x, 1.0) < 0.0))


def signed(size: Tensor, like: Tensor) -> Any:
    return _where(is_negative(like), -size, size)


def joined(of: Any, *xs: Tensor) -> list[Any]:
    """Return tensors in the dtype that all have in common; halves as float32, as all are."""
    joint = np.result_type(*(x.dtype for x in xs))
    return [cast(x, joint) for x in xs]


@spelled("copysign")
def copysign(of: Any, a: Tensor, b: Tensor) -> Any:
    a, b = joined(of, a, b)
    return signed(abs(a), b)


@spelled("arctan2")
def arctan2(of: Any, y: Tensor, x: Tensor) -> Any:
    """Take the angle of the shorter side to the longer one, then turn it to its quadrant."""
    y, x = joined(of, y, x)
    a, b = abs(y), abs(x)
    long = op("maximum")(a, b)
    ratio = op("minimum")(a, b) / _where(long == 0.0, 1.0, long)
    angle = op("arctan")(_where((a == b) & (long > 0.0), 1.0, ratio))  # of two infinities, too
    angle = _where(a > b, math.pi / 2 - angle, angle)
    return signed(_where(is_negative(x), math.pi - angle, angle), y)


@spelled("nan_to_num")
def nan_to_num(of: Any, x: Tensor) -> Any:
    limits = finfo(of.infer(x.spec).dtype)
    high = float(limits.max) if of.posinf is None else of.posinf
    low = float(limits.min) if of.neginf is None else of.neginf
    y = _where(op("is_nan")(x), of.nan, x)
    return _where(x == np.inf, high, _where(x == -np.inf, low, y))


@spelled("is_close")
def is_close(of: Any, a: Tensor, b: Tensor) -> Any:
    """Compare differences; equal infinities are close, and none to a number."""
    a, b = joined(of, a, b)
    same = a == b
    if kind(a.dtype) != "f":
        a, b = cast(a, "float64"), cast(b, "float64")
    near = (abs(a - b) <= of.atol + of.rtol * abs(b)) & op("is_finite")(b)
    near = near | same
    return near | (op("is_nan")(a) & op("is_nan")(b)) if of.equal_nan else near


@spelled("heaviside")
def heaviside(of: Any, x: Tensor, values: Tensor) -> Any:
    x, values = joined(of, x, values)
    above = cast(x > 0.0, x.dtype)
    return _where(op("is_nan")(x), x, _where(x == 0.0, values, above))


def _divisor(a: Tensor, b: Tensor) -> Any:
    """Return the greatest common divisor of numbers that are not negative, by Euclid's steps."""

    def step(pair: Any) -> tuple[Any, Any]:
        a, b = pair
        some = b != 0
        return _where(some, b, a), _where(some, op("mod")(a, _where(some, b, 1)), 0)

    shape = (a + b).shape
    a, b = (op("broadcast_to", shape=shape)(x) for x in (a, b))
    return while_loop(lambda pair: op("any")(pair[1] != 0), step, (a, b))[0]


@spelled("gcd", "lcm")
def divisors(of: Any, a: Tensor, b: Tensor) -> Any:
    dtype = of.infer(a.spec, b.spec).dtype
    wide = "uint64" if kind(dtype) == "u" else "int64"
    a, b = (cast(x, wide) for x in (a, b))
    a, b = (a, b) if wide == "uint64" else (abs(a), abs(b))
    d = _divisor(a, b)
    if of.name == "lcm":
        d = op("floor_div")(a, _where(d == 0, 1, d)) * b
    return cast(d, dtype)


def _polynomial(coefficients: Any, x: Any) -> Any:
    """Return Σ cₖ·xᵏ."""
    total: Any = float(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + float(c)
    return total


@spelled("erfinv")
def erfinv(of: Any, x: Tensor) -> Any:
    """Write Giles' series, which has the digits of float32 (Giles 2010)."""
    if x.dtype == np.dtype("float64"):
        raise CannotExport
    size = abs(x)
    w = -op("log")((1.0 - size) * (1.0 + size))
    centre, tail = (np.asarray(c)[::-1] for c in INVERSE_ERF)
    far = op("sqrt")(_where(w < 5.0, 5.0, w)) - 3.0
    y = _where(w < 5.0, _polynomial(centre, w - 2.5), _polynomial(tail, far)) * size
    return signed(_where(size == 1.0, np.inf, y), x)


# -- the gamma function, in float64 ----------------------------------------------------------------

_START = 10.0
"""Where the asymptotic series begin: fewer than ten steps up from 1/2."""


def _up(z: Tensor, term: Any, total: Any, join: Any) -> tuple[Any, Any]:
    """Go up to where the series hold, and join a term for each step."""
    for _ in range(int(_START)):
        low = z < _START
        total = _where(low, join(total, term(z)), total)
        z = _where(low, z + 1.0, z)
    return z, total


def _log_gamma(x: Tensor) -> Any:
    below = x < 0.5
    z = _where(below, 1.0 - x, x)
    top, product = _up(z, lambda t: t, op("ones_like")(z), lambda a, b: a * b)
    terms = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:9], 1)]
    y = (top - 0.5) * (op("log")(top) - 1.0) + (0.5 * math.log(2 * math.pi) - 0.5)
    y = y + _polynomial(terms, 1.0 / (top * top)) / top - op("log")(product)
    y = _where(top == np.inf, np.inf, y)
    sine = abs(op("sin")(math.pi * (x - op("round")(x))))
    return _where(below, math.log(math.pi) - op("log")(sine) - y, y)


@spelled("lgamma")
def lgamma(of: Any, x: Tensor) -> Any:
    return cast(_log_gamma(cast(x, "float64")), x.dtype)


@spelled("betaln")
def betaln(of: Any, a: Tensor, b: Tensor) -> Any:
    """Write ln Γ(a) + ln Γ(b) − ln Γ(a + b), in float64, which for float32 has digits to spare."""
    a, b = joined(of, a, b)
    if a.dtype == np.dtype("float64"):
        raise CannotExport
    wide = [cast(x, "float64") for x in (a, b)]
    y = _log_gamma(wide[0]) + _log_gamma(wide[1]) - _log_gamma(wide[0] + wide[1])
    return cast(y, a.dtype)


@spelled("digamma", "polygamma")
def polygamma(of: Any, x: Tensor) -> Any:
    """Write the series from 10 on, steps up to there, and the reflection of what is below 1/2."""
    n, w = of.attributes().get("n", 0), cast(x, "float64")
    below = w < 0.5
    z = _where(below, 1.0 - w, w)
    top, total = _up(
        z, lambda t: 1.0 / _power(t, n + 1), op("zeros_like")(z), lambda a, b: a + b
    )  # fmt: skip
    u = 1.0 / (top * top)
    if n:
        terms = [
            b * math.factorial(2 * k + n - 1) / math.factorial(2 * k)
            for k, b in enumerate(BERNOULLI[:12], 1)
        ]
        y = math.factorial(n - 1) * (1.0 + n / 2 / top) + u * _polynomial(terms, u)
        y = (-1.0) ** (n + 1) * (y / _power(top, n) + math.factorial(n) * total)
    else:
        terms = [b / (2 * k) for k, b in enumerate(BERNOULLI[:12], 1)]
        y = op("log")(top) - 0.5 / top - u * _polynomial(terms, u) - total
    angle = math.pi * (w - op("round")(w))
    cotangent = op("cos")(angle) / op("sin")(angle)
    slope = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):  # the derivative of cot is −π·(1 + cot²) in x
        slope = -math.pi * np.polynomial.Polynomial([1.0, 0.0, 1.0]) * slope.deriv()
    mirrored = (-1.0) ** n * y - math.pi * _polynomial(slope.coef, cotangent)
    y = _where(below, mirrored, y)
    pole = (w <= 0.0) & (w == op("round")(w))
    y = _where(pole, np.inf if n % 2 else np.nan, y)
    if not n:  # from which side 0 is come from, its sign tells
        y = _where(w == 0.0, signed(op("full_like", fill_value=-np.inf)(w), w), y)
    return cast(y, x.dtype)


def _power(x: Any, n: int) -> Any:
    y = x
    for _ in range(n - 1):
        y = y * x
    return y
