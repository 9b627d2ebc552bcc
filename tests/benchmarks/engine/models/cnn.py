"""Row d: three convolutions with pooling, on labels."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.engine.models.model import Arrays, Model, cross_entropy_in_jax, normal

CHANNELS = (3, 32, 64, 64)
SIDE, CLASSES = 32, 10


class CNN(Model):
    """x: f32[32, 3, 32, 32]; three times conv 3x3 (padding 1, bias), ReLU, max pool 2x2; linear.

    Channels 3-32-64-64, sides 32-16-8-4, so the last map has 1024 inputs and 10 outputs; softmax
    cross entropy on i64[32]; Adam.
    """

    def __init__(self, batch: int = 32) -> None:
        self.examples = batch
        self.title = f"CNN {'-'.join(map(str, CHANNELS))}, 3x3, {SIDE}x{SIDE}, B={batch}"

    def weights(self) -> Arrays:
        rng = np.random.default_rng(0)
        made: Arrays = {}
        for i, (c, o) in enumerate(pairwise(CHANNELS)):
            made[f"k{i}"] = normal(rng, o, c, 3, 3, scale=(2 / (9 * c)) ** 0.5)
            made[f"b{i}"] = np.zeros(o, np.float32)
        width = CHANNELS[-1] * (SIDE >> len(CHANNELS) - 1) ** 2
        made["w"] = normal(rng, width, CLASSES, scale=width**-0.5)
        made["b"] = np.zeros(CLASSES, np.float32)
        return made

    def batch(self) -> Arrays:
        rng = np.random.default_rng(1)
        x = normal(rng, self.examples, CHANNELS[0], SIDE, SIDE)
        return {"x": x, "t": rng.integers(0, CLASSES, self.examples)}

    def ours(self, w: Mapping[str, gw.Tensor], x: Mapping[str, gw.Tensor]) -> gw.Tensor:
        h = x["x"]
        for i in range(len(CHANNELS) - 1):
            h = gw.nn.relu(gw.cnn.conv2d(h, w[f"k{i}"], w[f"b{i}"], padding=1))
            h = gw.cnn.max_pool2d(h, 2)
        logits = h.reshape(self.examples, -1) @ w["w"] + w["b"]
        return gw.loss.sparse_softmax_cross_entropy(x["t"], logits)

    def torch(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import torch
        from torch.nn import functional as f

        h = x["x"]
        for i in range(len(CHANNELS) - 1):
            h = f.max_pool2d(torch.relu(f.conv2d(h, w[f"k{i}"], w[f"b{i}"], padding=1)), 2)
        return f.cross_entropy(torch.addmm(w["b"], h.flatten(1), w["w"]), x["t"])

    def jax(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import jax
        import jax.numpy as jnp
        from jax import lax

        h = x["x"]
        for i in range(len(CHANNELS) - 1):
            h = lax.conv_general_dilated(h, w[f"k{i}"], (1, 1), "SAME")
            h = jax.nn.relu(h + w[f"b{i}"][:, None, None])
            h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        logits = h.reshape(self.examples, -1) @ w["w"] + w["b"]
        return cross_entropy_in_jax(logits, x["t"])
