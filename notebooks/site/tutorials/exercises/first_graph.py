"""Checks of tutorial 1."""

from __future__ import annotations

from typing import Any

import gradwright as gw

from . import exercise


@exercise
def distance(answer: Any) -> str | None:
    """Hold a distance against that of 3, 4, 5 triangles."""
    if not isinstance(answer, gw.Tensor):
        return f"A tensor is wanted, made of p and q; this is a {type(answer).__name__}."
    if answer.rank:
        return f"A distance is one number, and this has the shape {list(answer.shape)}: sum it up."
    found = float(answer.eval({"p": [1.0, 1.0], "q": [4.0, 5.0]}))
    if abs(found - 25.0) < 1e-4:
        return "This is the square of the distance: a root is missing."
    if abs(found - 5.0) > 1e-4:
        return f"(1, 1) and (4, 5) are 5 apart, and this says {found:g}."
    return None


def riddle() -> gw.Graph:
    """Return a graph with one node that turns the sign."""
    g = gw.Graph("riddle")
    x = g.placeholder("x", (2,))
    with g.scope("grow"):
        h = gw.exp(x) + 1.0
    with g.scope("turn"):
        h = gw.neg(gw.log(h))
    with g.scope("scale"):
        h = h * g.variable("factor", (), init=3.0)
    gw.identity(h, name="riddle")
    return g


@exercise
def negative(name: str) -> str | None:
    """Ask for the first node with negative values."""
    graph = riddle()
    if name not in graph:
        return f"{name!r} is no name in the graph; they are {[n.name for n in graph.nodes]}."
    if (graph.output({"x": [1.0, 2.0]}, name)[name] > 0).all():
        return f"What {name!r} computes is positive."
    if name != "turn/neg":
        return f"{name!r} is negative because what it gets is: go back towards x."
    return None
