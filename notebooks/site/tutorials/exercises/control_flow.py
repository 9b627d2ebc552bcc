"""Checks of tutorial 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradwright as gw

from . import exercise


@exercise
def huber(answer: Callable[[Any], Any]) -> str | None:
    """Hold values and slopes of the Huber loss against their formulas."""
    g = gw.Graph()
    e = g.placeholder("e", ())
    made = answer(e)
    (slope,) = gw.gradients(made, [e])
    for value in (0.5, -0.25, 3.0, -2.0):
        size = abs(value)
        wanted = 0.5 * value**2 if size <= 1 else size - 0.5
        found = float(made.eval({"e": value}))
        if abs(found - wanted) > 1e-6:
            return f"At {value:g} it should be {wanted:g}, and is {found:g}."
        if abs(float(slope.eval({"e": value})) - np.clip(value, -1, 1)) > 1e-6:
            return f"At {value:g} the value is right and the slope is not."
    if not any(node.op.name == "cond" for node in g.nodes):
        return "Right, but by gw.where or the like: gw.cond was wanted, which runs one branch."
    return None


@exercise
def average(answer: Callable[[Any, Any], Any]) -> str | None:
    """Hold an exponential average against a loop of Python."""
    g = gw.Graph()
    made = answer(g.placeholder("x", ("T",)), g.placeholder("r", ()))
    for length in (1, 4):
        x = np.arange(1.0, length + 1.0)
        state, wanted = 0.0, []
        for value in x:
            state = 0.75 * state + 0.25 * value
            wanted.append(state)
        found = made.eval({"x": x, "r": 0.75})
        if np.shape(found) != (length,):
            return f"For {length} values there should be {length} averages; {made.spec} came out."
        if not np.allclose(found, wanted):
            return f"Of {x.tolist()} with r = 0.75 it is {wanted}, not {found.tolist()}."
    return None


@exercise
def collatz(answer: Callable[[Any], Any]) -> str | None:
    """Count steps in Python beside the graph."""
    g = gw.Graph()
    made = answer(g.placeholder("n", (), dtype="int64"))
    for start in (1, 6, 27):
        n, wanted = start, 0
        while n > 1:
            n, wanted = (n // 2 if n % 2 == 0 else 3 * n + 1), wanted + 1
        found = int(made.eval({"n": start}))
        if found != wanted:
            return f"From {start} it takes {wanted} steps, not {found}."
    return None
