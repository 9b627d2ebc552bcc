"""Exponentials, logarithms and roots."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...op import Autocast, OnnxRule
from .elementwise import Function, Inverse


class Exp(Function):
    """Exponential.

    y = eˣ

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.exp(g.constant([0.0, 1.0]))
    >>> print(g.output({}, y)["exp"].round(3))
    [1.    2.718]
    """

    autocast = Autocast.POWER
    element = "exp"
    ufunc = np.exp
    onnx = OnnxRule("Exp", since=6)

    def slope(self, x: Any, y: Any) -> Any:
        return y


class Log(Inverse):
    """Natural logarithm.

    y = ln x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.log(g.constant([1.0, 10.0]))
    >>> print(g.output({}, y)["log"].round(3))
    [0.    2.303]
    """

    autocast = Autocast.POWER
    element = "log"
    ufunc = np.log
    domain = (0.2, 3.0)
    onnx = OnnxRule("Log", since=6)

    def divisor(self, x: Any) -> Any:
        return x


class Sqrt(Function):
    """Square root.

    y = √x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sqrt(g.constant([4.0, 9.0]))
    >>> g.output({}, y)["sqrt"].tolist()
    [2.0, 3.0]
    """

    autocast = Autocast.POWER
    element = "sqrt"
    ufunc = np.sqrt
    domain = (0.2, 3.0)
    onnx = OnnxRule("Sqrt", since=6)

    def slope(self, x: Any, y: Any) -> Any:
        return 0.5 / y
