"""A small network, data that it learns, and its trainer, for widgets to show."""

from __future__ import annotations

import numpy as np

import gradwright as gw


def graph():
    g = gw.Graph("digits")
    x = g.placeholder("x", ("B", 8))
    t = g.placeholder("t", ("B",), dtype="int64")
    with g.scope("hidden"):
        w = g.variable("w", (8, 6), init=gw.init.he_normal(seed=0))
        h = gw.nn.relu(x @ w + g.variable("b", (6,)))
    logits = h @ g.variable("w2", (6, 3), init=gw.init.xavier_uniform(seed=1))
    gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    g.variable("counter", (), init=0, dtype="int64")
    return g


def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 96)
    return {"x": (np.eye(3, 8)[y] * 3 + rng.standard_normal((96, 8))).astype("f4"), "t": y}


def trainer(graph):
    return gw.Trainer(graph, "loss", optimizer=gw.optim.SGD(0.05))
