"""Two steps of a small network, in this process or another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradwright as gw


def steps(
    n: int = 4,
    scale: float = 0.5,
    table: Any = (1.0, 2.0, 3.0),
    op: Callable[..., Any] = gw.tanh,
    axis: int = 0,
    fetched: str = "loss",
    **options: Any,
) -> tuple[str, list[Any], Any]:
    """Return what became of the plan of two steps of a small network, and what they gave."""
    g = gw.Graph()
    x = g.placeholder("x", ("B", 3))
    with g:
        h = x * g.constant(np.array(table, "f4"))
        for i in range(n):
            w = g.variable(f"w{i}", init=np.full((3, 3), 0.25, "f4"))
            h = op(h @ w) * scale
        loss = gw.sum(gw.mean(gw.square(h), axis=axis), name="loss")
    updates = {
        w: w - 0.1 * d for w, d in zip(g.trainable, gw.gradients(loss, g.trainable), strict=True)
    }
    with gw.Session(g, **{"deterministic": True, **options}) as session:
        feeds = {"x": np.linspace(-1, 1, 12, dtype="f4").reshape(4, 3)}
        found = [session.run(fetched, feeds, updates) for _ in range(2)]
        (plan,) = session.plans
        return plan.kept.state, [*found, *(g.values[w.name] for w in g.trainable)], plan
