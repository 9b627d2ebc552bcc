"""A workbench on a small network, and all its traits as a page would get them."""

from __future__ import annotations

import json

import numpy as np

import gradwright as gw
from gradwright_widgets import Workbench
from gradwright_widgets.drawing.buffers import storable


def network(name="hidden"):
    g = gw.Graph(name)
    x, t = g.placeholder("x", ("B", 4)), g.placeholder("t", ("B",), dtype="int64")
    with g.scope(name):
        w = g.variable("w", (4, 3), init=gw.init.he_normal(seed=0))
        h = gw.nn.relu(x @ w, name="relu")
    h = gw.nn.layer_norm(h, g.variable("gain", (3,), init=1.0), g.variable("shift", (3,)))
    gw.loss.sparse_softmax_cross_entropy(t, h, name="loss")
    return g


def data(n=16):
    rng = np.random.default_rng(0)
    return {"x": rng.standard_normal((n, 4)).astype("f4"), "t": rng.integers(0, 3, n)}


def bench(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADWRIGHT_RUNS", str(tmp_path))
    g = network()
    trainer = gw.Trainer(g, "loss", optimizer=gw.optim.SGD(0.05))
    made = Workbench(g, trainer, data=data(), epochs=1, batch_size=8)
    yield made
    made.close()


def state(bench):
    """Return all traits as a page would get them, and fail where JSON has no word for one."""
    traits = {name: getattr(bench, name) for name in bench.keys if not name.startswith("_")}
    return json.dumps(storable({k: v for k, v in traits.items() if k not in ("layout", "tabbable",
                      "tooltip")}), allow_nan=False)  # fmt: skip
