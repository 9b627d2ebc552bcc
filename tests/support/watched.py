"""Trainings that a watch looks at: healthy ones of many kinds, and some whose rule goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gradwright as gw

Batch = dict[str, np.ndarray[Any, Any]]
Draw = Callable[[np.random.Generator], Batch]


@dataclass
class Watched:
    """A loss, batches for it, and how it is trained."""

    loss: gw.Tensor
    draw: Draw
    options: dict[str, Any] = field(default_factory=dict)

    def batches(self, seed: int = 0, n: int = 8) -> list[Batch]:
        rng = np.random.default_rng(seed)
        return [self.draw(rng) for _ in range(n)]

    def trainer(self, *callbacks: gw.Callback, **options: Any) -> gw.Trainer:
        given = {"optimizer": gw.optim.Adam(1e-3), **self.options, **options}
        return gw.Trainer(self.loss.graph, self.loss, callbacks=callbacks, **given)


def weight(name: str, *shape: int, seed: int = 0) -> gw.Tensor:
    graph: Any = gw.graph.active_graph()
    rng = np.random.default_rng((seed, *map(ord, name)))
    size = 1.0 / np.sqrt(max(1, int(np.prod(shape[:-1]))))
    array: gw.Tensor = graph.variable(name, init=(size * rng.standard_normal(shape)).astype("f4"))
    return array


def bend(name: str = "watching/bend", factor: float = 1.0) -> Any:
    """Define an op whose vjp is off by a factor, anew each time, and return it.

    y = x + sin(x)/2; of what is fed as ``late`` the vjp gets a share too much.
    """
    return gw.define_op(
        name,
        lambda x, late: x + 0.5 * np.sin(x) + 0.0 * late,
        vjp=lambda g, y, x, late: (g * (1.0 + 0.5 * gw.cos(x)) * factor * (1.0 + late), None),
    )


Body = Callable[[Any], Any]


def _classes(rng: np.random.Generator, n: int, most: int) -> Any:
    return rng.integers(0, most, n)


def mlp(act: Body = gw.nn.relu, *, rows: int = 128, width: int = 256, **options: Any) -> Watched:
    g = gw.Graph("mlp")
    x, t = g.placeholder("x", (None, 64)), g.placeholder("t", (None,), "int64")
    with g:
        h = act(x @ weight("w1", 64, width) + weight("b1", width))
        h = gw.nn.relu(h @ weight("w2", width, width) + weight("b2", width))
        loss = gw.loss.sparse_softmax_cross_entropy(t, h @ weight("w3", width, 10), name="loss")
    return Watched(
        loss,
        lambda r: {"x": r.standard_normal((rows, 64)).astype("f4"), "t": _classes(r, rows, 10)},
        options,
    )


def cnn(act: Body = gw.nn.relu, *, rows: int = 16, width: int = 16, **options: Any) -> Watched:
    g = gw.Graph("cnn")
    x, t = g.placeholder("x", (None, 3, 16, 16)), g.placeholder("t", (None,), "int64")
    with g:
        h = gw.cnn.conv2d(x, weight("k1", width, 3, 3, 3), weight("c1", width), padding=1)
        h = act(gw.nn.batch_norm(h, name="norm"))
        h = gw.cnn.max_pool2d(h, 2)
        h = gw.nn.relu(gw.cnn.conv2d(h, weight("k2", width, width, 3, 3), padding=1))
        h = gw.nn.dropout(gw.mean(h, axis=(2, 3)), 0.2)
        loss = gw.loss.sparse_softmax_cross_entropy(t, h @ weight("w", width, 10), name="loss")
    return Watched(
        loss,
        lambda r: {
            "x": r.standard_normal((rows, 3, 16, 16)).astype("f4"),
            "t": _classes(r, rows, 10),
        },
        options,
    )


def lstm(act: Body = gw.tanh, *, rows: int = 16, width: int = 32, **options: Any) -> Watched:
    """An LSTM over sixteen turns, written as a scan."""
    g = gw.Graph("lstm")
    x, t = g.placeholder("x", (None, 16, 8)), g.placeholder("t", (None,))
    with g:
        w, u, b = weight("w", 8, 4 * width), weight("u", width, 4 * width), weight("b", 4 * width)
        zero = gw.zeros_like(x[:, 0, :1] * np.ones((1, width), "f4"))

        def cell(carry: Any, now: Any) -> Any:
            h, c = carry
            i, f, o, z = gw.split(now @ w + h @ u + b, 4, axis=-1)
            c = gw.nn.sigmoid(f + 1.0) * c + gw.nn.sigmoid(i) * gw.tanh(z)
            h = gw.nn.sigmoid(o) * gw.tanh(c)
            return (h, c), h

        (h, _), _ = gw.scan(cell, (zero, zero), gw.transpose(x, (1, 0, 2)), name="scan")
        loss = gw.mean((act(h) @ weight("v", width) - t) ** 2.0, name="loss")
    return Watched(
        loss,
        lambda r: {
            "x": r.standard_normal((rows, 16, 8)).astype("f4"),
            "t": r.standard_normal(rows).astype("f4"),
        },
        options,
    )


def transformer(
    act: Body = gw.nn.gelu, *, rows: int = 8, width: int = 64, layers: int = 2, **options: Any
) -> Watched:
    """A small language model: embeddings, blocks with causal attention, tied weights."""
    g = gw.Graph("transformer")
    ids = g.placeholder("ids", (None, 32), "int64")
    t = g.placeholder("t", (None, 32), "int64")
    heads = 4
    with g:
        table = weight("table", 96, width)
        h = gw.nn.embedding(ids, table) + weight("places", 32, width)
        for i in range(layers):
            with g.scope(f"block_{i}"):
                a = gw.nn.layer_norm(h, g.variable("s1", (width,), init=1.0), weight("n1", width))
                q, k, v = (
                    gw.transpose(
                        gw.reshape(a @ weight(n, width, width), (-1, 32, heads, width // heads)),
                        (0, 2, 1, 3),
                    )
                    for n in "qkv"
                )
                scores = q @ gw.transpose(k, (0, 1, 3, 2)) / np.sqrt(width / heads)
                mask = np.triu(np.full((32, 32), -1e9, "f4"), 1)
                y = gw.nn.softmax(scores + mask, axis=-1) @ v
                y = gw.reshape(gw.transpose(y, (0, 2, 1, 3)), (-1, 32, width))
                h = h + gw.nn.dropout(y @ weight("o", width, width), 0.1)
                a = gw.nn.layer_norm(h, g.variable("s2", (width,), init=1.0), weight("n2", width))
                inner = a @ weight("up", width, 4 * width)
                h = h + (act if i == 0 else gw.nn.gelu)(inner) @ weight("down", 4 * width, width)
        logits = h @ gw.transpose(table, (1, 0))
        loss = gw.mean(gw.loss.sparse_softmax_cross_entropy(t, logits), name="loss")
    return Watched(
        loss,
        lambda r: {"ids": r.integers(0, 96, (rows, 32)), "t": r.integers(0, 96, (rows, 32))},
        options,
    )


def autoencoder(
    act: Body = gw.nn.elu, *, rows: int = 128, width: int = 128, **options: Any
) -> Watched:
    """A variational autoencoder: it draws, and its loss has two parts."""
    g = gw.Graph("vae")
    x = g.placeholder("x", (None, 64))
    with g:
        h = act(x @ weight("w1", 64, width))
        mean, log = h @ weight("m", width, 8), h @ weight("s", width, 8) * 0.1
        z = mean + gw.exp(log) * gw.random.normal_like(mean)
        y = gw.nn.elu(z @ weight("w2", 8, width)) @ weight("w3", width, 64)
        fit = gw.mean((y - x) ** 2.0)
        loss = gw.identity(
            fit + 0.01 * gw.mean(gw.exp(2.0 * log) + mean**2.0 - 1.0 - 2.0 * log), name="loss"
        )
    return Watched(loss, lambda r: {"x": r.standard_normal((rows, 64)).astype("f4")}, options)


def _features(width: int = 12) -> tuple[gw.Graph, gw.Tensor, gw.Tensor]:
    g = gw.Graph("small")
    return g, g.placeholder("x", (None, width)), g.placeholder("t", (None,))


def _regression(loss: gw.Tensor, *, ties: bool = False, **options: Any) -> Watched:
    def draw(rng: np.random.Generator) -> Batch:
        x = rng.standard_normal((32, 12)).astype("f4")
        return {"x": np.round(2 * x) / 2 if ties else x, "t": rng.standard_normal(32).astype("f4")}

    return Watched(loss, draw, options)


def dense(act: Body, **options: Any) -> Watched:
    """Two layers with some activation, on numbers that often tie."""
    g, x, t = _features()
    with g:
        h = act(x @ weight("w", 12, 16) + weight("b", 16))
        loss = gw.mean((h @ weight("v", 16) - t) ** 2.0, name="loss")
    return _regression(loss, ties=True, **options)


def norms() -> Watched:
    """All norms, one after another, with biases that batch norm makes useless."""
    g, x, t = _features()
    with g:
        h = gw.nn.batch_norm(x @ weight("w", 12, 16) + weight("b", 16), name="batch")
        one = g.variable("one", (16,), init=1.0)
        h = gw.nn.layer_norm(gw.tanh(h @ weight("w2", 16, 16)), one, weight("shift", 16))
        h = gw.nn.rms_norm(gw.nn.silu(h), g.variable("scale", (16,), init=1.0))
        loss = gw.loss.huber(t, h @ weight("v", 16), name="loss")
    return _regression(gw.mean(loss) if loss.rank else loss)


def kinks() -> Watched:
    """Maxima, clipping, absolute values and sorting, on ties."""
    g, x, t = _features()
    with g:
        h = gw.maximum(x @ weight("w", 12, 8), 0.0)
        u = gw.clip(gw.abs(x @ weight("u", 12, 8)), 0.1, 0.9)
        y = gw.concat([h, u, gw.max(h, axis=-1, keepdims=True)], axis=-1) @ weight("v", 17)
        loss = gw.mean(gw.abs(y - t), name="loss")
    return _regression(loss, ties=True)


def straight_through() -> Watched:
    """Weights rounded on the way forwards, and not on the way back."""
    g, x, t = _features()
    with g:
        w = weight("w", 12, 16)
        rounded = w + gw.stop_gradient(gw.round(w * 8.0) / 8.0 - w)
        loss = gw.mean((gw.nn.relu(x @ rounded) @ weight("v", 16) - t) ** 2.0, name="loss")
    return _regression(loss)


def quantised() -> Watched:
    """Weights as they will be in four bits: the gradient is that of a surrogate."""
    g, x, t = _features()
    with g:
        w = gw.quant.fake_quantize(weight("w", 12, 16), g.constant(0.125), low=-8, high=7)
        loss = gw.mean((gw.tanh(x @ w) @ weight("v", 16) - t) ** 2.0, name="loss")
    return _regression(loss)


def bags() -> Watched:
    """Embeddings that are gathered, added up and normalised by their length."""
    g = gw.Graph("bags")
    ids, t = g.placeholder("ids", (None, 5), "int64"), g.placeholder("t", (None,), "int64")
    with g:
        h = gw.mean(gw.nn.embedding(ids, weight("table", 40, 12)), axis=1)
        h = h / gw.sqrt(gw.sum(h * h, axis=-1, keepdims=True) + 1e-6)
        loss = gw.loss.sparse_softmax_cross_entropy(t, h @ weight("w", 12, 7), name="loss")
    return Watched(loss, lambda r: {"ids": r.integers(0, 40, (32, 5)), "t": _classes(r, 32, 7)})


def noisy() -> Watched:
    """Random numbers in several places, whose draws are held."""
    g, x, t = _features()
    with g:
        h = gw.nn.dropout(gw.tanh(x @ weight("w", 12, 16)), 0.5)
        h = h + 0.1 * gw.random.normal_like(h)
        loss = gw.mean((gw.nn.dropout(h, 0.2) @ weight("v", 16) - t) ** 2.0, name="loss")
    return _regression(loss)


def branches() -> Watched:
    """A cond whose branch depends on the batch, a map, and a while loop."""
    g, x, t = _features()
    with g:
        w, v = weight("w", 12, 16), weight("v", 16)
        h = gw.cond(gw.sum(x) > 0.0, lambda: gw.tanh(x @ w), lambda: gw.nn.silu(x @ w))
        loss = gw.mean((h @ v - t) ** 2.0, name="loss")
    return _regression(loss)


def gru() -> Watched:
    """A gated recurrent layer over six turns, written as a scan."""
    g = gw.Graph("gru")
    x, t = g.placeholder("x", (None, 6, 4)), g.placeholder("t", (None,))
    with g:
        zero = gw.zeros_like(x[:, 0, :1] * np.ones((1, 8), "f4"))
        wz, uz, wh = weight("wz", 4, 8), weight("uz", 8, 8), weight("wh", 4, 8)

        def cell(h: Any, now: Any) -> Any:
            z = gw.nn.sigmoid(now @ wz + h @ uz)
            h = (1.0 - z) * h + z * gw.tanh(now @ wh)
            return h, h

        h, _ = gw.scan(cell, zero, gw.transpose(x, (1, 0, 2)), name="scan")
        loss = gw.mean((h @ weight("v", 8) - t) ** 2.0, name="loss")
    return Watched(
        loss,
        lambda r: {
            "x": r.standard_normal((16, 6, 4)).astype("f4"),
            "t": r.standard_normal(16).astype("f4"),
        },
    )


HEALTHY: dict[str, Callable[[], Watched]] = {
    "mlp": lambda: mlp(rows=32, width=32),
    "relu on ties": lambda: dense(gw.nn.relu),
    "leaky relu, SGD": lambda: dense(gw.nn.leaky_relu, optimizer=gw.optim.SGD(0.05)),
    "cnn with batch norm and dropout": lambda: cnn(rows=8, width=4),
    "lstm, a scan": lambda: lstm(rows=8, width=8),
    "gru, a scan": gru,
    "transformer": lambda: transformer(rows=4, width=16, layers=1),
    "variational autoencoder": lambda: autoencoder(rows=32, width=16),
    "norms": norms,
    "kinks": kinks,
    "straight through": straight_through,
    "quantised weights": quantised,
    "bags of embeddings": bags,
    "random numbers": noisy,
    "branches": branches,
    "bfloat16": lambda: mlp(rows=32, width=16, precision="bfloat16"),
    "float16, scaled": lambda: dense(gw.nn.gelu, precision="float16"),
    "accumulation": lambda: dense(gw.nn.mish, accumulation=gw.Accumulation(2)),
    "two optimizers": lambda: dense(
        gw.nn.selu, groups=[gw.train.Group("v", optimizer=gw.optim.SGD(0.01))]
    ),
    "clipped and averaged": lambda: dense(gw.nn.softplus, clip_norm=0.5, ema=gw.EMA(0.9)),
}
"""Twenty trainings in which nothing is wrong."""


LARGE: dict[str, Callable[..., Watched]] = {
    "mlp": lambda act: mlp(act, rows=512, width=512),
    "cnn": lambda act: cnn(act, rows=64, width=32),
    "lstm": lambda act: lstm(act, rows=64, width=128),
    "transformer": lambda act: transformer(act, rows=16, width=128),
    "autoencoder": lambda act: autoencoder(act, rows=512, width=512),
}
"""Five trainings with a step of some milliseconds, by an activation that may be wrong."""

SMALL: dict[str, Callable[..., Watched]] = {
    "mlp": lambda act: mlp(act, rows=8, width=8),
    "cnn": lambda act: cnn(act, rows=4, width=4),
    "lstm": lambda act: lstm(act, rows=4, width=4),
    "transformer": lambda act: transformer(act, rows=2, width=8),
    "autoencoder": lambda act: autoencoder(act, rows=8, width=8),
}
"""The same, with a step of some microseconds."""


def bent(factor: float = 1.0, **options: Any) -> tuple[Watched, list[dict[str, Any]], Any]:
    """Return a small training with a user's op in it, and batches that feed ``late``."""
    op = bend(factor=factor)
    model = mlp(lambda h: op(h, h.graph.placeholder("late", ())), rows=16, width=8)
    model.options |= options
    late = np.zeros((), "f4")
    return model, [{**b, "late": late} for b in model.batches()], late


def each_step(**options: Any) -> gw.GradientWatch:
    """Return a watch that goes by steps, not by time."""
    return gw.GradientWatch(0.0, every=1, **options)


def fit(trainer: gw.Trainer, batches: Any, **options: Any) -> Any:
    """Train without a bar."""
    return trainer.fit(batches, progress=False, **options)
