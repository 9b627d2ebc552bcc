"""The size of the gradient at every node, against gradients that are built as graph."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw


def network(seed=0):
    g = gw.Graph()
    x, t = g.placeholder("x", ("B", 4)), g.placeholder("t", ("B",), dtype="int64")
    h = gw.nn.layer_norm(x @ g.variable("w", (4, 5), init=gw.init.he_normal(seed=seed)),
                         g.variable("gain", (5,), init=1.0), g.variable("bias", (5,)))  # fmt: skip
    a, b = gw.split(gw.nn.gelu(gw.concat([h, gw.sqrt(h * h + 1.0)], axis=1)), 2, axis=1)
    dead = gw.stop_gradient(gw.exp(a))
    y = (a * b + dead) @ g.variable("v", (5, 3), init=gw.init.he_normal(seed=seed + 1))
    loss = gw.loss.sparse_softmax_cross_entropy(t, y, name="loss")
    rng = np.random.default_rng(seed)
    return g, loss, {"x": rng.standard_normal((6, 4)), "t": rng.integers(0, 3, 6)}


def test_norms_are_those_of_gradients_built_as_graph():
    g, loss, feeds = network()
    norms = gw.debug.gradient_norms(g, loss, feeds)
    for node in list(g.nodes):
        floats = [t for t in node.public if str(t.spec).startswith("f")]
        if not floats:
            assert node.name not in norms
            continue
        found = gw.gradients(loss, floats, unreachable="zero")
        arrays = g.output(feeds, *found).values()
        expected = np.sqrt(sum(float(np.sum(np.float64(a) ** 2)) for a in arrays))
        assert norms.get(node.name, 0.0) == pytest.approx(expected, rel=2e-4, abs=1e-6), node.name
    assert "exp" not in norms and norms["loss"] == 1.0


def test_the_graph_stays_as_it_was():
    g, _, feeds = network(3)
    before = len(g.all_nodes), g.revision
    gw.debug.gradient_norms(g, "loss", feeds)
    assert (len(g.all_nodes), g.revision) == before


def test_what_cannot_be_differentiated_is_said():
    g, _, feeds = network()
    with pytest.raises(gw.errors.GradientError):
        gw.debug.gradient_norms(g, g["gelu"], feeds)
    with pytest.raises(gw.errors.FeedError):
        gw.debug.gradient_norms(g, "loss", {})
