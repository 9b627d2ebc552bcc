"""Derivatives of activations as ops of their own: y = f′(x), or g·f′(x) where g is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError
from ...op import ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, broadcast, kind, promote
from ..core.activation import Sigmoid, Tanh, tanh_slope
from ..core.choice import Where
from ..core.elementwise import Abs
from ..core.like import OnesLike


class _Derivative(Op):
    """A derivative, times a cotangent if one is given."""

    namespace = "nn"

    def infer(self, x: TensorSpec, g: TensorSpec | None = None) -> TensorSpec:
        for given in (x,) if g is None else (x, g):
            if kind(given.dtype) != "f":
                raise DTypeError(f"{self.name} does not take {given.dtype}", hint="gw.cast")
        if g is None:
            return x.with_shape(x.shape)
        return TensorSpec(broadcast(x.shape, g.shape), promote(x.dtype, g.dtype))

    def expand(self, x: Any, g: Any = None) -> Any:
        y = self.slope(x)
        return y if g is None else g * y

    def slope(self, x: Any) -> Any:
        """Return f′(x)."""
        raise NotImplementedError

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.uniform(-2, 2, (2, 3)), rng.standard_normal((2, 3))))
        yield Sample((rng.uniform(-2, 2, ()),))
        yield Sample((np.array([-1.0, 0.0, 1.0]),), smooth=False)
        yield Sample((np.zeros((0, 2)), np.zeros((0, 2))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,), "int32"),), {}, "does not take int32")
        yield ErrorSample((TensorSpec((2,)), TensorSpec((3,))), {}, "do not broadcast")


class SigmoidDerivative(_Derivative):
    """Derivative of the sigmoid.

    y = g·σ(x)·(1 − σ(x)), with g = 1 unless it is given

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.nn.sigmoid_derivative(g.constant(0.0), name="y"))["y"])
    0.25
    """

    def slope(self, x: Any) -> Any:
        return Sigmoid()(x) * Sigmoid()(-x)  # 1 − σ(x) would cancel for large x


class TanhDerivative(_Derivative):
    """Derivative of the hyperbolic tangent.

    y = g·(1 − tanh² x), with g = 1 unless it is given

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.nn.tanh_derivative(g.constant(0.0), name="y"))["y"])
    1.0
    """

    def slope(self, x: Any) -> Any:
        return tanh_slope(x, Tanh()(x))


class HardTanhDerivative(_Derivative):
    """Derivative of the hard tanh, 0 at its kinks.

    y = g where |x| < 1, else 0, with g = 1 unless it is given

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.hard_tanh_derivative(g.constant([-1.0, 0.5, 2.0]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.0, 1.0, 0.0]
    """

    def slope(self, x: Any) -> Any:
        return Where()(Abs()(x) < 1, OnesLike()(x), 0)


class LeakyReluDerivative(_Derivative):
    """Derivative of the leaky relu, at 0 that of the negative side.

    y = g for x > 0, else g·negative_slope, with g = 1 unless it is given

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.leaky_relu_derivative(g.constant([-1.0, 2.0]), negative_slope=0.5, name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.5, 1.0]
    """

    negative_slope: float = attr(0.01, doc="Slope where x is negative.")

    def slope(self, x: Any) -> Any:
        return Where()(x > 0, OnesLike()(x), self.negative_slope)


class SoftsignDerivative(_Derivative):
    """Derivative of the softsign.

    y = g/(1 + |x|)², with g = 1 unless it is given

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.softsign_derivative(g.constant([0.0, 1.0]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.0, 0.25]
    """

    def slope(self, x: Any) -> Any:
        r = 1 / (1 + Abs()(x))
        return r * r
