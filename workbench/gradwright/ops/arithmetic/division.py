"""Division rounded towards −∞, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...op import ZERO, Cotangent, OnnxRule
from ..core.elementwise import _Binary


class FloorDiv(_Binary):
    """Quotient rounded towards −∞; steps have no gradient.

    y = ⌊a / b⌋

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.floor_div(g.constant([7, -7]), 2)
    >>> g.output({}, y)["floor_div"].tolist()
    [3, -4]
    """

    element = "floordiv"
    ufunc = np.floor_divide
    accepts = "uif"
    value_rule = True
    domain = (0.5, 2.0)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, ZERO


class Mod(_Binary):
    """Remainder of the division rounded towards −∞; it has the sign of the divisor.

    y = a − b·⌊a / b⌋

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.mod(g.constant([-7, 7]), 3))["mod"].tolist()
    [2, 1]
    """

    element = "mod"
    ufunc = np.remainder
    accepts = "uif"
    value_rule = True
    domain = (0.5, 2.0)
    onnx = OnnxRule("Mod", since=13)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return gs[0], lambda: -gs[0] * FloorDiv()(*xs)
