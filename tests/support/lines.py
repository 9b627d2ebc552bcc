"""A trainer of a straight line, its data, and a callback that notes what it was fed with."""

from __future__ import annotations

import numpy as np

import gradwright as gw


def line(*, optimizer=None, **options):
    """Return a trainer of y = w·x + b with a mean squared error."""
    g = gw.Graph("line")
    x, t = g.placeholder("x", (None, 3)), g.placeholder("t", (None,))
    w, b = g.variable("w", (3,), init=[1.0, -1.0, 0.5]), g.variable("b", ())
    error = x @ w + b - t
    loss = gw.mean(error * error, name="loss")
    return gw.Trainer(g, loss, optimizer=optimizer or gw.optim.SGD(0.1), **options)


def rows(n=20, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 3)).astype("float32")
    return {"x": x, "t": (x @ [2.0, 1.0, -1.0] + 0.5).astype("float32")}


def values_of(trainer):
    """Return everything a step may change, as bytes."""
    return {name: trainer.values[name].tobytes() for name in trainer.values}


class Seen(gw.Callback):
    """Notes what each step was fed with."""

    def __init__(self):
        self.batches, self.log = [], []

    def on_fit_start(self, trainer):
        self.log.append("start")

    def on_step_end(self, trainer, record):
        self.batches.append({t.name: np.array(a) for t, a in trainer.last_feeds.items()})
        self.log.append(f"step {record.step} of epoch {record.epoch}")

    def on_epoch_end(self, trainer, record):
        self.log.append(f"epoch {record.epoch}")

    def on_fit_end(self, trainer):
        self.log.append("end")
