"""One op at fault, planted in five networks at two places each: it is named wherever it stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.address import Address
from tests.debug.explained import held_against_the_gradient

Bug = Callable[[gw.Tensor], gw.Tensor]
Made = tuple[gw.Tensor, dict[str, Any]]
NAME = "at_fault"
BUGS: dict[str, tuple[Bug, str]] = {
    "relu": (lambda h: gw.nn.relu(h - 1e3, name=NAME), "flat"),
    "mask": (lambda h: gw.mul(h, gw.zeros_like(h), name=NAME), "zero factor"),
    "stop": (lambda h: gw.stop_gradient(h, name=NAME), "detached"),
    "cast": (lambda h: gw.cast(gw.cast(h, "int64", name=NAME), "float32"), "detached"),
    "round": (lambda h: gw.round(h, name=NAME), "flat"),
    "where": (lambda h: gw.where(h > 1e9, h, 1.0, name=NAME), "masked"),
    "clip": (lambda h: gw.clip(h + 50.0, -1.0, 1.0, name=NAME), "flat"),
    "tanh": (lambda h: gw.tanh(h + 12.0, name=NAME), "saturated"),
    "sigmoid": (lambda h: gw.nn.sigmoid(h - 25.0, name=NAME), "saturated"),
    "scale": (lambda h: gw.mul(h, 1e-7, name=NAME), "factor"),
    "large": (lambda h: gw.div(h, 1e-7, name=NAME), "factor"),
}


def variable(g: gw.Graph, name: str, *shape: int) -> gw.Tensor:
    return g.variable(name, shape, gw.init.xavier_uniform(seed=sum(map(ord, name))))


def mlp(bug: Bug, at: int) -> Made:
    g = gw.Graph()
    h = g.placeholder("x", ("B", 16))
    for k in range(4):
        h = gw.nn.gelu(h @ variable(g, f"w{k}", 16, 16))
        h = bug(h) if k == 2 * at else h
    return h, {"x": np.random.default_rng(0).standard_normal((12, 16))}


def cnn(bug: Bug, at: int) -> Made:
    g = gw.Graph()
    h = g.placeholder("x", ("B", 6, 8, 8))
    for k in range(3):
        h = gw.nn.silu(gw.cnn.conv2d(h, variable(g, f"w{k}", 6, 6, 3, 3), padding=1))
        h = bug(h) if k == 2 * at else h
    return h.mean((2, 3)), {"x": np.random.default_rng(0).standard_normal((4, 6, 8, 8))}


def loop(bug: Bug, at: int) -> Made:
    g = gw.Graph()
    x = g.placeholder("x", (6, 4, 5))
    w, u = variable(g, "w0", 5, 8), variable(g, "u", 8, 8)

    def step(h: gw.Tensor, v: gw.Tensor) -> Any:
        z = v @ w
        return ((bug(z) if at == 0 else z) + h @ u) * 0.5, ()

    h, _ = gw.scan(step, g.constant(np.zeros((4, 8), "f4")), x, name="scan")
    return bug(h) if at else h, {"x": np.random.default_rng(0).standard_normal((6, 4, 5))}


def nested(bug: Bug, at: int) -> Made:
    """A call in a branch in a map."""
    g = gw.Graph()
    x = g.placeholder("x", (3, 8))

    @gw.function("block")
    def block(h: gw.Tensor) -> Any:
        return bug(gw.tanh(h)) if at == 0 else gw.tanh(h)

    def row(v: gw.Tensor) -> Any:
        y = gw.cond(v.sum() < 1e9, lambda: block(v), lambda: v, name="choose")
        return bug(y) if at == 1 else y

    h = gw.map_fn(row, x @ variable(g, "w0", 8, 8), name="rows")
    return h, {"x": np.random.default_rng(0).standard_normal((3, 8))}


def attention(bug: Bug, at: int) -> Made:
    g = gw.Graph()
    h = g.placeholder("x", ("B", 6, 16)) @ variable(g, "w0", 16, 16)
    h = bug(h) if at == 0 else h
    q, k, v = (h @ variable(g, n, 16, 16) for n in "qkv")
    h = gw.nn.softmax(q @ gw.transpose(k, (0, 2, 1)) / 4.0) @ v
    return (bug(h) if at else h).mean(1), {
        "x": np.random.default_rng(0).standard_normal((3, 6, 16))
    }


@pytest.mark.parametrize("kind", BUGS)
@pytest.mark.parametrize("network", [mlp, cnn, loop, nested, attention])
@pytest.mark.parametrize("at", [0, 1])
def test_it_is_named(network: Callable[..., Made], at: int, kind: str) -> None:
    bug, cause = BUGS[kind]
    h, feeds = network(bug, at)
    g = h.graph
    loss = gw.nn.softplus(h @ variable(g, "out", int(h.shape[-1]), 4)).sum(name="loss")
    found = gw.explain_gradient(g, loss, "w0", feeds)
    if kind != "tanh":  # of whose slope float32 keeps no digit
        held_against_the_gradient(found, g, loss, feeds)
    assert found.verdict != "ordinary"
    named = [c for c in found.causes if NAME in [Address.parse(n).node for n in c.nodes]]
    assert named, found.text
    assert cause in [c.kind for c in named] or "in a turn, most by" in named[0].text


@pytest.mark.parametrize("network", [mlp, cnn, loop, nested, attention])
def test_without_it_nothing_is_claimed(network: Callable[..., Made]) -> None:
    h, feeds = network(lambda h: gw.mul(h, 1.0, name=NAME), 0)
    g = h.graph
    loss = gw.nn.softplus(h @ variable(g, "out", int(h.shape[-1]), 4)).sum(name="loss")
    for parameter in g.trainable:
        found = gw.explain_gradient(g, loss, parameter, feeds)
        assert (found.verdict, found.causes) == ("ordinary", ()), found.text
