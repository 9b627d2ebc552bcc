"""Activations: functions of each element."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...op import Autocast, Cotangent, OnnxRule, Op, Sample, attr, maker
from ...op.calling import function
from ...spec import kind
from .choice import Minimum, Where
from .elementwise import Abs, Function, Neg, _Unary
from .exponential import Exp
from .movement import cast_to, widen
from .special import Erfc, at_least, at_most, sigmoid, softplus


class _Activation(Function):
    """A function of each element; floats only."""

    namespace = "nn"
    drawing = "activation"
    is_method = False
    accepts: ClassVar[str] = "f"


class _Composed(_Unary):
    """A function of each element, made of other ops; floats only."""

    namespace = "nn"
    drawing = "activation"
    is_method = False
    accepts: ClassVar[str] = "f"

    def forward(self, x: Any) -> Any:
        return Op.forward(self, x)


class Relu(_Activation):
    """Rectified linear unit; the gradient at 0 is 0 (Nair and Hinton 2010).

    y = max(x, 0)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.relu(g.constant([-1.0, 2.0]))
    >>> g.output({}, y)["relu"].tolist()
    [0.0, 2.0]
    """

    is_method = True
    onnx = OnnxRule("Relu", since=6)

    def forward(self, x: Any) -> Any:
        return at_least(x, 0)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (Where()(ys[0] <= 0, 0, gs[0]),)  # not g·[y > 0]: 0·∞ is not 0

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([-1.0, 0.0, 1.0]),), smooth=False)


class Relu6(_Activation):
    """Relu that stops at 6; the gradient at 0 and 6 is 0 (Howard et al. 2017).

    y = min(max(x, 0), 6)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.relu6(g.constant([-1.0, 2.0, 9.0])))["relu6"].tolist()
    [0.0, 2.0, 6.0]
    """

    saturates = 0.0, 6.0
    domain = (-4.0, 10.0)

    def forward(self, x: Any) -> Any:
        return at_most(at_least(x, 0), 6)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (y,) = ys
        return (Where()((y <= 0) | (y >= 6), 0, gs[0]),)


class LeakyRelu(_Activation):
    """Relu with a slope for negative inputs (Maas, Hannun and Ng 2013).

    y = x for x > 0, else negative_slope·x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.leaky_relu(g.constant([-2.0, 2.0]), negative_slope=0.5)
    >>> g.output({}, y)["leaky_relu"].tolist()
    [-1.0, 2.0]
    """

    negative_slope: float = attr(0.01, doc="Slope where x is negative.")
    onnx = OnnxRule("LeakyRelu", since=6, rename={"negative_slope": "alpha"})

    def forward(self, x: Any) -> Any:
        return at_least(x, 0) + x.dtype.type(self.negative_slope) * at_most(x, 0)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (Where()(xs[0] > 0, gs[0], gs[0] * self.negative_slope),)


class Elu(_Activation):
    """Exponential linear unit (Clevert, Unterthiner and Hochreiter 2015).

    y = x for x > 0, else α(eˣ − 1)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.elu(g.constant([-100.0, 2.0])))["elu"].tolist()
    [-1.0, 2.0]
    """

    alpha: float = attr(1.0, doc="Minus the limit for x → −∞.")
    onnx = OnnxRule("Elu", since=6)

    def forward(self, x: Any) -> Any:
        return at_least(x, 0) + x.dtype.type(self.alpha) * np.expm1(at_most(x, 0))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x,) = gs, xs
        decay = Exp()(Where()(x > 0, 0, x)) * self.alpha  # y + α would cancel
        return (Where()(x > 0, g, g * decay),)


def _is_given(x: Any) -> bool:
    """Tell whether x or −x is fed or a parameter: those are held for a whole step anyway."""
    if isinstance(x.op, Neg):
        (x,) = x.node.inputs
    return x.kind in ("placeholder", "variable")


class Sigmoid(_Activation):
    """Logistic function, precise in both tails.

    y = 1/(1 + e⁻ˣ)

    The slope is y·(1 − y), so that x need not be kept; for large x its relative error in float32 is
    6e-8·eˣ, and from 17 on it is 0. Where x is a placeholder or a variable, it is precise.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.sigmoid(g.constant([-1000.0, 0.0])))["sigmoid"].tolist()
    [0.0, 0.5]
    """

    saturates = 0.0, 1.0
    element = "sigmoid"
    is_method = True
    onnx = OnnxRule("Sigmoid", since=6)

    def forward(self, x: Any) -> Any:
        return sigmoid(x)

    def slope(self, x: Any, y: Any) -> Any:
        return y * (Sigmoid()(-x) if _is_given(x) else 1 - y)


class Tanh(Function):
    """Hyperbolic tangent.

    y = (eˣ − e⁻ˣ)/(eˣ + e⁻ˣ)

    The slope is 1 − y², so that x need not be kept; for large |x| its relative error in float32 is
    2e-8·e^(2|x|), and from 9 on it is 0. Where x is a placeholder or a variable, it is precise.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.tanh(g.constant([0.0, 100.0])))["tanh"].tolist()
    [0.0, 1.0]
    """

    saturates = -1.0, 1.0
    drawing = "activation"
    element = "tanh"
    ufunc = np.tanh
    onnx = OnnxRule("Tanh", since=6)

    def slope(self, x: Any, y: Any) -> Any:
        return tanh_slope(x, y) if kind(x.dtype) == "f" and _is_given(x) else 1 - y * y


maker("nn")(function(Tanh))  # of gw.math, and looked for among activations


def tanh_slope(x: Any, y: Any) -> Any:
    """Return 1/cosh² x = 4·σ(2x)·σ(−2x), where 1 − y² would not cancel as that."""
    far = Sigmoid()(x * 2) * Sigmoid()(x * -2) * 4
    return Where()(Abs()(x) < 1, 1 - y * y, far)


class Softplus(_Activation):
    """Smooth relu; never overflows.

    y = log(1 + eˣ)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.softplus(g.constant([-1000.0, 1000.0])))["softplus"].tolist()
    [0.0, 1000.0]
    """

    autocast = Autocast.POWER
    onnx = OnnxRule("Softplus", since=1)

    def forward(self, x: Any) -> Any:
        return softplus(x)

    def slope(self, x: Any, y: Any) -> Any:
        return Sigmoid()(x)


class Silu(_Composed):
    """Sigmoid-weighted linear unit, also called swish (Elfwing, Uchibe and Doya 2017).

    y = x·sigmoid(x)

    The second derivative has 1 − sigmoid(x): for large x its relative error in float32 is 6e-8·eˣ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.silu(g.constant([-1000.0, 0.0, 1000.0])))["silu"].tolist()
    [-0.0, 0.0, 1000.0]
    """

    def expand(self, x: Any) -> Any:
        return x * Sigmoid()(x)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        s = Sigmoid()(xs[0])
        return (gs[0] * (s + ys[0] * (1 - s)),)


def _normal_cdf(x: Any) -> Any:
    """Return the probability that a standard normal is at most x."""
    return Erfc()(x * -math.sqrt(0.5)) * 0.5


_STEEP = math.sqrt(8 / math.pi)


def _near_cdf(x: Any) -> tuple[Any, Any]:
    """Return about that probability, and x² where it is neither 0 nor 1, or 0·∞ might come.

    It is (1 + tanh u)/2 = σ(2u), which does not cancel for small x.
    """
    square = Minimum()(x * x, 1024.0)
    return Sigmoid()(x * (square * (0.044715 * _STEEP) + _STEEP)), square


class Gelu(_Composed):
    """Gaussian error linear unit (Hendrycks and Gimpel 2016).

    y = x·Φ(x), with Φ the normal distribution function; approximate="tanh" takes
    y = x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.gelu(g.constant([0.0, 1.0])))["gelu"].round(4)
    array([0.    , 0.8413], dtype=float32)
    """

    approximate: str = attr("none", doc="Exact, or by tanh.", choices=("none", "tanh"))
    onnx = OnnxRule("Gelu", since=20)

    def expand(self, x: Any) -> Any:
        if self.approximate == "tanh":
            return x * _near_cdf(x)[0]
        return x * _normal_cdf(x)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x,) = gs, xs
        if self.approximate == "tanh":
            wide = widen(x)  # x² of halves would overflow
            s, square = _near_cdf(wide)
            bend = square * (3 * 0.044715 * _STEEP) + _STEEP
            return (g * cast_to(x.dtype, s + (s * wide) * ((1 - s) * bend)),)
        return (g * (_normal_cdf(x) + x * Exp()(x * x * -0.5) * math.sqrt(0.5 / math.pi)),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((rng.uniform(-2, 2, (3, 4)),), {"approximate": "tanh"})


class HardSigmoid(_Composed):
    """Piecewise linear sigmoid (Howard et al. 2019 with the default slope).

    y = min(max(αx + β, 0), 1)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.hard_sigmoid(g.constant([-9.0, 0.0, 9.0])))["hard_sigmoid"].tolist()
    [0.0, 0.5, 1.0]
    """

    saturates = 0.0, 1.0
    domain = (-4.0, 4.0)
    alpha: float = attr(1 / 6, doc="Slope.")
    beta: float = attr(0.5, doc="Value at 0.")
    onnx = OnnxRule("HardSigmoid", since=6)

    def expand(self, x: Any) -> Any:
        return Relu6()(x * (6 * self.alpha) + 6 * self.beta) / 6
