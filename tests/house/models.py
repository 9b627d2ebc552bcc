"""The networks and data that trainings and files are made of; every number is fixed."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwright as gw

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

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


# -- networks ------------------------------------------------------------------------------------


def cnn() -> tuple[gw.Tensor, Arrays]:
    """Return the loss of two convolutions with normalisations, pools and dropout, and data."""
    g = gw.Graph("cnn")
    x, t = g.placeholder("x", ("B", 2, 8, 8)), g.placeholder("t", ("B",), "int64")
    h = gw.cnn.conv2d(x, weight(g, "k1", 4, 2, 3, 3), g.variable("b1", (4,)), padding=1)
    h = gw.cnn.max_pool2d(gw.nn.relu(gw.nn.batch_norm(h, name="norm")), 2)
    h = gw.cnn.depthwise_conv2d(h, weight(g, "k2", 4, 1, 3, 3), padding=1)
    h = gw.cnn.avg_pool2d(gw.nn.dropout(gw.nn.group_norm(h, num_groups=2), 0.2), 2)
    logits = affine(h.reshape(-1, 16), "out", 16, 3)
    return cross_entropy(t, logits), {"x": normal(3, 20, 2, 8, 8), "t": labels(4, 3, 20)}


def recurrent() -> tuple[gw.Tensor, list[Arrays]]:
    """Return the loss of an LSTM, for sequences of given lengths, below a GRU, and batches."""
    g, (length, batch, inputs, hidden) = gw.Graph("lstm"), (7, 4, 3, 5)
    x, t = g.placeholder("x", (length, batch, inputs)), g.placeholder("t", (length, batch, hidden))
    n = g.placeholder("n", (batch,), "int64")
    w, r = weight(g, "w", 1, 4 * hidden, inputs), weight(g, "r", 1, 4 * hidden, hidden)
    y, _, _ = gw.rnn.lstm(x, w, r, weight(g, "b", 1, 8 * hidden), n)
    w, r = weight(g, "gru_w", 1, 3 * hidden, hidden), weight(g, "gru_r", 1, 3 * hidden, hidden)
    y, _ = gw.rnn.gru(y[:, 0], w, r, direction="reverse")
    batches = [
        {
            "x": normal(k, length, batch, inputs),
            "t": normal(k + 9, length, batch, hidden),
            "n": np.array([7, 1, 4, 6]),
        }
        for k in range(4)
    ]
    return gw.loss.mean_squared_error(t, y[:, 0], name="loss"), batches


def transformer(layers: int = 2) -> tuple[gw.Tensor, Arrays]:
    """Return the loss of a small language model, and its texts."""
    g, (width, heads, words) = gw.Graph("transformer"), (8, 2, 11)
    ids = g.placeholder("ids", ("B", 6), "int64")
    h = gw.nn.embedding(ids[:, :-1], weight(g, "table", words, width))
    for i in range(layers):
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
    return loss, {"ids": labels(5, words, 24, 6)}


def loops() -> tuple[gw.Tensor, list[Arrays]]:
    """Return the loss of a scan, a while loop and a branch, and batches."""
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
    return loss, [{"x": normal(k, 5, 4, 3), "t": normal(k + 20, 4, 4)} for k in range(5)]


def averaging() -> tuple[gw.Tensor, Arrays]:
    """Return the loss of a classifier that keeps a running mean of its logits, and data."""
    g, t, logits = classifier()
    mean = g.variable("mean", (3,), trainable=False)
    g.update(mean, mean * 0.9 + gw.mean(logits, axis=0) * 0.1)
    return cross_entropy(t, logits), rows()
