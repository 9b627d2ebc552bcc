"""The error function and its kin, which numpy lacks: as numpy functions, and as ops."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from ...op import OnnxRule
from .elementwise import Function
from .exponential import Exp

Array = np.ndarray[Any, Any]

_BLOCK = 1 << 16
"""Bytes at a time: what a pass writes stays in the cache, and in memory that is used again."""

# Chebyshev coefficients, computed with 50 digits for this file:
# erf(x)/x in 2x² − 1 for |x| <= 1, and (1 + 2x)·exp(x²)·erfc(x) in (x − 3)/(x + 3) for x >= 0.
_CENTRE = (
    0.9754769393826541, -0.14226120510371365, 0.010035582187599796, -0.0005768764699767485,
    2.741993125219606e-05, -1.1043175507344507e-06, 3.8488755420345036e-08, -1.1808582533875466e-09,
    3.2334215826050907e-11, -7.991015947004549e-13, 1.7990725113961456e-14, -3.718635487818693e-16,
)  # fmt: skip
_TAIL = (
    1.17756257419656, 0.005353904539615676, -0.09377550342284209, 0.05436652555744322,
    -0.018976596707845208, 0.004453426061462712, -0.0006335531710553147, 1.76617195231716e-05,
    1.2841532864056678e-05, -2.007228565905985e-06, -1.8075227904147802e-07, 7.549828343825571e-08,
    1.8856685238424233e-09, -2.699519049795542e-09, -1.4600791197594434e-11, 1.0361607446044887e-10,
    1.4757159763282659e-12, -4.2773400657372594e-12, -2.0792249523071558e-13, 1.813450166552367e-13,
    1.9734251398365732e-14, -7.287949010403311e-15, -1.5169940134536708e-15, 2.3513416937719064e-16,
)  # fmt: skip


# erfc(x)·exp(x²)/t in powers of t = 1/(1 + 0.38·x) for 0 <= x <= 10.2, where float32 ends: 2e-8.
_SHORT_TAIL = (
    0.05898968746853445, -0.2623958198343982, 0.36410735660587723, -0.1617521700865844,
    0.23023685040679426, 0.1385550516151828, 0.2039323912078213, 0.21391546280278748,
    0.21441120969487415,
)  # fmt: skip


@functools.cache
def _powers(dtype: np.dtype[Any]) -> tuple[list[Any], list[Any]]:
    """Return the series of the centre and the tail as polynomials, with what a dtype resolves."""
    from numpy import polynomial  # not at the top: 3 ms; whole, since threads may meet here

    cheb2poly = polynomial.chebyshev.cheb2poly

    if dtype == np.float64:
        centre, tail = (list(cheb2poly(series)[::-1]) for series in (_CENTRE, _TAIL))
    else:
        centre, tail = list(cheb2poly(_CENTRE[:7])[::-1]), list(_SHORT_TAIL)
    return [dtype.type(c) for c in centre], [dtype.type(c) for c in tail]


def _horner(coefficients: list[Any], u: Array) -> Array:
    y = np.full_like(u, coefficients[0])
    for c in coefficients[1:]:
        y *= u
        y += c
    return y


def widened(x: Array) -> Array:
    """Return halves and float8 as float32, in which they are computed; others as they are."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


def finfo(dtype: np.dtype[Any]) -> Any:
    """Return the limits of any float dtype, like ``np.finfo``, which knows only numpy's own."""
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def at_least(x: Array, low: Any) -> Array:
    """Return x where it is not below a number, else that; of −0.0 and 0, x, unlike ``np.maximum``.

    >>> at_least(np.array([-0.0, -1.0, np.nan]), 0).tolist()
    [-0.0, 0.0, nan]
    """
    low = x.dtype.type(low)
    if x.dtype.itemsize < 4:  # of halves, the first of equals would be taken
        return np.where(x < low, low, x)
    return np.asarray(np.maximum(low, x))


def at_most(x: Array, high: Any) -> Array:
    """Return x where it is not above a number, else that; of −0.0 and 0, x.

    >>> at_most(np.array([-0.0, 1.0]), 0).tolist()
    [-0.0, 0.0]
    """
    high = x.dtype.type(high)
    if x.dtype.itemsize < 4:
        return np.where(x > high, high, x)
    return np.asarray(np.minimum(high, x))


def _centre(x: Array) -> Array:
    """Return erf(x) for |x| <= 1; relative error 3e-16, in float32 2e-7."""
    y: Array = x * _horner(_powers(x.dtype)[0], 2 * x * x - 1)
    return y


def _tail(x: Array) -> Array:
    """Return erfc(x) for x >= 0; relative error 6e-16 or 4e-7, growing as x² with that of exp."""
    # erfc(27) is below the smallest float64, and inf/inf is not a number
    y = np.minimum(x, 30) if x.dtype == np.float64 else np.minimum(x, np.float32(10.2))
    if x.dtype == np.float64:
        series = _horner(_powers(y.dtype)[1], (y - 3) / (y + 3)) / (1 + 2 * y)
    else:
        t = y * np.float32(0.38)
        t += 1
        np.divide(1, t, out=t)
        series = _horner(_powers(y.dtype)[1], t)
        series *= t
    y *= y
    np.negative(y, out=y)
    np.exp(y, out=y)
    y *= series
    return y


class OfElements(Protocol):
    """A function of each element of floats, as numpy's are."""

    def __call__(self, x: Array, out: Array | None = None) -> Array:
        """Return the values, in ``out`` if it is given."""


def in_blocks(into: Callable[[Array, Array], None]) -> OfElements:
    """Make a function of what writes it for some elements: of many passes, over what is cached."""

    @functools.wraps(into)
    def apply(x: Array, out: Array | None = None) -> Array:
        flat = widened(x).reshape(-1)
        y = np.empty_like(flat) if out is None else out.reshape(-1)
        step = _BLOCK // flat.itemsize
        for start in range(0, flat.size, step):
            at = slice(start, start + step)
            into(flat[at], y[at])
        return y.reshape(x.shape).astype(x.dtype, copy=False)

    return apply


@in_blocks
def erf(x: Array, y: Array) -> None:
    """Return 2/√π ∫₀ˣ exp(−t²) dt.

    >>> erf(np.array([0.0, 0.5, np.inf])).round(6).tolist()
    [0.0, 0.5205, 1.0]
    """
    size = np.abs(x)
    np.copysign(1 - _tail(size), x, out=y)
    np.copyto(y, _centre(np.clip(x, -1, 1)), where=size <= 1)


@in_blocks
def erfc(x: Array, y: Array) -> None:
    """Return 1 − erf(x), precise where that is tiny.

    >>> f"{erfc(np.array(10.0)):.12e}"
    '2.088487583763e-45'
    """
    np.subtract(_tail(np.abs(x)), (x < 0) * x.dtype.type(2), out=y)
    np.abs(y, out=y)


@in_blocks
def sigmoid(x: Array, y: Array) -> None:
    """Return 1/(1 + e⁻ˣ).

    >>> sigmoid(np.array([-1000.0, 0.0])).tolist()
    [0.0, 0.5]
    """
    np.negative(x, out=y)
    with np.errstate(over="ignore"):  # 1/(1 + ∞) is 0, as it should be
        np.exp(y, out=y)
    np.add(y, 1, out=y)
    np.divide(1, y, out=y)  # half the time of a reciprocal


@in_blocks
def softplus(x: Array, y: Array) -> None:
    """Return log(1 + eˣ) = max(x, 0) + log(1 + e^−|x|).

    >>> softplus(np.array([-1000.0, 1000.0])).tolist()
    [0.0, 1000.0]
    """
    np.abs(x, out=y)
    np.negative(y, out=y)
    np.exp(y, out=y)
    np.log1p(y, out=y)
    np.add(y, np.maximum(x, 0), out=y)


def normal_cdf(x: Array) -> Array:
    """Return the probability that a standard normal is at most x."""
    return erfc(-x / math.sqrt(2.0)) / 2


def normal_quantile(p: Array) -> Array:
    """Return the x for which ``normal_cdf(x)`` is p, for 0 < p < 1, in float64.

    The starting value is Abramowitz and Stegun 26.2.23, right to 4.5e-4; two steps of Halley's
    method leave rounding errors only.

    >>> normal_quantile(np.array([0.5, 0.975])).round(6).tolist()
    [0.0, 1.959964]
    """
    lower = np.minimum(p, 1 - p)
    t = np.sqrt(-2 * np.log(lower))
    x = (2.515517 + t * (0.802853 + t * 0.010328)) / (
        1 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    ) - t
    for _ in range(2):
        error = (normal_cdf(x) - lower) * math.sqrt(2 * math.pi) * np.exp(x * x / 2)
        x = x - error / (1 + x * error / 2)
    signed: Array = np.where(p < 0.5, x, 0.0 - x)
    return signed


class Erf(Function):
    """Error function.

    y = 2/√π ∫₀ˣ exp(−t²) dt

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.erf(g.constant([0.0, 0.5])))["erf"].round(4)
    array([0.    , 0.5205], dtype=float32)
    """

    saturates = -1.0, 1.0
    element = "erf"
    accepts = "f"
    onnx = OnnxRule("Erf", since=9)

    def forward(self, x: Any) -> Any:
        return erf(x)

    def slope(self, x: Any, y: Any) -> Any:
        return Exp()(-(x * x)) * (2 / math.sqrt(math.pi))


class Erfc(Function):
    """Complement of the error function, precise where that is tiny.

    y = 1 − erf(x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.erfc(g.constant([0.0, 0.5])))["erfc"].round(4)
    array([1.    , 0.4795], dtype=float32)
    """

    element = "erfc"
    accepts = "f"

    def forward(self, x: Any) -> Any:
        return erfc(x)

    def slope(self, x: Any, y: Any) -> Any:
        return Exp()(-(x * x)) * (-2 / math.sqrt(math.pi))
