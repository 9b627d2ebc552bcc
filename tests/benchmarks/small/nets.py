"""Networks of one example, written once for gradwright, torch and JAX."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import gradwright as gw

Array = np.ndarray[Any, Any]


class Net(NamedTuple):
    """A network: its input of one example, its weights, and what it computes of a library."""

    title: str
    x: Array
    weights: list[Array]
    forward: Callable[..., Any]


def _weights(*shapes: tuple[int, ...]) -> list[Array]:
    rng = np.random.default_rng(0)
    scaled = (rng.standard_normal(s) / np.sqrt(max(1, np.prod(s[1:]))) for s in shapes)
    return [w.astype(np.float32) for w in scaled]


def _policy(f: Any, x: Any, w: list[Any]) -> Any:
    for i in (0, 2):
        x = f.relu(x @ w[i] + w[i + 1])
    return x @ w[4] + w[5]


def _digits(f: Any, x: Any, w: list[Any]) -> Any:
    for i in (0, 2):
        x = f.pool(f.relu(f.conv(x, w[i]) + w[i + 1]))
    return x.reshape((-1, 16 * 7 * 7)) @ w[4] + w[5]


def _token(f: Any, x: Any, w: list[Any]) -> Any:
    """A pre-norm block: one token that attends to 64 in a cache, and its network."""
    query = (f.norm(x) @ w[0]).reshape((4, 1, 16))
    seen = f.softmax((query @ w[1]) * 0.25) @ w[2]
    x = x + seen.reshape((1, 64)) @ w[3]
    return x + f.relu(f.norm(x) @ w[4] + w[5]) @ w[6] + w[7]


def nets() -> list[Net]:
    """Return the networks."""
    rng = np.random.default_rng(1)

    def x(*shape: int) -> Array:
        return rng.standard_normal(shape).astype("f")

    mlp = _weights((8, 64), (64,), (64, 64), (64,), (64, 4), (4,))
    cnn = _weights((8, 1, 3, 3), (8, 1, 1), (16, 8, 3, 3), (16, 1, 1), (784, 10), (10,))
    cache = (4, 16, 64), (4, 64, 16)
    block = _weights((64, 64), *cache, (64, 64), (64, 256), (256,), (256, 64), (64,))
    return [
        Net("policy: MLP 8-64-64-4, one row", x(1, 8), mlp, _policy),
        Net("CNN, one image of 28 x 28", x(1, 1, 28, 28), cnn, _digits),
        Net("transformer block of width 64, one token", x(1, 64), block, _token),
    ]


def of_gradwright(net: Net) -> tuple[gw.Graph, gw.Tensor]:
    """Return a network as a graph with variables, fed by ``x``."""
    f = SimpleNamespace(
        relu=gw.nn.relu,
        softmax=gw.nn.softmax,
        norm=gw.nn.layer_norm,
        conv=lambda x, w: gw.cnn.conv2d(x, w, padding=1),
        pool=lambda x: gw.cnn.max_pool2d(x, 2),
    )
    g = gw.Graph()
    rows = 1 if net.forward is _token else None
    x = g.placeholder("x", (rows, *net.x.shape[1:]))
    weights = [g.variable(f"w{i}", w.shape, init=w) for i, w in enumerate(net.weights)]
    return g, gw.identity(net.forward(f, x, weights), name="y")


def of_torch(net: Net) -> Callable[[Any], Any]:
    """Return a network as a function of torch's tensors."""
    import torch
    from torch.nn import functional

    f = SimpleNamespace(
        relu=functional.relu,
        softmax=lambda x: functional.softmax(x, -1),
        norm=lambda x: functional.layer_norm(x, x.shape[-1:]),
        conv=lambda x, w: functional.conv2d(x, w, padding=1),
        pool=lambda x: functional.max_pool2d(x, 2),
    )
    weights = [torch.from_numpy(w) for w in net.weights]
    return lambda x: net.forward(f, x, weights)


def of_jax(net: Net) -> Callable[[Any], Any]:
    """Return a network as a jitted function of arrays."""
    import jax

    def norm(x: Any) -> Any:
        apart = x - x.mean(-1, keepdims=True)
        return apart / jax.numpy.sqrt((apart * apart).mean(-1, keepdims=True) + 1e-5)

    f = SimpleNamespace(
        relu=jax.nn.relu,
        softmax=jax.nn.softmax,
        norm=norm,
        conv=lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"),
        pool=lambda x: jax.lax.reduce_window(
            x, -np.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
        ),
    )
    weights = [jax.numpy.asarray(w) for w in net.weights]
    return jax.jit(lambda x: net.forward(f, x, weights))  # type: ignore[no-any-return]
