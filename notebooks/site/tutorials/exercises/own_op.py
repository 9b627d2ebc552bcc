"""Checks of tutorial 10."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradwright as gw

from . import exercise, filled


@exercise
def log_cosh(rule: Callable[..., Any]) -> str | None:
    """Hold a rule against differences, to the second order."""
    op = gw.define_op("tutorial/log_cosh", lambda x: np.log(np.cosh(x)), vjp=rule)
    g = gw.Graph()
    w = g.variable("w", init=[-2.0, 0.3, 1.5])
    loss = (op(w) * g.constant([1.0, 2.0, 3.0])).sum()
    report = gw.gradient_check(g, loss, order=2)
    return None if report.passed else report.findings[0].text


@exercise
def signed_square(op: type[gw.Op]) -> str | None:
    """Run an op and hold its rule against differences."""
    filled(op().forward(np.ones(3)))
    g = gw.Graph()
    w = g.variable("w", init=[-2.0, 0.5, 3.0])
    y = op()(w)
    found = y.eval({})
    if not np.allclose(found, [-4.0, 0.25, 9.0]):
        return f"Of [-2, 0.5, 3] it is [-4, 0.25, 9], not {np.asarray(found).tolist()}."
    report = gw.gradient_check(g, (y * g.constant([1.0, 2.0, 3.0])).sum())
    return None if report.passed else report.findings[0].text


@exercise
def straight_through(op: Callable[[Any], Any]) -> str | None:
    """Look at values, gradient and what a check makes of them."""
    g = gw.Graph()
    w = g.variable("w", init=[-1.3, 0.4, 2.6])
    y = op(w)
    if y.eval({}).tolist() != [-1.0, 0.0, 3.0]:
        return f"[-1.3, 0.4, 2.6] is rounded to [-1, 0, 3], not {y.eval({}).tolist()}."
    loss = (y * g.constant([1.0, 2.0, 3.0])).sum()
    (slope,) = gw.gradients(loss, [w])
    if slope.eval({}).tolist() != [1.0, 2.0, 3.0]:
        return f"The gradient [1, 2, 3] should come through, not {slope.eval({}).tolist()}."
    if not gw.gradient_check(g, loss).passed:
        return "A check blames it: say of which function the rule is the derivative, surrogate=..."
    return None
