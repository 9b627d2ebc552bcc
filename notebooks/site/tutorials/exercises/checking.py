"""Checks of tutorial 7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradwright as gw

from . import exercise


@exercise
def softsign(rule: Callable[..., Any]) -> str | None:
    """Hold a rule against differences."""
    op = gw.define_op("tutorial/mended", lambda x: x / (1.0 + np.abs(x)), vjp=rule)
    g = gw.Graph()
    w = g.variable("w", init=[-2.0, 0.3, 1.5])
    loss = (op(w) * g.constant([1.0, 2.0, 3.0])).sum()
    report = gw.gradient_check(g, loss)
    return None if report.passed else report.findings[0].text


def suspects() -> tuple[gw.Graph, gw.Tensor, dict[str, Any]]:
    """Return a graph with four ops of its own, one of them wrong, its loss, and feeds."""
    rules = {
        "double": (lambda x: 2.0 * x, lambda g, y, x: 2.0 * g),
        "cube": (lambda x: x**3, lambda g, y, x: g * 3.0 * np.square(x)),
        "wave": (np.sin, lambda g, y, x: g * y),
        "soft": (np.tanh, lambda g, y, x: g * (1.0 - np.square(y))),
    }
    g = gw.Graph("suspects")
    h = g.placeholder("x", ("B", 3)) @ g.variable("w", (3, 3), init=gw.init.orthogonal(seed=0))
    for name, (forward, rule) in rules.items():
        h = gw.define_op(f"suspects/{name}", forward, vjp=rule)(h, name=name)
    return g, h.sum(name="total"), {"x": [[0.1, 0.2, 0.3], [-0.2, 0.4, 0.1]]}


@exercise
def suspect(name: str) -> str | None:
    """Ask for the op that is to blame."""
    names = ("double", "cube", "wave", "soft")
    if name not in names:
        return f"One of {names} is meant."
    return None if name == "wave" else f"The rule of {name!r} agrees with its differences."


@exercise
def twice(answer: Callable[[Any], bool]) -> str | None:
    """Show a good op, and one whose rule cuts its own derivative off."""
    good = gw.define_op("tutorial/good", np.square, vjp=lambda g, y, x: 2.0 * g * x)
    bad = gw.define_op("tutorial/cut", np.square, vjp=lambda g, y, x: 2.0 * g * gw.stop_gradient(x))
    if not answer(good):
        return "The good op is called wrong."
    if answer(bad):
        return "The bad op is called right: its first derivative is, its second is not."
    return None
