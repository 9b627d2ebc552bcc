"""Smooth activations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError
from ...op import Autocast, Cotangent, ErrorSample, OnnxRule, Sample, attr
from ...spec import TensorSpec
from ..core.activation import Elu, Sigmoid, Softplus, Tanh, _Activation, _Composed
from ..core.choice import Clip, Where
from ..core.elementwise import Abs
from ..core.exponential import Exp
from ..core.movement import cast_to, widen
from ..core.special import at_least, at_most, widened


class LogSigmoid(_Activation):
    """Logarithm of the sigmoid, precise in both tails.

    y = −log(1 + e⁻ˣ)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.log_sigmoid(g.constant([-1000.0, 1000.0])))["log_sigmoid"].tolist()
    [-1000.0, 0.0]
    """

    autocast = Autocast.POWER

    def forward(self, x: Any) -> Any:
        w = widened(x)
        y = np.abs(w, out=np.empty_like(w))  # min(x, 0) − log(1 + e^−|x|)
        np.negative(y, out=y)
        np.exp(y, out=y)
        np.log1p(y, out=y)
        np.subtract(np.minimum(w, 0), y, out=y)
        return y.astype(x.dtype, copy=False)

    def slope(self, x: Any, y: Any) -> Any:
        return Sigmoid()(-x)


class Selu(_Composed):
    """Elu scaled so that activations keep mean 0 and variance 1 (Klambauer et al. 2017).

    y = γ·x for x > 0, else γ·α(eˣ − 1)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.selu(g.constant([-100.0, 1.0])))["selu"].round(4).tolist()
    [-1.7581000328063965, 1.0506999492645264]
    """

    alpha: float = attr(1.6732632423543772, doc="Minus the limit for x → −∞, before scaling.")
    gamma: float = attr(1.0507009873554805, doc="Scale.")
    onnx = OnnxRule("Selu", since=6)

    def expand(self, x: Any) -> Any:
        return Elu(alpha=self.alpha)(x) * self.gamma


class Celu(_Activation):
    """Elu whose slope is continuous for every α (Barron 2017).

    y = max(x, 0) + min(α(exp(x/α) − 1), 0)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.celu(g.constant([-100.0, 1.0]), alpha=2.0))["celu"].tolist()
    [-2.0, 1.0]
    """

    alpha: float = attr(1.0, doc="Minus the limit for x → −∞.")
    onnx = OnnxRule("Celu", since=12)

    def infer(self, x: TensorSpec) -> TensorSpec:
        if not self.alpha > 0:
            raise GraphError(f"celu: alpha={self.alpha} is not positive", need="alpha > 0")
        return super().infer(x)

    def forward(self, x: Any) -> Any:
        alpha = x.dtype.type(self.alpha)
        return at_least(x, 0) + alpha * np.expm1(at_most(x, 0) / alpha)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x,) = gs, xs
        decay = Exp()(Where()(x > 0, 0, x) / self.alpha)  # y/α + 1 would cancel
        return (Where()(x > 0, g, g * decay),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((rng.standard_normal(3),), {"alpha": 0.5})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((2,)),), {"alpha": 0.0}, "is not positive")


class Softsign(_Activation):
    """Sigmoid with polynomial tails (Bergstra et al. 2009).

    y = x/(1 + |x|)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.softsign(g.constant([-3.0, 1.0])))["softsign"].tolist()
    [-0.75, 0.5]
    """

    saturates = -1.0, 1.0
    onnx = OnnxRule("Softsign", since=1)

    def forward(self, x: Any) -> Any:
        y = np.abs(x, out=np.empty_like(x))
        y += x.dtype.type(1)
        return np.divide(x, y, out=y)

    def slope(self, x: Any, y: Any) -> Any:
        r = 1 / (1 + Abs()(x))
        return r * r


class Swish(_Composed):
    """Input times its sigmoid, of which α is the steepness (Ramachandran, Zoph and Le 2017).

    y = x·sigmoid(α·x); silu is the case α = 1

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.swish(g.constant([0.0, 2.0]), alpha=100.0))["swish"].tolist()
    [0.0, 2.0]
    """

    alpha: float = attr(1.0, doc="Steepness; torch and Keras call it beta.")
    onnx = OnnxRule("Swish", since=24)

    def expand(self, x: Any) -> Any:
        return x * self.gate(x)

    def gate(self, x: Any) -> Any:
        """Return sigmoid(α·x)."""
        return Sigmoid()(x if self.alpha == 1.0 else x * self.alpha)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        s = self.gate(xs[0])
        return (gs[0] * (s + ys[0] * (1 - s) * self.alpha),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((rng.standard_normal(3),), {"alpha": -0.7})


class QuickGelu(_Composed):
    """Gelu by a sigmoid (Hendrycks and Gimpel 2016).

    y = x·sigmoid(1.702·x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.quick_gelu(g.constant([0.0, 1.0])))["quick_gelu"].round(4)
    array([0.    , 0.8458], dtype=float32)
    """

    def expand(self, x: Any) -> Any:
        return Swish(alpha=1.702)(x)


class Mish(_Composed):
    """Input times the hyperbolic tangent of its softplus (Misra 2019).

    y = x·tanh(log(1 + eˣ))

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.mish(g.constant([0.0, 1.0])))["mish"].round(4)
    array([0.    , 0.8651], dtype=float32)
    """

    onnx = OnnxRule("Mish", since=18)

    def expand(self, x: Any) -> Any:
        return x * Tanh()(Softplus()(x))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        x = Clip()(widen(xs[0]), -1000.0, 1000.0)  # beyond, it is 0 or 1, and 0·∞ is neither
        share = Sigmoid()(-x)
        square = share * share
        bend = square * 4.0 / ((square + 1.0) * (square + 1.0))  # 1 − tanh², which would cancel
        slope = Tanh()(Softplus()(x)) + x * (Sigmoid()(x) * bend)
        return (gs[0] * cast_to(xs[0].dtype, slope),)


class TanhShrink(_Composed):
    """What the hyperbolic tangent takes away.

    y = x − tanh x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.tanh_shrink(g.constant([0.0, 100.0])))["tanh_shrink"].tolist()
    [0.0, 99.0]
    """

    def expand(self, x: Any) -> Any:
        return x - Tanh()(x)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        t = Tanh()(xs[0])
        return (gs[0] * (t * t),)  # 1 − (1 − t²) would cancel near 0
