"""Twelve small trainings in deterministic sessions: between them, most of what a step can do."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import gradwright as gw
from tests.house.models import (
    Arrays,
    averaging,
    classifier,
    cnn,
    cross_entropy,
    labels,
    loops,
    normal,
    recurrent,
    rows,
    transformer,
    weight,
)

TRAININGS: dict[str, Callable[[], dict[str, Any]]] = {}


def training(make: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Note a training under the name of its function."""
    TRAININGS[make.__name__] = make
    return make


def record() -> dict[str, Any]:
    """Run all trainings and return their outcomes by name."""
    return {name: run() for name, run in TRAININGS.items()}


# -- what is noted -------------------------------------------------------------------------------


def digest(array: Any) -> str:
    """Return the hash of an array's dtype, shape and bytes."""
    held = np.ascontiguousarray(array)
    return hashlib.sha256(f"{held.dtype}{held.shape}".encode() + held.tobytes()).hexdigest()[:24]


def digests(arrays: Mapping[str, Any]) -> dict[str, str]:
    """Return the hash of each array but the wall time, which differs from run to run."""
    return {k: digest(v) for k, v in sorted(arrays.items()) if not k.endswith("seconds")}


def outcome(trainer: gw.Trainer) -> dict[str, Any]:
    """Return every number of a training: to be read, those of its steps; of the rest, hashes."""
    history = trainer.history
    return {
        "steps": trainer.steps_done,
        "losses": [float(x).hex() for x in history.steps["loss"]],
        "first and last": [float(f"{history.steps['loss'][i]:.6g}") for i in (0, -1)],
        "history": digests(history.arrays()),
        "values": digests({t.name: trainer.values[t.name] for t in trainer.graph.variables}),
        "state": digests(trainer.state_dict()),
    }


def fit(
    trainer: gw.Trainer, data: Arrays | list[Arrays], epochs: int = 2, **options: Any
) -> dict[str, Any]:
    """Train and return the outcome."""
    options = {"batch_size": 8, "progress": False, **options}
    trainer.fit(data, epochs=epochs, **options)
    return outcome(trainer)


def settings(**more: Any) -> dict[str, Any]:
    """Return what all trainers have in common."""
    return {"deterministic": True, "seed": 7, **more}


# -- the twelve ----------------------------------------------------------------------------------


@training
def mlp_by_momentum() -> dict[str, Any]:
    g, t, logits = classifier(act=gw.tanh)
    metrics = {"accuracy": gw.metrics.accuracy(t, logits), "f1": gw.metrics.MacroF1(t, logits)}
    optimizer = gw.optim.SGD(0.1, momentum=0.9, nesterov=True)
    plan = settings(l1=1e-4, l2=1e-3, clip_value=0.5, metrics=metrics)
    trainer = gw.Trainer(g, cross_entropy(t, logits), optimizer, **plan)
    return fit(trainer, rows(), epochs=4, validation=0.25)


@training
def mlp_by_adam() -> dict[str, Any]:
    g, t, logits = classifier(hidden=24, act=gw.nn.gelu)
    schedule = gw.schedules.Cosine(0.05, steps=20, warmup=3)
    plan = settings(clip_norm=0.5, weight_decay=0.01, lr_multipliers={"*/b": 0.5})
    trainer = gw.Trainer(g, cross_entropy(t, logits), gw.optim.Adam(schedule), **plan)
    return fit(trainer, rows(), epochs=3)


@training
def cnn_with_batch_norm() -> dict[str, Any]:
    loss, data = cnn()
    trainer = gw.Trainer(loss.graph, loss, gw.optim.RMSProp(0.01), **settings())
    return fit(trainer, data, validation=0.2)


@training
def lstm_over_sequences() -> dict[str, Any]:
    loss, batches = recurrent()
    plan = settings(clip_tensor_norm=0.1)
    trainer = gw.Trainer(loss.graph, loss, gw.optim.Nadam(0.01), **plan)
    return fit(trainer, batches, batch_size=None)


@training
def attention_in_layers() -> dict[str, Any]:
    loss, data = transformer()
    rate = gw.schedules.OneCycle(0.01, steps=10)
    plan = settings(clip_norm=1.0, swa=gw.SWA(3))
    trainer = gw.Trainer(loss.graph, loss, gw.optim.AdamW(rate), **plan)
    return fit(trainer, data, validation=0.25)


@training
def two_losses_of_rows() -> dict[str, Any]:
    g = gw.Graph("pairs")
    a, b, c = (g.placeholder(k, ("B",), "int64") for k in "abc")
    table, bags = weight(g, "table", 30, 6), g.placeholder("bags", ("B", 3), "int64")
    anchor, near, far = (gw.gather(table, k) for k in (a, b, c))
    margin = gw.loss.triplet_margin(near, anchor, far, name="margin")
    drawn = gw.mean(gw.gather(table, bags), axis=1)
    close = gw.mul(gw.mean(gw.nn.softplus(-gw.sum(drawn * anchor, axis=-1))), 0.5, name="close")
    trainer = gw.Trainer(g, [margin, close], gw.optim.AdaGrad(0.1), **settings())
    data = {k: labels(i, 30, 20) for i, k in enumerate("abc")} | {"bags": labels(9, 30, 20, 3)}
    return fit(trainer, data)


@training
def halves_with_loss_scaling() -> dict[str, Any]:
    """The first scales are too large, so that some steps are skipped and counted."""
    found = {}
    for dtype in ("float16", "bfloat16"):
        g, t, logits = classifier(hidden=16, act=gw.nn.swish)
        scale = gw.LossScale(initial=2.0**20, interval=4)
        plan = settings(precision=dtype, loss_scale=scale, nonfinite="skip")
        trainer = gw.Trainer(g, cross_entropy(t, logits), gw.optim.Adam(0.02), **plan)
        found[dtype] = fit(trainer, rows(), epochs=3)
    return found


@training
def gathered_and_averaged() -> dict[str, Any]:
    loss, data = averaging()
    averages = {"ema": gw.EMA(0.9, buffers=True), "validate_with": "ema"}
    plan = settings(accumulation=gw.Accumulation(3), checkpoint="sqrt", **averages)
    trainer = gw.Trainer(loss.graph, loss, gw.optim.LAMB(0.02), **plan)
    return fit(trainer, data, epochs=3, validation=rows(10))


@training
def loops_and_branches() -> dict[str, Any]:
    loss, batches = loops()
    trainer = gw.Trainer(loss.graph, loss, gw.optim.AMSGrad(0.02), **settings())
    return fit(trainer, batches, batch_size=None)


@training
def eight_bits_and_groups() -> dict[str, Any]:
    g, t, logits = classifier(hidden=800)
    groups = [
        gw.Group("out/w", optimizer=gw.optim.Muon(0.02), weight_decay=0.1),
        gw.Group("*/b", lr_multiplier=0.5, l2=1e-3),
    ]
    plan = settings(groups=groups, fp8=gw.FP8(history=4, layers=("out*",)))
    trainer = gw.Trainer(g, cross_entropy(t, logits), gw.optim.Adam8bit(0.005), **plan)
    return fit(trainer, rows())


@training
def lora_in_unrolled_steps() -> dict[str, Any]:
    g = gw.Graph("lora")
    x, t = g.placeholder("x", ("B", 6)), g.placeholder("t", ("B",), "int64")
    base = g.variable("base", init=normal(1, 6, 12, scale=0.4), trainable=False)
    h = gw.nn.lora_matmul(x, base, weight(g, "a", 6, 2), weight(g, "b", 2, 12), scale=2.0)
    h = gw.nn.dropout(gw.nn.rms_norm(gw.nn.relu(h), name="norm"), 0.2)
    head = g.variable("head", init=normal(2, 12, 3, scale=0.3), trainable=False)
    loss = cross_entropy(t, h @ head)
    optimizer = gw.optim.ScheduleFreeAdamW(0.05, weight_decay=0.01)
    return fit(gw.Trainer(g, loss, optimizer, **settings()), rows(), unroll=3, validation=0.25)


@training
def stack_larger_than_memory() -> dict[str, Any]:
    """A section has no name in ``gw``: it stands beside the trainer that is made of some."""
    room = importlib.import_module(gw.DeepTrainer.__module__.rpartition(".")[0])
    x = gw.TensorSpec((None, 6))
    bottom = room.Section(
        lambda p, a: a @ p["w"], {"w": (3, 6)}, {"a": gw.TensorSpec((None, 3))}, deterministic=True
    )
    stack = gw.CheckpointedStack(
        lambda p, x: x + gw.tanh(x @ p["w"] + p["b"]),
        {"w": gw.TensorSpec((6, 6)), "b": gw.TensorSpec((6,))},
        x,
        deterministic=True,
    )
    top = room.Section(
        lambda p, x, t: gw.mean((x @ p["v"] - t) ** 2.0),
        {"v": (6,)},
        {"x": x, "t": gw.TensorSpec((None,))},
        wrt=["x"],
        deterministic=True,
    )
    trainer = gw.DeepTrainer(bottom, stack, top, gw.optim.AdamW(0.01), clip_norm=0.5)
    layers = [{"w": normal(k, 6, 6, scale=0.3), "b": np.zeros(6, "float32")} for k in range(4)]
    trainer.start({"w": normal(8, 3, 6)}, layers, {"v": normal(9, 6)})
    losses = [trainer.step({"a": normal(k, 4, 3), "t": normal(k + 30, 4)}) for k in range(6)]
    parts = ["bottom", *(f"layers/{k}" for k in range(4)), "top"]
    values = {f"{p}/{k}": v for p in parts for k, v in trainer.parameters(p).items()}
    trainer.close()
    return {
        "losses": [float(x).hex() for x in losses],
        "first and last": [float(f"{losses[i]:.6g}") for i in (0, -1)],
        "values": digests(values),
    }
