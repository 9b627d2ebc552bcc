"""A training with all that has state, to be resumed, and what it has come to as bytes."""

from __future__ import annotations

import numpy as np

import gradwright as gw

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 6)).astype("float32")
DATA = {"x": X, "t": np.sin(X.sum(1)).astype("float32")}  # 7 batches of 8, the last of 2
HELD_OUT = {"x": X[:20], "t": DATA["t"][:20] + 0.5}


def trainer_of(*callbacks, optimizer=None, hidden=8, seed=3, rate=0.3, metrics=True, **options):
    """Return a trainer with dropout, running means, a schedule and clipping."""
    g = gw.Graph("net")
    x, t = g.placeholder("x", (None, 6)), g.placeholder("t", (None,))
    h = gw.nn.dropout(gw.tanh(x @ g.variable("w", (6, hidden))), rate)
    mean = g.variable("mean", (hidden,), trainable=False)
    g.update(mean, mean * 0.9 + gw.mean(h, axis=0) * 0.1)
    y = (h - mean) @ g.variable("v", (hidden,))
    loss = gw.mean((y - t) ** 2.0, name="loss")
    return gw.Trainer(
        g,
        loss,
        optimizer=optimizer or gw.optim.Adam(gw.schedules.Cosine(0.01, 40)),
        metrics={"error": gw.mean(gw.abs(y - t))} if metrics else None,
        clip_norm=1.0,
        seed=seed,
        session=gw.Session(g, deterministic=True, seed=seed),
        callbacks=callbacks,
        **options,
    )


def fit(trainer, epochs, data=None, **options):
    data = DATA if data is None else data
    size = {"batch_size": 8} if isinstance(data, dict) else {}
    options = {"validation": HELD_OUT, "progress": False, **size, **options}
    return trainer.fit(data, epochs=epochs, **options)


def whole(trainer):
    """Return what a training has come to, but the clock, as bytes."""
    state = {k: np.asarray(v) for k, v in trainer.state_dict().items() if "seconds" not in k}
    values = {t.name: trainer.values[t.name] for t in trainer.graph.variables}
    return {k: (v.dtype, v.shape, v.tobytes()) for k, v in {**state, **values}.items()}


class StopAfter(gw.Callback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, trainer, record):
        if record.step == self.step:
            trainer.stop()


def trained(folder, epochs=4, **options):
    """Train with a metric that is best at epoch 2."""

    class Scores(gw.Callback):
        def on_epoch_end(self, trainer, record):
            record.metrics["score"] = [0.1, 0.9, 0.3, 0.2][record.epoch - 1]

    checkpoints = gw.Checkpoints(folder, keep_last=99, monitor="score", **options)
    trainer = trainer_of(Scores(), checkpoints)
    fit(trainer, epochs)
    return trainer, checkpoints
