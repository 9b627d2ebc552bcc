"""Elementwise functions of one tensor, and powers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...op import ZERO, Autocast, Cotangent, OnnxRule, Sample
from ...spec import kind
from ..numerics.standard import cast, library
from .choice import Where
from .comparison import IsInf
from .elementwise import Function, Inverse, _Binary, conj, promoted
from .exponential import Exp, Log


class Pow(_Binary):
    """Power; of a negative base for whole exponents only, as its gradient.

    y = aᵇ,  ∂y/∂a = b·aᵇ⁻¹,  ∂y/∂b = aᵇ·ln a, both 0 where the power is constant

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (3,))
    >>> dx, = gw.gradients(x**3, [x])
    >>> g.output({"x": [-1.0, 0.0, 2.0]}, dx)[dx.name].tolist()
    [3.0, 0.0, 12.0]
    """

    autocast = Autocast.POWER
    accepts = "uifc"
    is_method = True
    array_api = True
    domain = (0.5, 2.0)
    onnx = OnnxRule("Pow", since=15)

    def forward(self, a: Any, b: Any) -> Any:
        joint = promoted(a, b)
        base, xp = cast(a, joint), library(a)
        if b.ndim == 0 and b == 2:  # ten times faster than the general power
            return xp.square(base)
        return xp.pow(base, cast(b, joint))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (y,), (a, b) = gs, ys, xs

        def base() -> Any:
            p = _known_scalar(b)
            if p in (0, 1):
                return g if p else ZERO
            if p is not None:
                return g * conj(a * 2.0 if p == 2 else a ** (p - 1.0) * p)
            constant = (b == 0.0) & ((a == 0.0) | IsInf()(a))  # 0·0⁻¹ and 0·∞ are not 0
            return g * conj(b * Where()(constant, 1.0, a) ** (b - 1.0))

        def exponent() -> Any:
            flat = a == 0.0
            if kind(b.dtype) != "c":
                flat = flat & (b >= 0.0)
                if kind(a.dtype) != "c":
                    flat = flat | (a == math.inf) & (b < 0.0)
            return g * conj(y * Log()(Where()(flat, 1.0, a)))

        return base, exponent

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([-1.5, 0.0, 2.0]), np.array(3.0)), differentiate=(0,))
        yield Sample((np.array([0.0, 0.0, -2.0]), np.array([0.0, 2.0, -2.0])), differentiate=(0,))


def _known_scalar(t: Any) -> float | None:
    """Return the number that a constant holds, None for all other tensors."""
    if t.kind != "constant" or t.rank or kind(t.dtype) == "c":
        return None
    return float(t.graph.values.array(t.name))


class SquaredDifference(_Binary):
    """Square of the difference of two tensors.

    y = (a − b)²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.squared_difference(g.constant([1.0, 5.0]), g.constant([3.0, 3.0]))
    >>> g.output({}, y)["squared_difference"].tolist()
    [4.0, 4.0]
    """

    accepts = "uif"

    def forward(self, a: Any, b: Any) -> Any:
        return np.square(np.subtract(a, b, dtype=promoted(a, b)))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        g = gs[0] * ((xs[0] - xs[1]) * 2.0)
        return g, lambda: -g


class Square(Function):
    """Square.

    y = x²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.square(g.constant([-2.0, 3.0]))
    >>> g.output({}, y)["square"].tolist()
    [4.0, 9.0]
    """

    element = "square"
    ufunc = np.square
    accepts = "uifc"

    def slope(self, x: Any, y: Any) -> Any:
        return x * 2.0


class Reciprocal(Function):
    """Reciprocal.

    y = 1 / x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.reciprocal(g.constant([2.0, 4.0]))
    >>> g.output({}, y)["reciprocal"].tolist()
    [0.5, 0.25]
    """

    autocast = Autocast.POWER
    element = "reciprocal"
    ufunc = np.reciprocal
    domain = (0.5, 2.0)
    onnx = OnnxRule("Reciprocal", since=6)

    def slope(self, x: Any, y: Any) -> Any:
        return -(y * y)


class Rsqrt(Function):
    """Reciprocal of the square root.

    y = 1 / √x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.rsqrt(g.constant([4.0, 16.0]))
    >>> g.output({}, y)["rsqrt"].tolist()
    [0.5, 0.25]
    """

    autocast = Autocast.POWER
    element = "rsqrt"
    domain = (0.2, 3.0)

    def forward(self, x: Any) -> Any:
        return np.reciprocal(np.sqrt(x))

    def slope(self, x: Any, y: Any) -> Any:
        return y * y * y * -0.5


class Expm1(Function):
    """Exponential less one, precise near 0.

    y = eˣ − 1

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.expm1(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["expm1"].round(3))
    [0.    1.718]
    """

    autocast = Autocast.POWER
    element = "expm1"
    ufunc = np.expm1

    def slope(self, x: Any, y: Any) -> Any:
        return Exp()(x)  # y + 1 would cancel for negative x


class Log1p(Inverse):
    """Logarithm of one more, precise near 0.

    y = ln(1 + x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.log1p(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["log1p"].round(3))
    [0.    0.693]
    """

    autocast = Autocast.POWER
    element = "log1p"
    ufunc = np.log1p
    domain = (-0.5, 2.0)

    def divisor(self, x: Any) -> Any:
        return x + 1.0


class Log2(Inverse):
    """Logarithm to base 2.

    y = log₂ x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.log2(g.constant([1.0, 8.0]))
    >>> g.output({}, y)["log2"].tolist()
    [0.0, 3.0]
    """

    autocast = Autocast.POWER
    element = "log2"
    ufunc = np.log2
    domain = (0.2, 3.0)

    def divisor(self, x: Any) -> Any:
        return x * math.log(2)


class Log10(Inverse):
    """Logarithm to base 10.

    y = log₁₀ x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.log10(g.constant([1.0, 100.0]))
    >>> print(g.output({}, y)["log10"].round(3))
    [0. 2.]
    """

    autocast = Autocast.POWER
    element = "log10"
    ufunc = np.log10
    domain = (0.2, 3.0)

    def divisor(self, x: Any) -> Any:
        return x * math.log(10)
