"""Twelve small trainings in deterministic sessions: between them, most of what a step can do."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import gradwright as gw

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
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


def fit(trainer: gw.Trainer, data: Arrays, epochs: int = 2, **options: Any) -> dict[str, Any]:
    """Train and return the outcome."""
    options = {"batch_size": 8, "progress": False, **options}
    trainer.fit(data, epochs=epochs, **options)
    return outcome(trainer)


def settings(**more: Any) -> dict[str, Any]:
    """Return what all trainers have in common."""
    return {"deterministic": True, "seed": 7, **more}


# -- data and layers -----------------------------------------------------------------------------


def normal(seed: int, *shape: int, scale: float = 1.0) -> Array:
    """Return normal numbers in float32."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype("float32")


def labels(seed: int, classes: int, *shape: int) -> Array:
    """Return class numbers."""
    return np.random.default_rng(seed).integers(0, classes, shape)


def rows(n: int = 44, width: int = 6, classes: int = 3) -> Arrays:
    """Return a classification; batches of 8 leave a short one."""
    return {"x": normal(1, n, width), "t": labels(2, classes, n)}


def weight(g: gw.Graph, name: str, *shape: int) -> gw.Tensor:
    """Return a variable that begins with numbers which depend on its name."""
    seed = sum(name.encode())
    return g.variable(name, init=normal(seed, *shape, scale=shape[-2] ** -0.5))


def affine(x: gw.Tensor, name: str, inputs: int, outputs: int) -> gw.Tensor:
    """Return x @ w + b, in a scope."""
    with x.graph.scope(name):
        return x @ weight(x.graph, "w", inputs, outputs) + x.graph.variable("b", (outputs,))


def classifier(hidden: int = 12, act: Any = gw.nn.relu) -> tuple[gw.Graph, gw.Tensor, gw.Tensor]:
    """Return a graph of two layers, its labels and its logits."""
    g = gw.Graph("classifier")
    x, t = g.placeholder("x", ("B", 6)), g.placeholder("t", ("B",), "int64")
    return g, t, affine(act(affine(x, "hidden", 6, hidden)), "out", hidden, 3)


def cross_entropy(t: gw.Tensor, logits: gw.Tensor) -> gw.Tensor:
    """Return the loss of labels, under its name."""
    return gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")


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
    g = gw.Graph("cnn")
    x, t = g.placeholder("x", ("B", 2, 8, 8)), g.placeholder("t", ("B",), "int64")
    h = gw.cnn.conv2d(x, weight(g, "k1", 4, 2, 3, 3), g.variable("b1", (4,)), padding=1)
    h = gw.cnn.max_pool2d(gw.nn.relu(gw.nn.batch_norm(h, name="norm")), 2)
    h = gw.cnn.depthwise_conv2d(h, weight(g, "k2", 4, 1, 3, 3), padding=1)
    h = gw.cnn.avg_pool2d(gw.nn.dropout(gw.nn.group_norm(h, num_groups=2), 0.2), 2)
    logits = affine(h.reshape(-1, 16), "out", 16, 3)
    trainer = gw.Trainer(g, cross_entropy(t, logits), gw.optim.RMSProp(0.01), **settings())
    return fit(trainer, {"x": normal(3, 20, 2, 8, 8), "t": labels(4, 3, 20)}, validation=0.2)


@training
def lstm_over_sequences() -> dict[str, Any]:
    g, (length, batch, inputs, hidden) = gw.Graph("lstm"), (7, 4, 3, 5)
    x, t = g.placeholder("x", (length, batch, inputs)), g.placeholder("t", (length, batch, hidden))
    n = g.placeholder("n", (batch,), "int64")
    w, r = weight(g, "w", 1, 4 * hidden, inputs), weight(g, "r", 1, 4 * hidden, hidden)
    y, _, _ = gw.rnn.lstm(x, w, r, weight(g, "b", 1, 8 * hidden), n)
    w, r = weight(g, "gru_w", 1, 3 * hidden, hidden), weight(g, "gru_r", 1, 3 * hidden, hidden)
    y, _ = gw.rnn.gru(y[:, 0], w, r, direction="reverse")
    loss = gw.loss.mean_squared_error(t, y[:, 0], name="loss")
    trainer = gw.Trainer(g, loss, gw.optim.Nadam(0.01), **settings(clip_tensor_norm=0.1))
    batches = [
        {
            "x": normal(k, length, batch, inputs),
            "t": normal(k + 9, length, batch, hidden),
            "n": np.array([7, 1, 4, 6]),
        }
        for k in range(4)
    ]
    trainer.fit(batches, epochs=2, progress=False)
    return outcome(trainer)


@training
def transformer() -> dict[str, Any]:
    g, (width, heads, words) = gw.Graph("transformer"), (8, 2, 11)
    ids = g.placeholder("ids", ("B", 6), "int64")
    h = gw.nn.embedding(ids[:, :-1], weight(g, "table", words, width))
    for i in range(2):
        with g.scope(f"layer_{i}"):
            gain, shift = g.variable("gain", (width,), init=1.0), g.variable("shift", (width,))
            y = affine(gw.nn.layer_norm(h, gain, shift), "qkv", width, 3 * width)
            parts = y.reshape(-1, 5, 3, heads, width // heads)
            q, k, v = (parts[:, :, j].transpose(0, 2, 1, 3) for j in range(3))
            a = gw.nn.scaled_dot_product_attention(q, k, v, is_causal=True)
            a = affine(a.transpose(0, 2, 1, 3).reshape(-1, 5, width), "join", width, width)
            h = h + gw.nn.dropout(a, 0.1)
            inner = gw.nn.gelu(affine(h, "up", width, 4 * width), approximate="tanh")
            h = h + affine(inner, "down", 4 * width, width)
    loss = cross_entropy(ids[:, 1:], affine(h, "head", width, words))
    rate = gw.schedules.OneCycle(0.01, steps=10)
    trainer = gw.Trainer(g, loss, gw.optim.AdamW(rate), **settings(clip_norm=1.0, swa=gw.SWA(3)))
    return fit(trainer, {"ids": labels(5, words, 24, 6)}, validation=0.25)


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
    g, t, logits = classifier()
    mean = g.variable("mean", (3,), trainable=False)
    g.update(mean, mean * 0.9 + gw.mean(logits, axis=0) * 0.1)
    averages = {"ema": gw.EMA(0.9, buffers=True), "validate_with": "ema"}
    plan = settings(accumulation=gw.Accumulation(3), checkpoint="sqrt", **averages)
    trainer = gw.Trainer(g, cross_entropy(t, logits), gw.optim.LAMB(0.02), **plan)
    return fit(trainer, rows(), epochs=3, validation=rows(10))


@training
def loops_and_branches() -> dict[str, Any]:
    g = gw.Graph("loops")
    x, t = g.placeholder("x", (5, "B", 3)), g.placeholder("t", ("B", 4))
    w, r = weight(g, "w", 3, 4), weight(g, "r", 4, 4)

    def step(c: gw.Tensor, item: gw.Tensor) -> tuple[gw.Tensor, gw.Tensor]:
        c = gw.tanh(item @ w + gw.nn.dropout(c, 0.1) @ r)
        return c, gw.sum(c * c)

    last, sizes = gw.scan(step, gw.zeros_like(t), x)
    grown = gw.while_loop(lambda c: gw.sum(c * c) < 9.0, lambda c: c * 1.5, last, max_steps=6)
    y = gw.cond(gw.sum(sizes) > 1.0, lambda: grown @ r, lambda: grown * 2.0)
    loss = gw.add(gw.mean((y - t) ** 2.0), 0.01 * gw.mean(sizes), name="loss")
    trainer = gw.Trainer(g, loss, gw.optim.AMSGrad(0.02), **settings())
    trainer.fit(
        [{"x": normal(k, 5, 4, 3), "t": normal(k + 20, 4, 4)} for k in range(5)],
        epochs=2,
        progress=False,
    )
    return outcome(trainer)


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
