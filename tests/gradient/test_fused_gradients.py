"""Gradients of whole models through machine code, against finite differences of the same plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")


class Model:
    """A graph in float64 that hands out variables."""

    def __init__(self) -> None:
        self.graph, self.rng = gw.Graph(), np.random.default_rng(0)
        self.feeds: dict[str, Any] = {}

    def w(self, *shape: int, size: float = 0.5) -> gw.Tensor:
        """Return a variable of normal numbers."""
        name = f"w{len(self.graph.nodes)}"
        return self.graph.variable(name, init=size * self.rng.standard_normal(shape))

    def x(self, *shape: int) -> gw.Tensor:
        """Return a placeholder that is fed with normal numbers."""
        name = f"x{len(self.graph.nodes)}"
        self.feeds[name] = self.rng.standard_normal(shape)
        return self.graph.placeholder(name, shape, "float64")

    def labels(self, n: int, classes: int) -> gw.Tensor:
        """Return a placeholder that is fed with class numbers."""
        self.feeds["t"] = self.rng.integers(0, classes, n)
        return self.graph.placeholder("t", (n,), "int64")


def mlp(m: Model) -> gw.Tensor:
    h = gw.tanh(m.x(5, 4) @ m.w(4, 6) + m.w(6))
    return gw.loss.sparse_softmax_cross_entropy(m.labels(5, 3), h @ m.w(6, 3) + m.w(3))


def smooth_activations(m: Model) -> gw.Tensor:
    h = m.x(3, 4) @ m.w(4, 5)
    return (gw.nn.gelu(h) * gw.nn.silu(h) + gw.nn.softplus(h) * gw.nn.mish(h)).mean()


def conv(m: Model) -> gw.Tensor:
    h = gw.nn.silu(gw.cnn.conv2d(m.x(2, 2, 5, 5), m.w(3, 2, 3, 3)))
    return (gw.cnn.avg_pool2d(h, kernel_size=2) ** 2.0).sum() + h.std()


def attention(m: Model) -> gw.Tensor:
    x = m.x(2, 3, 4)
    h = gw.nn.layer_norm(x, m.w(4), m.w(4))
    q, k, v = (h @ m.w(4, 4) for _ in range(3))
    h = x + gw.nn.softmax(q @ k.mT * 0.5) @ v @ m.w(4, 4)
    h = h + gw.nn.gelu(gw.nn.rms_norm(h, m.w(4)) @ m.w(4, 6)) @ m.w(6, 4)
    return (h * h).mean()


def norms(m: Model) -> gw.Tensor:
    h = m.x(4, 6) * m.w(6)
    h = gw.nn.layer_norm(h, m.w(6), m.w(6))
    h = gw.nn.rms_norm(h * m.w(4, 6), m.w(6)) + gw.standardize(h, axis=0)
    return (gw.sin(h) * h.var(axis=0)).sum()


def batch_norm(m: Model) -> gw.Tensor:
    x, scale, shift = m.x(5, 3), m.w(3), m.w(3)
    centred = x - x.mean(axis=0)
    y = centred / gw.sqrt((centred * centred).mean(axis=0) + 1e-3) * scale + shift
    return (gw.exp(y) * m.w(5, 3)).sum()


def recurrent(m: Model) -> gw.Tensor:
    u, w = m.w(3, 4), m.w(4, 4)
    carry, ys = gw.scan(
        lambda c, row: (gw.tanh(c @ w + row @ u), c * 2.0),
        m.graph.constant(np.zeros((2, 4))),
        m.x(5, 2, 3),
    )
    return (carry * carry).sum() + ys.mean()


def gated(m: Model) -> gw.Tensor:
    x, h, c = m.x(2, 3), m.w(2, 4), m.w(2, 4)
    for _ in range(3):
        i, f, o, n = gw.split(x @ m.w(3, 16) + h @ m.w(4, 16) + m.w(16), 4, axis=-1)
        c = gw.nn.sigmoid(f) * c + gw.nn.sigmoid(i) * gw.tanh(n)
        h = gw.nn.sigmoid(o) * gw.tanh(c)
    return (h * c).sum()


def special(m: Model) -> gw.Tensor:
    x = gw.nn.softplus(m.w(3, 5)) + 0.1
    y = gw.log(x) + gw.log1p(x) * gw.expm1(-x) + gw.erf(x) / gw.cosh(x) + gw.arctan(x) * gw.sqrt(x)
    return gw.logsumexp(y * m.x(3, 5), axis=1).sum() + (x ** m.w(5)).mean()


def losses(m: Model) -> gw.Tensor:
    x, t = m.w(4, 3), gw.nn.softmax(m.x(4, 3))
    shares = gw.nn.log_softmax(x)
    return -(t * shares).sum() + gw.loss.huber(t, x) + gw.loss.sigmoid_cross_entropy(t, x)


MODELS = [
    mlp, smooth_activations, conv, attention, norms, batch_norm, recurrent, gated, special, losses
]  # fmt: skip


@pytest.mark.parametrize("build", MODELS)
def test_gradients_are_the_slopes_of_the_same_plan(build: Any) -> None:
    """(L(w + h·v) − L(w − h·v)) / 2h along random directions v, and the formulas node by node."""
    m = Model()
    with m.graph:
        loss = build(m)
    weights = [n.outputs[0] for n in m.graph.nodes if n.kind == "variable"]
    grads = gw.gradients(loss, weights)
    start = {w: m.graph.values.array(w.name).copy() for w in weights}
    with gw.Session(m.graph, kernels="wait") as session:
        found = session.run(grads, m.feeds)
        together = session.run([loss, *grads], m.feeds)[1:]
        for w, g, other in zip(weights, found, together, strict=True):
            np.testing.assert_allclose(g, other, rtol=1e-9, atol=1e-12, err_msg=w.name)
            for seed in range(3):
                v = np.random.default_rng(seed).standard_normal(g.shape)
                ends = []
                for h in (1e-4, -1e-4, 2e-4, -2e-4):
                    m.graph.values[w.name] = start[w] + h * v
                    ends.append(float(session.run(loss, m.feeds)))
                m.graph.values[w.name] = start[w]
                # Four points: an error of h⁴ ~ 1e-16 and of rounding, 1e-16 / h ~ 1e-12.
                slope = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / 12e-4
                size = 1e-2 + float(np.abs(g).max())
                assert abs(slope - float((g * v).sum())) < 1e-7 * size, w.name
    assert gw.gradient_check(m.graph, loss, m.feeds, max_per_param=2).passed
