"""The gamma function's logarithm and all its derivatives, vectorised.

Arguments below 10 are moved up by recurrence, from there on the asymptotic series (Abramowitz and
Stegun 6.1.41, 6.4.11) are right to a rounding error; below 1/2, the reflection formulas take over.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import GraphError
from ...op import ErrorSample, Op, Sample, attr
from ...ops.elementwise import Function, _Binary
from ...ops.index import Array
from ...spec import TensorSpec

_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330, 854513 / 138, -236364091 / 2730,
)  # fmt: skip
_FROM = 10
"""From here on twelve terms of the asymptotic series leave less than a rounding error."""


def _reflected(x: Array) -> tuple[Array, Array]:
    """Return where x is below 1/2, and x or, there, 1 − x."""
    below = x < 0.5
    return below, np.where(below, 1 - x, x)


def _cot(x: Array) -> Array:
    """Return cot πx, from x − round(x), so that large arguments lose nothing."""
    with np.errstate(divide="ignore"):
        y: Array = 1 / np.tan(np.pi * (x - np.rint(x)))
    return y


@functools.cache
def _near_one() -> list[float]:
    """Return the coefficients of ln Γ(1 + e)/e, for |e| <= 0.2, highest first."""
    one = np.ones(())
    return [float(psi(k, one)) / math.factorial(k + 1) for k in range(24)][::-1]


def gammaln(x: Array) -> Array:
    """Return ln |Γ(x)| of float64; near its zeros 1 and 2, the series about them are precise."""
    below, z = _reflected(x)
    n = np.clip(np.ceil(_FROM - z), 0, _FROM)
    product = np.ones_like(z)
    for k in range(_FROM):  # z·(z + 1)·…·(z + n − 1)
        product *= np.where(k < n, z + k, 1.0)
    top = z + n
    with np.errstate(invalid="ignore", over="ignore"):
        series = sum(
            b / (2 * k * (2 * k - 1)) * top ** (1.0 - 2 * k)
            for k, b in enumerate(_BERNOULLI[:9], 1)
        )
        y = (top - 0.5) * (np.log(top) - 1) - 0.5 + 0.5 * math.log(2 * math.pi) + series
        y = np.asarray(np.where(np.isposinf(top), top, y) - np.log(product))
    for zero in (1.0, 2.0):
        near = np.abs(z - zero) <= 0.2
        if near.any():
            e = z[near] - zero
            y[near] = e * np.polyval(_near_one(), e) + (np.log1p(e) if zero == 2 else 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        sine = np.abs(np.sin(np.pi * (x - np.rint(x))))
        y = np.where(below, math.log(math.pi) - np.log(sine) - y, y)
    return np.where(np.isinf(x), np.inf, y)


def psi(n: int, x: Array) -> Array:
    """Return the derivative number n of digamma, of float64."""
    below, z = _reflected(x)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        steps = np.clip(np.ceil(_FROM + n / 2 - z), 0, None)
        total = np.zeros_like(z)
        for k in range(int(_FROM + n / 2) + 1):  # 1/z^(n + 1) + 1/(z + 1)^(n + 1) + …
            total += np.where(k < steps, (z + k) ** -(n + 1.0), 0.0)
        top = z + steps
        if n:
            factor = math.factorial(n - 1)
            series = factor * top**-n * (1 + n / (2 * top)) + sum(
                b * math.factorial(2 * k + n - 1) / math.factorial(2 * k) * top ** -(2.0 * k + n)
                for k, b in enumerate(_BERNOULLI, 1)
            )
            y = (-1) ** (n + 1) * (series + math.factorial(n) * total)
        else:
            series = sum(b / (2 * k) * top ** (-2.0 * k) for k, b in enumerate(_BERNOULLI, 1))
            y = np.log(top) - 0.5 / top - series - total
        mirrored = (-1) ** n * y - math.pi * _cot_derivative(n, x)
    y = np.where(below, mirrored, y)
    pole = (x <= 0) & (x == np.rint(x))
    return np.where(pole, np.nan if n % 2 == 0 else np.inf, y)


def _cot_derivative(n: int, x: Array) -> Array:
    """Return the derivative number n of cot πx, a polynomial in it: c' = −π·(1 + c²)."""
    p = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        p = p.deriv() * np.polynomial.Polynomial([-math.pi, 0.0, -math.pi])
    y: Array = p(_cot(x))
    return y


def _in_double(x: Any) -> Array:
    return np.asarray(x, np.float64)


class Lgamma(Function):
    """Logarithm of the absolute value of the gamma function.

    y = ln |Γ(x)|,  ∂y/∂x = ψ(x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.lgamma(g.constant(5.0), name="y"))["y"]), 4)  # ln 24
    3.1781
    """

    is_method = False
    accepts = "f"
    domain = (0.3, 4.0)

    def forward(self, x: Any) -> Any:
        with np.errstate(over="ignore"):
            return gammaln(_in_double(x)).astype(x.dtype)

    def slope(self, x: Any, y: Any) -> Any:
        return Digamma()(x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([-0.6, -3.4, 30.0, 0.05]),))
        yield Sample((np.array([0.0, -1.0, np.inf, np.nan, 1.0]),), smooth=False)


class Digamma(Function):
    """Derivative of the logarithm of the gamma function.

    y = ψ(x) = Γ'(x)/Γ(x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.digamma(g.constant(1.0), name="y"))["y"]), 4)
    -0.5772
    """

    is_method = False
    accepts = "f"
    domain = (0.3, 4.0)

    def forward(self, x: Any) -> Any:
        return psi(0, _in_double(x)).astype(x.dtype)

    def slope(self, x: Any, y: Any) -> Any:
        return Polygamma(n=1)(x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([-0.6, -3.4, 30.0, 0.2]),))


class Polygamma(Function):
    """Derivative number n of the digamma function.

    y = ψ⁽ⁿ⁾(x) = (−1)ⁿ⁺¹·n!·Σₖ 1/(x + k)ⁿ⁺¹, k = 0, 1, …

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.polygamma(g.constant(1.0), 1, name="y"))["y"]), 4)  # π²/6
    1.6449
    """

    is_method = False
    accepts = "f"
    domain = (0.5, 4.0)
    n: int = attr(doc="Number of the derivative; 0 is digamma itself.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if self.n < 0:
            raise GraphError(f"polygamma: n={self.n} is no derivative", need="n >= 0")
        return super().infer(x)

    def forward(self, x: Any) -> Any:
        with np.errstate(over="ignore"):
            return psi(self.n, _in_double(x)).astype(x.dtype)

    def slope(self, x: Any, y: Any) -> Any:
        return self.replace(n=self.n + 1)(x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            yield Sample(sample.inputs, {"n": 1})
        yield Sample((np.array([-0.6, -1.4, 30.0]),), {"n": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"n": -1}, "is no derivative")
        yield ErrorSample((TensorSpec((2,), "bool"),), {"n": 1}, "does not take bool")


class Betaln(_Binary):
    """Logarithm of the beta function of positive numbers.

    y = ln Γ(a) + ln Γ(b) − ln Γ(a + b)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.betaln(g.constant(2.0), g.constant(3.0), name="y")
    >>> round(float(g.output({}, y)["y"]), 4)  # −ln 12
    -2.4849
    """

    accepts = "f"
    domain = (0.5, 3.0)

    def forward(self, a: Any, b: Any) -> Any:
        return Op.forward(self, a, b)

    def expand(self, a: Any, b: Any) -> Any:
        return Lgamma()(a) + Lgamma()(b) - Lgamma()(a + b)
