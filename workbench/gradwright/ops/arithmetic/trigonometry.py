"""Trigonometric and hyperbolic functions, and their inverses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...op import Autocast, Cotangent, OnnxRule
from ...spec import TensorSpec, kind
from ..core.choice import Maximum, Minimum, Where
from ..core.elementwise import Abs, Function, Inverse, _Binary
from ..core.functions import Rsqrt
from ..core.special import finfo


def one_less_square(x: Any) -> Any:
    """Return 1 − x², without what the square rounds off where it is near 1."""
    plain = 1.0 - x * x
    if kind(x.dtype) == "c":
        return plain
    return Where()(Abs()(x) < 0.5, plain, (1.0 - x) * (x + 1.0))


class Sin(Function):
    """Sine.

    y = sin x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sin(g.constant([0.0, 1.5708]))
    >>> g.output({}, y)["sin"].tolist()
    [0.0, 1.0]
    """

    element = "sin"
    ufunc = np.sin
    onnx = OnnxRule("Sin", since=7)

    def slope(self, x: Any, y: Any) -> Any:
        return Cos()(x)


class Cos(Function):
    """Cosine.

    y = cos x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cos(g.constant([0.0, 3.14159]))
    >>> g.output({}, y)["cos"].tolist()
    [1.0, -1.0]
    """

    element = "cos"
    ufunc = np.cos
    onnx = OnnxRule("Cos", since=7)

    def slope(self, x: Any, y: Any) -> Any:
        return -Sin()(x)


class Tan(Function):
    """Tangent.

    y = tan x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.tan(g.constant([0.0, 0.7854]))
    >>> print(g.output({}, y)["tan"].round(3))
    [0. 1.]
    """

    autocast = Autocast.POWER
    element = "tan"
    ufunc = np.tan
    domain = (-1.2, 1.2)
    onnx = OnnxRule("Tan", since=7)

    def slope(self, x: Any, y: Any) -> Any:
        return y * y + 1.0


class Arcsin(Function):
    """Inverse sine.

    y = arcsin x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.arcsin(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["arcsin"].round(3))
    [0.    1.571]
    """

    autocast = Autocast.POWER
    ufunc = np.arcsin
    domain = (-0.9, 0.9)
    onnx = OnnxRule("Asin", since=7)

    def slope(self, x: Any, y: Any) -> Any:
        return Rsqrt()(one_less_square(x))


class Arccos(Function):
    """Inverse cosine.

    y = arccos x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.arccos(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["arccos"].round(3))
    [1.571 0.   ]
    """

    autocast = Autocast.POWER
    ufunc = np.arccos
    domain = (-0.9, 0.9)
    onnx = OnnxRule("Acos", since=7)

    def slope(self, x: Any, y: Any) -> Any:
        return -Rsqrt()(one_less_square(x))


class Arctan(Inverse):
    """Inverse tangent.

    y = arctan x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.arctan(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["arctan"].round(3))
    [0.    0.785]
    """

    ufunc = np.arctan
    onnx = OnnxRule("Atan", since=7)

    def divisor(self, x: Any) -> Any:
        return x * x + 1.0


class Sinh(Function):
    """Hyperbolic sine.

    y = sinh x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sinh(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["sinh"].round(3))
    [0.    1.175]
    """

    autocast = Autocast.POWER
    ufunc = np.sinh
    onnx = OnnxRule("Sinh", since=9)

    def slope(self, x: Any, y: Any) -> Any:
        return Cosh()(x)


class Cosh(Function):
    """Hyperbolic cosine.

    y = cosh x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cosh(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["cosh"].round(3))
    [1.    1.543]
    """

    autocast = Autocast.POWER
    ufunc = np.cosh
    onnx = OnnxRule("Cosh", since=9)

    def slope(self, x: Any, y: Any) -> Any:
        return Sinh()(x)


class Arcsinh(Function):
    """Inverse hyperbolic sine.

    y = arsinh x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.arcsinh(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["arcsinh"].round(3))
    [0.    0.881]
    """

    ufunc = np.arcsinh
    onnx = OnnxRule("Asinh", since=9)

    def slope(self, x: Any, y: Any) -> Any:
        if kind(x.dtype) == "c":
            return Rsqrt()(x * x + 1.0)
        size = Abs()(x)
        far = size > 1e10  # where 1 is less than half a unit of x², which may overflow
        near = Where()(far, 0.0, x)
        return Where()(far, 1.0 / Where()(far, size, 1.0), Rsqrt()(near * near + 1.0))


class Arccosh(Function):
    """Inverse hyperbolic cosine.

    y = arcosh x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.arccosh(g.constant([1.0, 2.0]))
    >>> print(g.output({}, y)["arccosh"].round(3))
    [0.    1.317]
    """

    ufunc = np.arccosh
    domain = (1.2, 3.0)
    onnx = OnnxRule("Acosh", since=9)

    def slope(self, x: Any, y: Any) -> Any:
        return Rsqrt()(x - 1.0) * Rsqrt()(x + 1.0)


class Arctanh(Inverse):
    """Inverse hyperbolic tangent.

    y = artanh x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.arctanh(g.constant([0.0, 0.5]))
    >>> print(g.output({}, y)["arctanh"].round(3))
    [0.    0.549]
    """

    ufunc = np.arctanh
    domain = (-0.9, 0.9)
    onnx = OnnxRule("Atanh", since=9)

    def divisor(self, x: Any) -> Any:
        return one_less_square(x)


class Arctan2(_Binary):
    """Angle of the point (x, y), in (−π, π]; its gradient at (0, 0) is taken to be 0.

    z = arg(x + i·y)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.arctan2(g.constant([1.0, -1.0]), g.constant([1.0, -1.0]))
    >>> print(g.output({}, y)["arctan2"].round(3))
    [ 0.785 -2.356]
    """

    ufunc = np.arctan2
    accepts = "f"
    domain = (0.2, 2.0)

    def infer(self, y: TensorSpec, x: TensorSpec) -> TensorSpec:
        return super().infer(y, x)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        y, x = xs
        size = Maximum()(Abs()(y), Abs()(x))  # squares of what it divides do not overflow
        nothing = size == 0.0
        size = Where()(nothing, 1.0, Minimum()(size, finfo(size.dtype).max))
        y, x = y / size, x / size
        square = Where()(nothing, 1.0, x * x + y * y)
        return lambda: gs[0] * (x / square) / size, lambda: -(gs[0] * (y / square)) / size
