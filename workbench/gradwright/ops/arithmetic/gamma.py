"""The gamma function's logarithm and all its derivatives, vectorised.

Arguments below 10 are moved up by recurrence, from there on the asymptotic series (Abramowitz and
Stegun 6.1.41, 6.4.11) are right to a rounding error; below 1/2, the reflection formulas take over.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError
from ...op import Autocast, Cotangent, ErrorSample, Sample, attr
from ...spec import TensorSpec
from ..core.elementwise import Function, _Binary, promoted
from ..core.index import Array

BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330, 854513 / 138, -236364091 / 2730,
)  # fmt: skip
_BLOCK = 1 << 13
_HIGHEST = 150
"""The factorials of higher derivatives are beyond float64."""
_FROM = 10
"""From here on twelve terms of the asymptotic series leave less than a rounding error."""


def _reflected(x: Array, start: float = 0.5) -> tuple[Array, Array]:
    """Return where x is below a start, and x or, there, 1 − x."""
    below = x < start
    return below, np.where(below, 1 - x, x)


def _cot(x: Array) -> Array:
    """Return cot πx, from x − round(x), so that large arguments lose nothing."""
    with np.errstate(divide="ignore"):
        y: Array = 1 / np.tan(np.pi * (x - np.rint(x)))
    return y


@functools.cache
def _near_one() -> list[float]:
    """Return the coefficients of ln Γ(1 + e)/e, for |e| <= 0.2, lowest first."""
    one = np.ones(1)
    return [float(psi(k, one)[0]) / math.factorial(k + 1) for k in range(24)]


def _series(coefficients: Sequence[float], u: Array) -> Array:
    """Return Σₖ cₖ·uᵏ."""
    y = np.full_like(u, coefficients[-1])
    for c in coefficients[-2::-1]:
        y *= u
        y += c
    return y


def gammaln(x: Array, single: bool = False) -> Array:
    """Return ln |Γ(x)| of float64; near its zeros 1 and 2, the series about them are precise.

    For a result in single precision, half the steps and terms do.
    """
    below, z = _reflected(x)
    start, terms = (5, 4) if single else (_FROM, 9)
    product, top = np.ones_like(z), z.copy()
    while (low := top < start).any():  # z·(z + 1)·…·(z + n − 1)
        product = np.where(low, product * top, product)
        top += low
    with np.errstate(invalid="ignore", over="ignore"):
        factors = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:terms], 1)]
        y = (top - 0.5) * (np.log(top) - 1) + (0.5 * math.log(2 * math.pi) - 0.5)
        y += _series(factors, 1 / (top * top)) / top - np.log(product)
        y[np.isposinf(top)] = np.inf
    for zero in (1.0, 2.0):
        near = np.abs(z - zero) <= 0.2
        if near.any():
            e = z[near] - zero
            y[near] = e * _series(_near_one(), e) + (np.log1p(e) if zero == 2 else 0.0)
    if below.any():
        with np.errstate(divide="ignore", invalid="ignore"):
            w = x[below]
            sine = np.abs(np.sin(np.pi * (w - np.rint(w))))
            y[below] = math.log(math.pi) - np.log(sine) - y[below]
    y[np.isinf(x)] = np.inf
    return np.asarray(y)


def psi(n: int, x: Array, single: bool = False) -> Array:
    """Return the derivative number n of digamma, of float64; ``single`` as in gammaln."""
    # Of high derivatives the reflection formula cancels all digits: sums go further down.
    below, z = _reflected(x, -40.0 if n else 0.5)
    start, terms = (5 + n // 2, 5) if single else (_FROM + n // 2, 12)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        total, top = np.zeros_like(z), z.copy()
        while (low := top < start).any():  # 1/zⁿ⁺¹ + 1/(z + 1)ⁿ⁺¹ + …
            total += np.where(low, 1 / (top ** (n + 1) if n else top), 0.0)
            top += low
        u = 1 / (top * top)
        if n:
            factors = [
                b * math.factorial(2 * k + n - 1) / math.factorial(2 * k)
                for k, b in enumerate(BERNOULLI[:terms], 1)
            ]
            y = math.factorial(n - 1) * (1 + n / (2 * top)) + u * _series(factors, u)
            y = (-1) ** (n + 1) * (y * top ** -float(n) + math.factorial(n) * total)
        else:
            factors = [b / (2 * k) for k, b in enumerate(BERNOULLI[:terms], 1)]
            y = np.log(top) - 0.5 / top - u * _series(factors, u) - total
        if below.any():
            y[below] = (-1) ** n * y[below] - math.pi * _cot_derivative(n, x[below])
    pole = (x <= 0) & (x == np.rint(x))
    y[pole] = np.nan if n % 2 == 0 else np.inf
    if not n:
        y[x == 0] = np.copysign(np.inf, -x[x == 0])  # the side is known by the sign of 0
    return y


def _cot_derivative(n: int, x: Array) -> Array:
    """Return the derivative number n of cot πx, a polynomial in it: c' = −π·(1 + c²)."""
    p = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        p = p.deriv() * np.polynomial.Polynomial([-math.pi, 0.0, -math.pi])
    y: Array = p(_cot(x))
    return y


def _in_double(function: Callable[..., Array], x: Array) -> Array:
    """Return a function of x, computed in float64 in blocks that stay in the cache."""
    flat, y = np.ravel(x), np.empty(x.size, x.dtype)
    for start in range(0, x.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        with np.errstate(over="ignore"):
            y[part] = function(flat[part].astype(np.float64), single=x.dtype != np.float64)
    return y.reshape(x.shape)


class Lgamma(Function):
    """Logarithm of the absolute value of the gamma function.

    y = ln |Γ(x)|,  ∂y/∂x = ψ(x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.lgamma(g.constant(5.0), name="y"))["y"]), 4)  # ln 24
    3.1781
    """

    autocast = Autocast.POWER
    is_method = False
    accepts = "f"
    domain = (0.3, 4.0)

    def forward(self, x: Any) -> Any:
        return _in_double(gammaln, x)

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

    autocast = Autocast.POWER
    is_method = False
    accepts = "f"
    domain = (0.3, 4.0)

    def forward(self, x: Any) -> Any:
        return _in_double(functools.partial(psi, 0), x)

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
        if not 0 <= self.n <= _HIGHEST:
            raise GraphError(
                f"polygamma: n={self.n} is no derivative", need=f"0 <= n <= {_HIGHEST}"
            )
        return super().infer(x)

    def forward(self, x: Any) -> Any:
        return _in_double(functools.partial(psi, self.n), x)

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
        yield ErrorSample((TensorSpec((2,)),), {"n": 200}, "0 <= n <= 150")
        yield ErrorSample((TensorSpec((2,), "bool"),), {"n": 1}, "does not take bool")


def stirling_rest(x: Array) -> Array:
    """Return what Stirling's formula lacks of ln Γ(x), for x >= 10."""
    factors = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI[:9], 1)]
    return _series(factors, 1 / (x * x)) / x


def log_beta(a: Array, b: Array) -> Array:
    """Return ln B(a, b) of float64; where a number is large, no large terms cancel."""
    p, q = np.minimum(a, b), np.maximum(a, b)
    with np.errstate(invalid="ignore"):
        y = gammaln(p) + gammaln(q) - gammaln(p + q)
    y[(q == np.inf) & (p > 0)] = -np.inf
    large = (q >= _FROM) & (q < np.inf) & (p > 0)
    p, q = p[large], q[large]
    rest = stirling_rest(q) - stirling_rest(p + q)
    ratio = gammaln(p) - p * (np.log(q) - 1)  # ln Γ(p) + ln Γ(q) − ln Γ(p + q), but for 1/q
    both = p >= _FROM
    small, wide = p[both], q[both]
    halves = 0.5 * math.log(2 * math.pi) + stirling_rest(small)
    ratio[both] = halves - 0.5 * np.log(small) + small * np.log(small / wide)
    y[large] = ratio + rest - (p + q - 0.5) * np.log1p(p / q)
    return y


class Betaln(_Binary):
    """Logarithm of the beta function of positive numbers, computed in float64.

    y = ln Γ(a) + ln Γ(b) − ln Γ(a + b), without these terms where they are large (Didonato and
    Morris 1992)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.betaln(g.constant(2.0), g.constant(3.0), name="y")
    >>> round(float(g.output({}, y)["y"]), 4)  # −ln 12
    -2.4849
    """

    accepts = "f"
    domain = (0.5, 3.0)

    def forward(self, a: Any, b: Any) -> Any:
        wide = (np.atleast_1d(x.astype(np.float64)) for x in (a, b))
        y = log_beta(*np.broadcast_arrays(*wide))
        return y.reshape(np.broadcast_shapes(a.shape, b.shape)).astype(promoted(a, b))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (a, b) = gs, xs
        joint = Digamma()(a + b)
        return lambda: g * (Digamma()(a) - joint), lambda: g * (Digamma()(b) - joint)
