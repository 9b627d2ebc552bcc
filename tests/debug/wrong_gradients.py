"""Ops whose gradients are right, zero, a little off, or no numbers, and a layer of one."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwright as gw


class _Scale(gw.Op):
    """Triple the input; subclasses get the gradient wrong.

    y = 3x
    """

    def infer(self, x: Any) -> Any:
        return x.with_shape(x.shape)

    def forward(self, x: Any) -> Any:
        return 3 * x


class Right(_Scale):
    """The right gradient."""

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * 3.0,)


class Dead(_Scale):
    """A gradient of exactly zero."""

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * 0.0,)


class Off(_Scale):
    """A gradient that is 0.1 % too large."""

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * 3.003,)


class Broken(_Scale):
    """A gradient that is not a number."""

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        zero = gs[0] * 0.0
        return (zero / zero,)


def linear(op: gw.Op, dtype: str = "float32") -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph()
    x = g.placeholder("x", (None, 3), dtype)
    w = g.variable("w", init=np.array([[1.0, -2.0], [0.5, 3.0], [0.1, -0.4]], dtype))
    with g.scope("layer"):
        h = op(x @ w, name="scaled")
    return g, gw.exp(h * 0.1).sum(name="loss")


X = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.6]])
