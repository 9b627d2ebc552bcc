"""Checks of tutorial 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradwright as gw

from . import exercise


@exercise
def slope(answer: Callable[[Any, Any], Any]) -> str | None:
    """Hold a slope against the graph's own."""
    g = gw.Graph()
    a, x = g.placeholder("a", ()), g.placeholder("x", ("N",))
    made = answer(a, x)
    (right,) = gw.gradients((a * gw.square(x) + x).sum(), [x])
    feeds = {"a": 3.0, "x": [0.0, 1.0, -2.0]}
    wanted = right.eval(feeds)
    found = np.broadcast_to(made.eval(feeds) if isinstance(made, gw.Tensor) else made, (3,))
    at = np.flatnonzero(~np.isclose(found, wanted, atol=1e-5))
    if not at.size:
        return None
    k = at[0]
    return f"At x = {feeds['x'][k]:g}, a = 3 the slope is {wanted[k]:g}, not {found[k]:g}."


@exercise
def penalised(answer: Callable[[Any, Any], Any]) -> str | None:
    """Hold a penalty on a gradient, and its own gradient, against formulas."""
    g = gw.Graph()
    w = g.variable("w", init=[1.0, -2.0])
    loss = (w**3).sum()
    made = answer(loss, w)
    if made.rank:
        return f"A loss is one number, and this is {made.spec}."
    values = np.array([1.0, -2.0])
    right = (values**3).sum() + 0.1 * (9 * values**4).sum()
    if not np.isclose(made.eval({}), right):
        return f"For L = Σw³ at (1, -2) it should be {right:g}, and is {float(made.eval({})):g}."
    (found,) = gw.gradients(made, [w])
    wanted = 3 * values**2 + 0.1 * 36 * values**3
    if not np.allclose(found.eval({}), wanted, rtol=1e-5):
        return "The value is right, but the penalty has no gradient: is there a stop_gradient?"
    return None
