"""Networks without loops, small enough to be checked in a blink: what mutants are planted in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gradwright as gw

Array = np.ndarray[Any, Any]


@dataclass
class Network:
    """A graph in the making: variables and data drawn from one seed, and the loss."""

    seed: int
    training: bool = False
    graph: gw.Graph = field(default_factory=gw.Graph)
    feeds: dict[str, Array] = field(default_factory=dict)
    loss: Any = None

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def weight(self, name: str, *shape: int, about: float = 0.0) -> gw.Tensor:
        """Make a variable: matrices and kernels of unit gain, vectors of 0.3, around a number."""
        fan = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        size = fan**-0.5 if len(shape) > 1 else 0.3
        init = (about + size * self.rng.standard_normal(shape)).astype(np.float32)
        return self.graph.variable(name, shape, init=init)

    def data(self, name: str, *shape: int) -> gw.Tensor:
        """Make a placeholder, and draw what is fed."""
        self.feeds[name] = self.rng.standard_normal(shape).astype(np.float32)
        return self.graph.placeholder(name, shape)

    def classes(self, name: str, n: int, *shape: int) -> gw.Tensor:
        """Make a placeholder of integers below n."""
        self.feeds[name] = self.rng.integers(0, n, shape)
        return self.graph.placeholder(name, shape, "int64")

    def ends(self, loss: gw.Tensor) -> Network:
        """Take the loss."""
        self.loss = loss
        return self


def mlp(net: Network) -> Network:
    """Three layers with a scale, relu and tanh, cross entropy."""
    h = net.data("x", 6, 4) * net.weight("scale", 4, about=1.0)
    h = gw.nn.relu(h @ net.weight("w1", 4, 5) + net.weight("b1", 5))
    h = gw.tanh(h @ net.weight("w2", 5, 5) + net.weight("b2", 5))
    logits = h @ net.weight("w3", 5, 3)
    return net.ends(gw.loss.sparse_softmax_cross_entropy(net.classes("t", 3, 6), logits))


def gated(net: Network) -> Network:
    """Gates: sigmoid, silu, softplus, division, powers."""
    x = net.data("x", 5, 4)
    a, b = x @ net.weight("wa", 4, 6), x @ net.weight("wb", 4, 6)
    h = gw.nn.sigmoid(a) * gw.nn.silu(b) + gw.nn.softplus(a - b)
    h = h / (1.0 + gw.square(a)) + gw.sqrt(gw.square(b) + 0.5)
    y = gw.exp(-gw.abs(h @ net.weight("v", 6, 2) - net.data("t", 5, 2)))
    return net.ends(-gw.mean(gw.log(y + 0.1)))


def normed(net: Network) -> Network:
    """Layer norm, gelu, a residual, a square error."""
    x = net.data("x", 4, 6)
    h = gw.nn.layer_norm(x, net.weight("g", 6, about=1.0), net.weight("b", 6))
    h = x + gw.nn.gelu(h @ net.weight("w1", 6, 6)) @ net.weight("w2", 6, 6)
    return net.ends(gw.mean(gw.square(h - net.data("t", 4, 6))))


def batch_normed(net: Network) -> Network:
    """Batch norm in training, leaky relu, a maximum of two ways."""
    net.training = True
    h = net.data("x", 8, 4) @ net.weight("w1", 4, 5)
    mean = net.graph.variable("mean", (5,), trainable=False)
    var = net.graph.variable("var", (5,), init=np.ones(5), trainable=False)
    h = gw.nn.batch_norm(h, net.weight("g", 5, about=1.0), net.weight("b", 5), mean, var)
    h = gw.nn.leaky_relu(h)
    y = gw.maximum(h @ net.weight("w2", 5, 3), h @ net.weight("w3", 5, 3))
    return net.ends(gw.loss.sparse_softmax_cross_entropy(net.classes("t", 3, 8), y))


def cnn(net: Network) -> Network:
    """Convolutions, a max pool, a mean over places."""
    h = gw.cnn.conv2d(net.data("x", 2, 1, 8, 8), net.weight("k1", 3, 1, 3, 3), net.weight("b1", 3))
    h = gw.cnn.max_pool2d(gw.nn.relu(h), 2)
    h = gw.nn.elu(gw.cnn.conv2d(h, net.weight("k2", 4, 3, 2, 2), net.weight("b2", 4)))
    logits = gw.mean(h, (2, 3)) @ net.weight("w", 4, 3)
    return net.ends(gw.loss.sparse_softmax_cross_entropy(net.classes("t", 3, 2), logits))


def unet(net: Network) -> Network:
    """Down and up again, with what is passed across."""
    x = net.data("x", 2, 1, 4, 4)
    fine = gw.nn.relu(
        gw.cnn.conv2d(x, net.weight("k1", 2, 1, 3, 3), net.weight("b1", 2), padding=1)
    )
    low = gw.cnn.avg_pool2d(fine, 2)
    low = gw.tanh(gw.cnn.conv2d(low, net.weight("k2", 3, 2, 3, 3), padding=1))
    both = gw.concat([gw.cnn.upsampling2d(low), fine], 1)
    y = gw.cnn.conv2d(both, net.weight("k3", 1, 5, 1, 1), net.weight("b3", 1))
    return net.ends(gw.mean(gw.square(y - net.data("t", 2, 1, 4, 4))))


def attention(net: Network) -> Network:
    """Two heads of attention with a causal mask, written out."""
    x = net.data("x", 2, 4, 6)

    def split(w: str) -> gw.Tensor:
        return gw.transpose(gw.reshape(x @ net.weight(w, 6, 6), (2, 4, 2, 3)), (0, 2, 1, 3))

    q, k, v = map(split, ("wq", "wk", "wv"))
    scores = q @ gw.swapaxes(k, -1, -2) * 0.5
    seen = net.graph.constant(np.tri(4, dtype=bool))
    weights = gw.nn.softmax(gw.where(seen, scores, -1e9))
    y = gw.reshape(gw.transpose(weights @ v, (0, 2, 1, 3)), (2, 4, 6)) @ net.weight("wo", 6, 6)
    return net.ends(gw.mean(gw.square(x + y - net.data("t", 2, 4, 6))))


def embedded(net: Network) -> Network:
    """Embeddings, a pool over words, slices and stacks, rms norm."""
    words = gw.nn.embedding(net.classes("ids", 7, 3, 5), net.weight("table", 7, 4))
    first, last = words[:, 0], words[:, -1]
    h = gw.stack([first, last, gw.mean(words, 1), gw.max(words, 1)], 1)
    h = gw.nn.rms_norm(h, net.weight("g", 4, about=1.0))
    logits = gw.reshape(h, (3, 16)) @ net.weight("w", 16, 3)
    return net.ends(gw.loss.sparse_softmax_cross_entropy(net.classes("t", 3, 3), logits))


def ppo(net: Network) -> Network:
    """Clipped policy and value losses with an entropy bonus."""
    h = gw.tanh(net.data("x", 6, 4) @ net.weight("w1", 4, 5) + net.weight("b1", 5))
    logs = gw.nn.log_softmax(h @ net.weight("wp", 5, 3))
    value = gw.squeeze(h @ net.weight("wv", 5, 1), -1)
    action = gw.expand_dims(net.classes("a", 3, 6), -1)
    chosen = gw.squeeze(gw.take_along_axis(logs, action, -1), -1)
    ratio, gain = gw.exp(chosen + 1.1 + 0.1 * net.data("old", 6)), net.data("gain", 6)
    policy = -gw.mean(gw.minimum(ratio * gain, gw.clip(ratio, 0.8, 1.2) * gain))
    entropy = -gw.mean(gw.sum(gw.exp(logs) * logs, -1))
    return net.ends(policy + 0.5 * gw.mean(gw.square(value - net.data("r", 6))) - 0.01 * entropy)


def vae(net: Network) -> Network:
    """An encoder that draws, a decoder, and the divergence from a normal distribution."""
    x = net.data("x", 5, 6)
    h = gw.nn.relu(x @ net.weight("w1", 6, 5))
    mean, log_var = gw.split(h @ net.weight("w2", 5, 6), 2, axis=1)
    with net.graph:
        noise = gw.random.normal((5, 3))
    z = mean + gw.exp(0.5 * log_var) * noise
    y = gw.nn.sigmoid(z @ net.weight("w3", 3, 6) + net.weight("b3", 6))
    away = gw.sum(gw.square(y - gw.nn.sigmoid(x)), 1)
    divergence = 0.5 * gw.sum(gw.exp(log_var) + gw.square(mean) - 1.0 - log_var, 1)
    return net.ends(gw.mean(away + 0.1 * divergence))


def shared(net: Network) -> Network:
    """One weight used three times, a tied readout, a difference of two losses."""
    w = net.weight("w", 4, 4)
    x = net.data("x", 4, 4)
    h = gw.sin(x @ w)
    h = gw.cos(h @ w) + h
    y = h @ gw.transpose(w)
    return net.ends(gw.logsumexp(y, axis=-1).sum() - gw.sum(y * net.data("t", 4, 4)))


def saturated(net: Network) -> Network:
    """Gates far from the middle and inputs of very different sizes."""
    sizes = net.graph.constant(np.array([1e3, 1.0, 1e-3, 1.0], np.float32))
    h = gw.nn.sigmoid(3.0 * (net.data("x", 4, 4) * sizes) @ net.weight("w1", 4, 5))
    h = gw.nn.softmax(4.0 * h @ net.weight("w2", 5, 4)) * sizes
    y = gw.logsumexp(h @ net.weight("w3", 4, 3), axis=-1)
    return net.ends(gw.mean(gw.nn.softplus(y - net.data("t", 4))))


STRAIGHT = (
    *(
        mlp,
        gated,
        normed,
        batch_normed,
        cnn,
        unet,
        attention,
        embedded,
        ppo,
        vae,
        shared,
        saturated,
    ),
)
