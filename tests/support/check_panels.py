"""A gradient check's panel on a small network, an op whose gradient is wrong, what a page gets."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwright as gw
from gradwright_widgets.panels.check.panel import GradCheckPanel


def bad_cap():
    """A fixture: an op of the user's own, registered, whose vjp is off by a factor."""

    @gw.register("test/bad_cap")
    class BadCap(gw.Op):
        """Cap softly.

        y = tanh(x)
        """

        share: float = gw.attr(0.5, doc="What the vjp is multiplied with.")

        def infer(self, x: Any) -> Any:
            return x.with_shape(x.shape)

        def forward(self, x: Any) -> Any:
            return np.tanh(x)

        def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
            return (gs[0] * (1.0 - ys[0] * ys[0]) * self.share,)

    return BadCap


def model(cap: gw.Op | None = None, name: str = "cap") -> tuple[gw.Graph, dict[str, Any]]:
    rng = np.random.default_rng(0)
    g = gw.Graph("small")
    x = g.placeholder("x", ("B", 4))
    t = g.placeholder("t", ("B",), dtype="int64")
    with g.scope("hidden"):
        w = g.variable("w", (4, 3), init=gw.init.he_normal(seed=0))
        h = gw.nn.softplus(x @ w + g.variable("b", (3,)))
    if cap is not None:
        h = cap(h, name=name)
    logits = h @ g.variable("w2", (3, 2), init=gw.init.xavier_uniform(seed=1))
    gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    return g, {"x": rng.standard_normal((5, 4)).astype("f4"), "t": rng.integers(0, 2, 5)}


def opened(g: gw.Graph, feeds: Any = None, **options: Any) -> GradCheckPanel:
    return GradCheckPanel(g, loss=options.pop("loss", "loss"), feeds=feeds or {}, **options)


def whole(panel: Any) -> dict[str, Any]:
    """Return what a new page is told."""
    return panel.new_view_messages()[0][0]
