"""Small networks whose gradients are explained: a classifier with open ends, and recurrences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradwright as gw

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
X, T = RNG.standard_normal((32, 8)).astype("f4"), RNG.integers(0, 4, 32)
FEEDS = {"x": X, "t": T}


class Net:
    """x -> layers of w, b and an activation ``h`` -> logits ``z``; ``loss`` closes it."""

    def __init__(
        self,
        act: Callable[[Any], Any] = gw.nn.relu,
        *,
        depth: int = 1,
        bias: float = 0.0,
        scale: float = 1.0,
        dtype: str = "float32",
        out: Any = None,
    ) -> None:
        self.g = gw.Graph("net")
        self.x = self.g.placeholder("x", ("B", 8), dtype)
        self.t = self.g.placeholder("t", ("B",), "int64")
        h, n = self.x, 8
        for k in range(depth):
            with self.g.scope(f"layer{k}"):
                w = self.g.variable("w", (n, 16), gw.init.xavier_uniform(seed=k), dtype)
                self.g.values[w.name] = (self.g.values[w.name] * scale).astype(w.dtype)
                h = act(h @ w + self.g.variable("b", (16,), bias, dtype))
            n = 16
        self.h = h
        out = gw.init.xavier_uniform(seed=9) if out is None else out
        self.w2 = self.g.variable("out/w", (16, 4), out, dtype)
        self.z = h @ self.w2

    def loss(self, z: gw.Tensor | None = None) -> gw.Tensor:
        """Return the cross entropy of logits."""
        logits = self.z if z is None else z
        return gw.loss.sparse_softmax_cross_entropy(self.t, logits, name="loss")

    def why(
        self, loss: gw.Tensor, parameter: str = "layer0/w", **feeds: Any
    ) -> gw.debug.Explanation:
        """Explain the gradient of a loss, and hold its norm against the gradient's own."""
        found = gw.explain_gradient(self.g, loss, parameter, {**FEEDS, **feeds})
        held_against_the_gradient(found, self.g, loss, {**FEEDS, **feeds})
        return found


def held_against_the_gradient(
    found: gw.debug.Explanation, g: gw.Graph, loss: gw.Tensor, feeds: dict[str, Any]
) -> None:
    """Hold norm, share of zeros and verdict against what ``gw.gradients`` gives in training."""
    parameter = g[found.parameter]
    if found.verdict == "unreachable":
        try:
            gw.gradients(loss, [parameter])
        except gw.errors.GradientError:
            return
        raise AssertionError("it is reached")
    (slope,) = gw.gradients(loss, [parameter])
    used = {k: v for k, v in feeds.items() if k in {t.name for t in g.placeholders}}
    with gw.Session(g) as session:
        array = np.asarray(session.run(slope, used, training=True), np.float64)
    if found.verdict == "nonfinite":
        assert not np.isfinite(array).all()
        return
    norm = np.linalg.norm(array)
    np.testing.assert_allclose(found.norm, norm, rtol=2e-2, atol=1e-6)
    if found.verdict == "zero":
        assert norm < 1e-6
    else:
        assert abs(found.zeros - (array == 0).mean()) < 0.02


def recurrence(size: float, turns: int = 30, act: Any = gw.tanh) -> tuple[gw.Graph, gw.Tensor]:
    """Return h ← act(h·w + v) over ``x``, where w turns and scales by ``size``."""
    g = gw.Graph("recurrence")
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0]
    w = g.variable("w", init=(size * turn).astype("f4"))
    h0, x = g.variable("h0", (6,), init=0.1), g.placeholder("x", (turns, 6))
    last, _ = gw.scan(lambda h, v: (act(h @ w + 0.01 * v), ()), h0, x, name="rnn")
    return g, gw.square(last).sum(name="loss")
