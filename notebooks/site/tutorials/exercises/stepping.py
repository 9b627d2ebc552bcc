"""Checks of tutorial 6."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import gradwright as gw

from . import exercise


@exercise
def ablated(
    answer: Callable[[gw.Stepper], Sequence[float]], g: gw.Graph, feeds: Mapping[str, Any]
) -> str | None:
    """Hold the losses without one unit each against runs of other values."""
    found = answer(gw.Stepper(g, fetches=["loss"], feeds=feeds))
    if len(found) != 16:
        return f"A loss for each of 16 units is wanted; there are {len(found)}."
    hidden = g.output(feeds, "hidden/act")["hidden/act"]
    for unit in range(16):
        v = g.values["head/v"].copy()
        v[unit] = 0.0
        right = np.mean((hidden @ v - feeds["t"]) ** 2)
        if abs(found[unit] - right) > 1e-4:
            also = " Are the units before it still 0?" if unit else ""
            return f"Without unit {unit} the loss is {right:.4f}, not {found[unit]:.4f}.{also}"
    return None


def overflowing() -> tuple[gw.Graph, gw.Tensor, dict[str, Any]]:
    """Return a graph in which one node overflows, its end, and feeds."""
    g = gw.Graph("overflow")
    x = g.placeholder("x", (3,))
    with g.scope("scores"):
        scores = gw.square(x) * 2.0
    partition = gw.exp(scores, name="terms").sum(name="partition")
    end = gw.div(1.0, partition, name="share")
    return g, end, {"x": [6.64, 6.64, 6.64]}


@exercise
def overflow(name: str) -> str | None:
    """Ask for the node that makes infinity out of finite numbers."""
    graph, _, feeds = overflowing()
    if name not in graph:
        return f"{name!r} is no name in the graph; they are {[n.name for n in graph.nodes]}."
    if np.isfinite(graph.output(feeds, name)[name]).all():
        return f"What {name!r} gives is finite."
    if name != "partition":
        return f"{name!r} is not the first one."
    return None
