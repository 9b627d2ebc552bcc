"""More functions of each element of one tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...op import AFFINE, Autocast, Cotangent, Op, Sample, attr
from ..core.activation import Tanh
from ..core.choice import Clip, Maximum, Where
from ..core.comparison import Round, Sign, _Step
from ..core.elementwise import Abs, Function, _Unary
from ..core.exponential import Exp, Log
from ..core.functions import Log1p
from ..core.index import Array
from ..core.special import erf, erfc, finfo, widened
from .trigonometry import Sin


class _Composed(_Unary):
    """A function of each element, made of other ops."""

    is_method = False
    accepts: ClassVar[str] = "f"

    def forward(self, x: Any) -> Any:
        return Op.forward(self, x)


class Cube(Function):
    """Third power.

    y = x³

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cube(g.constant([2, -1]), name="y"))["y"].tolist()
    [8, -1]
    """

    is_method = False
    accepts = "uifc"

    def forward(self, x: Any) -> Any:
        return x * x * x

    def slope(self, x: Any, y: Any) -> Any:
        return x * x * 3.0


class Exp2(Function):
    """Power of two.

    y = 2ˣ

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.exp2(g.constant(3.0), name="y"))["y"])
    8.0
    """

    autocast = Autocast.POWER
    element = "exp2"
    is_method = False
    accepts = "f"
    ufunc = np.exp2

    def slope(self, x: Any, y: Any) -> Any:
        return y * math.log(2)


class RationalTanh(_Composed):
    """A rational approximation of 1.7159·tanh(2x/3) (LeCun et al. 1998).

    y = 1.7159·sign(x)·(1 − 1/(1 + a + a² + 1.41645·a⁴)),  a = |2x/3|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> print(g.output({}, gw.rational_tanh(g.constant([0.0, 1.0]), name="y"))["y"].round(3))
    [0.    0.998]
    """

    saturates = -1.0, 1.0

    def expand(self, x: Any) -> Any:
        # 1 − 1/(1 + p) is p/(1 + p): up to 1 without a sign, so that the slope at 0 is right,
        # beyond it as 1/(1 + 1/p) in b = 1/a, whose powers do not overflow.
        t = x * (2 / 3)
        far = Abs()(t) > 1.0
        inner, b = Where()(far, 0.0, t), 1.0 / Where()(far, Abs()(t), 1.0)
        a = Abs()(inner)
        rest = a * a * a * 1.41645
        near = inner * (1.0 + a + rest) / (1.0 + a + a * (a + rest))
        beyond = Sign()(t) / (1.0 + b * b * (b * b) / (1.41645 + b * b * (1.0 + b)))
        return Where()(far, beyond, near) * 1.7159


class RectifiedTanh(_Composed):
    """Hyperbolic tangent of what is above 0.

    y = max(0, tanh x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> print(g.output({}, gw.rectified_tanh(g.constant([-1.0, 1.0]), name="y"))["y"].round(3))
    [0.    0.762]
    """

    saturates = 0.0, 1.0

    def expand(self, x: Any) -> Any:
        return Tanh()(Maximum()(x, 0.0))


class Step(_Step):
    """Whether an element is above a cutoff, as 1 or 0.

    y = [x > cutoff]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.step(g.constant([-1.0, 0.0, 2.0]), name="y"))["y"].tolist()
    [0.0, 0.0, 1.0]
    """

    is_method = False
    accepts = "uif"
    cutoff: float = attr(0.0, doc="Elements above it give 1.")

    def forward(self, x: Any) -> Any:
        return (x > self.cutoff).astype(x.dtype)


class Trunc(_Step):
    """Whole number next to an element on the way to 0.

    y = sign(x)·⌊|x|⌋

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.trunc(g.constant([-1.5, 1.5]), name="y"))["y"].tolist()
    [-1.0, 1.0]
    """

    element = "trunc"
    is_method = False
    ufunc = np.trunc


class Sinc(_Composed):
    """Sine over argument, 1 at 0.

    y = sin πx / (πx)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.sinc(g.constant([0.0, 0.5]), name="y"))["y"].round(4).tolist()
    [1.0, 0.6366000175476074]
    """

    domain = (0.2, 2.0)

    def expand(self, x: Any) -> Any:
        near = Abs()(x) < 0.3  # there the series, so that gradients of all orders are right
        inner, outer = Where()(near, x, 0.0) * math.pi, Where()(near, 1.0, x)
        square, series = inner * inner, inner * 0.0 + 1.0
        for k in range(9, 0, -1):
            series = 1.0 - square * series / (2.0 * k * (2 * k + 1))
        turn = outer - Round()(outer * 0.5) * 2.0  # exact, while π·x rounds a phase away
        return Where()(near, series, Sin()(turn * math.pi) / outer * (1 / math.pi))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([0.0, 1e-3, -2e-3]),))


# Giles (2012), single precision: polynomials in w − 2.5 and √w − 3, w = −ln(1 − x²); highest first.
INVERSE_ERF = (
    (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
     -0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
    (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
     -0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)  # fmt: skip


def inverse_erf(x: Array) -> Array:
    """Return y with erf(y) = x: Giles' series, and Halley's method for what float64 resolves."""
    wide = x.astype(np.float64)
    size = np.abs(np.atleast_1d(wide))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        w = -np.log((1 - size) * (1 + size))
        centre, tail = INVERSE_ERF
        y = np.polyval(centre, w - 2.5)
        far = w >= 5
        y[far] = np.polyval(tail, np.sqrt(w[far]) - 3)
        y *= size
        beyond = w > 16  # what only float64 resolves: erfc(y) ≈ exp(−y²)/(y·√π)
        level = -np.log(1 - size[beyond])
        y[beyond] = np.sqrt(level - 0.5 * np.log(math.pi * level))
        for _ in range(2 * (x.dtype == np.float64)):  # of erf and erfc, whichever is precise
            error = np.where(y < 0.5, erf(y) - size, (1 - size) - erfc(y))
            step = error * (math.sqrt(math.pi) / 2) * np.exp(y * y)
            y -= step / (1 + y * step)
        y[size == 1], y[size > 1] = np.inf, np.nan
    return np.copysign(y.reshape(x.shape), wide).astype(x.dtype)


class Erfinv(Function):
    """Inverse of the error function.

    erf(y) = x,  −1 < x < 1

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.erfinv(g.constant(0.5), name="y"))["y"]), 4)
    0.4769
    """

    autocast = Autocast.POWER
    is_method = False
    accepts = "f"
    domain = (-0.9, 0.9)

    def forward(self, x: Any) -> Any:
        return inverse_erf(x)

    def slope(self, x: Any, y: Any) -> Any:
        return Exp()(y * y) * (math.sqrt(math.pi) / 2)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([-1.0, 0.0, 1.0, 1e-9]),), smooth=False)


class Logit(_Composed):
    """Logarithm of the odds: the inverse of the sigmoid.

    y = ln(x/(1 − x)),  x brought into [eps, 1 − eps] first

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> round(float(g.output({}, gw.logit(g.constant(0.75), name="y"))["y"]), 4)
    1.0986
    """

    autocast = Autocast.POWER
    domain = (0.1, 0.9)
    eps: float | None = attr(None, doc="Distance from 0 and 1 that is kept; None: none.", least=0.0)

    def expand(self, x: Any) -> Any:
        if self.eps is not None:
            x = Clip()(x, self.eps, 1.0 - self.eps)
        return Log()(x) - Log1p()(-x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([0.0, 0.3, 1.0]),), {"eps": 0.1})


class NanToNum(_Unary):
    """Numbers in place of NaN and infinities.

    y = nan where x is NaN, posinf or neginf where x = ±∞ (None: the largest number), else x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([float("nan"), float("inf"), 1.0])
    >>> g.output({}, gw.nan_to_num(x, posinf=9.0, name="y"))["y"].tolist()
    [0.0, 9.0, 1.0]
    """

    is_method = False
    accepts = "f"
    dependence = AFFINE
    nan: float = attr(0.0, doc="What NaN becomes.")
    posinf: float | None = attr(None, doc="What ∞ becomes; None: the largest number.")
    neginf: float | None = attr(None, doc="What −∞ becomes; None: the lowest number.")

    def forward(self, x: Any) -> Any:
        limits = finfo(x.dtype)
        high = limits.max if self.posinf is None else self.posinf
        low = limits.min if self.neginf is None else self.neginf
        wide = widened(x)
        y = np.where(wide != wide, self.nan, wide)
        y = np.where(wide == np.inf, float(high), np.where(wide == -np.inf, float(low), y))
        return y.astype(x.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x,) = gs, xs
        return (Where()(Abs()(x) < math.inf, g, 0.0),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        odd = np.array([np.nan, np.inf, -np.inf, 1.0])
        yield Sample((odd,), {"nan": 7.0, "posinf": 9.0, "neginf": -9.0}, smooth=False)
