"""What is forged and read again, and a small training with all kinds of state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw
from tests.forgeries.fields import Case
from tests.train.checkpoints.resumed import whole


class Forger:
    """Makes forgeries of one kind, and has them read; ``check`` raises for what must not be."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def cases(self) -> Iterator[Case]:
        """Yield what is forged, by name."""
        raise NotImplementedError

    def check(self, forged: Any) -> str:
        """Have a forgery read and return what became of it."""
        raise NotImplementedError

    def anew(self) -> None:
        """Begin anew, since what has been tried may have changed what it should not."""

    def end(self) -> None:
        """Check what must hold after all of them."""


def training(*callbacks: gw.Callback) -> gw.Trainer:
    """Return a trainer with all kinds of state, small enough to be resumed a thousand times."""
    g = gw.Graph("forged")
    x, t = g.placeholder("x", (None, 2)), g.placeholder("t", (None,))
    h = gw.nn.dropout(gw.tanh(x @ g.variable("w", (2, 3), init=gw.init.normal(seed=1))), 0.2)
    mean = g.variable("mean", (3,), trainable=False)
    g.update(mean, mean * 0.9 + gw.mean(h, axis=0) * 0.1)
    y = (h - mean) @ g.variable("v", (3,), init=gw.init.normal(seed=2))
    return gw.Trainer(
        g,
        gw.mean((y - t) ** 2.0, name="loss"),
        optimizer=gw.optim.Adam(gw.schedules.Cosine(0.01, 40)),
        metrics={"error": gw.mean(gw.abs(y - t))},
        clip_norm=1.0,
        accumulation=2,
        ema=gw.EMA(0.9),
        loss_scale=gw.LossScale("dynamic", 2.0**10),
        seed=3,
        session=gw.Session(g, deterministic=True, kernels="off", seed=3),
        callbacks=[gw.EarlyStopping("loss", patience=50), gw.train.UpdateRatio(), *callbacks],
    )


RNG = np.random.default_rng(0)
X = RNG.standard_normal((9, 2)).astype("float32")
DATA = {"x": X, "t": np.sin(X.sum(1)).astype("float32")}


def fit(trainer: gw.Trainer, epochs: int = 1, steps: int | None = None) -> None:
    """Train on five batches an epoch: two updates of two, and one of the rest."""
    trainer.fit(DATA, epochs=epochs, steps=steps, batch_size=2, progress=False)


def everything(trainer: gw.Trainer) -> dict[str, Any]:
    """Return all that a resume may change, as values to be compared."""
    return whole(trainer) | {
        "config": trainer.config,
        "frozen": [t.name for t in trainer.graph.variables if not t.trainable],
        "seed": trainer.session.seed,
        "tuning": trainer.session.tuning,
        "history": id(trainer.history),
        "outcome": trainer.progress and trainer.progress.outcome,
        "is_bound": trainer.parts.position.is_bound,
    }
