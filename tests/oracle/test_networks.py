"""Whole networks beside PyTorch: results, gradients of all parameters, twenty training steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gradwright as gw

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Network:
    """A network twice: functions of parameters by name, inputs and labels that give the loss."""

    parameters: Mapping[str, tuple[int, ...]]
    inputs: tuple[int, ...]
    classes: int
    ours: Callable[..., Any]
    theirs: Callable[..., Any]

    def values(self) -> dict[str, Array]:
        """Return the parameters to start from."""
        rng = np.random.default_rng(0)
        return {n: rng.standard_normal(s) * 0.3 for n, s in self.parameters.items()}

    def batches(self, n: int) -> list[tuple[Array, Array]]:
        """Return ``n`` batches of inputs and labels."""
        rng = np.random.default_rng(1)
        return [
            (rng.standard_normal(self.inputs), rng.integers(0, self.classes, self.inputs[0]))
            for _ in range(n)
        ]


def our_mlp(p: Any, x: Any) -> Any:
    h = gw.nn.gelu(gw.nn.layer_norm(gw.nn.linear(x, p["w1"], p["b1"]), p["scale"], p["shift"]))
    return gw.tanh(h @ p["w2"]) @ p["w3"] + p["b3"]


def their_mlp(t: Any, p: Any, x: Any) -> Any:
    f = t.nn.functional
    h = f.gelu(f.layer_norm(x @ p["w1"] + p["b1"], (16,), p["scale"], p["shift"]))
    return t.tanh(h @ p["w2"]) @ p["w3"] + p["b3"]


def our_cnn(p: Any, x: Any) -> Any:
    h = gw.cnn.conv2d(x, p["k1"], padding=1)
    h = gw.nn.relu(gw.nn.batch_norm(h, p["scale"], p["shift"], name="bn"))
    h = gw.cnn.max_pool2d(h, 2)
    h = gw.nn.silu(gw.cnn.conv2d(h, p["k2"], p["c2"], stride=2, padding="valid", groups=2))
    return gw.flatten(gw.cnn.avg_pool2d(h, 2, 1), 1) @ p["w"] + p["b"]


def their_cnn(t: Any, p: Any, x: Any) -> Any:
    f = t.nn.functional
    h = f.conv2d(x, p["k1"], padding=1)
    h = f.relu(f.batch_norm(h, None, None, p["scale"], p["shift"], training=True))
    h = f.max_pool2d(h, 2)
    h = f.silu(f.conv2d(h, p["k2"], p["c2"], stride=2, groups=2))
    return f.avg_pool2d(h, 2, 1).flatten(1) @ p["w"] + p["b"]


def our_block(p: Any, x: Any) -> Any:
    def heads(h: Any) -> Any:
        return h.reshape(4, 5, 2, 4).transpose(0, 2, 1, 3)

    n = gw.nn.rms_norm(x, p["scale"])
    q, k, v = (heads(n @ p[w]) for w in ("wq", "wk", "wv"))
    mixed = gw.nn.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + mixed.transpose(0, 2, 1, 3).reshape(4, 5, 8) @ p["wo"]
    x = x + gw.nn.silu(x @ p["up"]) @ p["down"]
    return gw.mean(gw.nn.softmax(x * 3.0) * x, 1) @ p["w"]


def their_block(t: Any, p: Any, x: Any) -> Any:
    f = t.nn.functional

    def heads(h: Any) -> Any:
        return h.reshape(4, 5, 2, 4).transpose(1, 2)

    n = f.rms_norm(x, (8,), p["scale"], 1e-5)
    q, k, v = (heads(n @ p[w]) for w in ("wq", "wk", "wv"))
    mixed = f.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + mixed.transpose(1, 2).reshape(4, 5, 8) @ p["wo"]
    x = x + f.silu(x @ p["up"]) @ p["down"]
    return (f.softmax(x * 3.0, -1) * x).mean(1) @ p["w"]


SQUARE = dict.fromkeys(("wq", "wk", "wv", "wo"), (8, 8))
NETWORKS = {
    "mlp with layer_norm": Network(
        {
            "w1": (6, 16),
            "b1": (16,),
            "scale": (16,),
            "shift": (16,),
            "w2": (16, 8),
            "w3": (8, 3),
            "b3": (3,),
        },
        (12, 6),
        3,
        our_mlp,
        their_mlp,
    ),
    "cnn with batch_norm and pooling": Network(
        {
            "k1": (4, 2, 3, 3),
            "scale": (4,),
            "shift": (4,),
            "k2": (6, 2, 2, 2),
            "c2": (6,),
            "w": (6, 3),
            "b": (3,),
        },
        (4, 2, 8, 8),
        3,
        our_cnn,
        their_cnn,
    ),
    "attention block": Network(
        {**SQUARE, "scale": (8,), "up": (8, 12), "down": (12, 8), "w": (8, 4)},
        (4, 5, 8),
        4,
        our_block,
        their_block,
    ),
}
OPTIMIZERS = {
    "sgd": (gw.optim.SGD(0.05, weight_decay=0.1), "SGD", {"lr": 0.05, "weight_decay": 0.1}),
    "momentum": (gw.optim.SGD(0.05, momentum=0.9), "SGD", {"lr": 0.05, "momentum": 0.9}),
    "nesterov": (
        gw.optim.SGD(0.05, momentum=0.9, nesterov=True),
        "SGD",
        {"lr": 0.05, "momentum": 0.9, "nesterov": True},
    ),
    "adam": (gw.optim.Adam(0.01), "Adam", {"lr": 0.01}),
    "adamw": (
        gw.optim.AdamW(0.01, beta2=0.95, weight_decay=0.1),
        "AdamW",
        {"lr": 0.01, "betas": (0.9, 0.95), "weight_decay": 0.1},
    ),
}


def build(network: Network) -> tuple[gw.Graph, dict[str, gw.Tensor], gw.Tensor]:
    """Return a graph of the network, its parameters and its loss."""
    g = gw.Graph()
    x = g.placeholder("x", network.inputs, "float64")
    t = g.placeholder("t", (network.inputs[0],), "int64")
    p = {n: g.variable(n, v.shape, init=v, dtype="float64") for n, v in network.values().items()}
    return g, p, gw.loss.sparse_softmax_cross_entropy(t, network.ours(p, x), name="loss")


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_all_parameters(torch: ModuleType, name: str) -> None:
    network = NETWORKS[name]
    (x, t), *_ = network.batches(1)
    theirs = {n: torch.tensor(v, requires_grad=True) for n, v in network.values().items()}
    expected = torch.nn.functional.cross_entropy(
        network.theirs(torch, theirs, torch.tensor(x)), torch.tensor(t)
    )
    expected.backward()

    g, p, loss = build(network)
    with gw.Session(g) as session:
        found, *slopes = session.run(
            [loss, *gw.gradients(loss, list(p.values()))], {"x": x, "t": t}, training=True
        )
    np.testing.assert_allclose(found, expected.item(), 1e-12)
    for n, slope in zip(p, slopes, strict=True):
        np.testing.assert_allclose(slope, theirs[n].grad.numpy(), 1e-9, 1e-11, err_msg=n)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_twenty_training_steps(torch: ModuleType, name: str, optimizer: str) -> None:
    network = NETWORKS[name]
    ours, theirs, options = OPTIMIZERS[optimizer]
    start = network.values()
    reference = {n: torch.tensor(v, requires_grad=True) for n, v in start.items()}
    stepper = getattr(torch.optim, theirs)(reference.values(), **options)
    g, p, loss = build(network)
    trainer = gw.Trainer(g, loss, optimizer=ours)
    for x, t in network.batches(20):
        stepper.zero_grad()
        expected = torch.nn.functional.cross_entropy(
            network.theirs(torch, reference, torch.tensor(x)), torch.tensor(t)
        )
        expected.backward()
        stepper.step()
        found = trainer.step({"x": x, "t": t}).metrics["loss"]
        np.testing.assert_allclose(found, expected.item(), 1e-6)
    for n in p:
        np.testing.assert_allclose(g.values[n], reference[n].detach().numpy(), 1e-6, 1e-8)
        assert np.abs(g.values[n] - start[n]).max() > 1e-3, f"{n} has not moved"
