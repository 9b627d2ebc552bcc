"""A stepper's panel on a small network, its buttons, and what it sends to the page."""

from __future__ import annotations

import json

import numpy as np

import gradwright as gw
from gradwright_widgets.panels.stepper.panel import StepPanel, StepperPanel


def graph():
    g = gw.Graph("digits")
    x = g.placeholder("x", ("B", 8))
    t = g.placeholder("t", ("B",), dtype="int64")
    with g.scope("hidden"):
        w = g.variable("w", (8, 6), init=gw.init.he_normal(seed=0))
        h = gw.nn.relu(x @ w + g.variable("b", (6,)))
    n = gw.nn.layer_norm(
        h, g.variable("scale", (6,), init=1.0), g.variable("shift", (6,)), name="ln"
    )
    logits = n @ g.variable("w2", (6, 3), init=gw.init.xavier_uniform(seed=1))
    gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    return g


def feeds():
    rng = np.random.default_rng(0)
    return {"x": rng.standard_normal((5, 8)).astype("f4"), "t": rng.integers(0, 3, 5)}


def panel(graph, feeds):
    made = StepperPanel(graph, loss="loss", feeds=feeds)
    yield made
    made.close()


def press(panel, verb, **facts):
    """Do what the page asks when a button is pressed."""
    tell(panel, "stepper.move", verb=verb, **facts)
    panel.part(StepPanel).walk.join()


def tell(panel, kind, **facts):
    panel._receive(panel, {"kind": kind, "id": 1, **facts}, [])


def watch_wire(panel, monkeypatch):
    """Collect what leaves for the page: (name, bytes) of every message."""
    sent = []

    def size(value):
        return len(json.dumps(value, default=lambda b: "x" * len(b)))

    monkeypatch.setattr(
        panel, "send", lambda content, buffers=None: sent.append((content["kind"], size(content)))
    )
    real = panel.send_state

    def send_state(key=None):
        if state := panel.get_state(key):  # an empty one does not leave
            sent.append(("state", size(state)))
        real(key)

    monkeypatch.setattr(panel, "send_state", send_state)
    return sent
