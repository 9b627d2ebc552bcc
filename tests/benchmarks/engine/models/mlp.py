"""Rows a, b and c: two affine maps with a ReLU between them, on labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.engine.models.model import Arrays, Model, cross_entropy_in_jax, normal


class MLP(Model):
    """x: f32[B, I] -> I-H-10 with ReLU; softmax cross entropy on i64[B]; Adam."""

    def __init__(self, batch: int, inputs: int, hidden: int, classes: int = 10) -> None:
        self.sizes = batch, inputs, hidden, classes
        self.title = f"MLP {batch}x({inputs}-{hidden}-{classes})"

    def weights(self) -> Arrays:
        _, i, h, o = self.sizes
        rng = np.random.default_rng(0)
        return {
            "w1": normal(rng, i, h, scale=(2 / i) ** 0.5),
            "b1": np.zeros(h, np.float32),
            "w2": normal(rng, h, o, scale=(2 / h) ** 0.5),
            "b2": np.zeros(o, np.float32),
        }

    def batch(self) -> Arrays:
        b, i, _, o = self.sizes
        rng = np.random.default_rng(1)
        return {"x": normal(rng, b, i), "t": rng.integers(0, o, b)}

    def ours(self, w: Mapping[str, gw.Tensor], x: Mapping[str, gw.Tensor]) -> gw.Tensor:
        h = gw.nn.relu(x["x"] @ w["w1"] + w["b1"])
        return gw.loss.sparse_softmax_cross_entropy(x["t"], h @ w["w2"] + w["b2"])

    def torch(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import torch

        h = torch.relu(torch.addmm(w["b1"], x["x"], w["w1"]))
        return torch.nn.functional.cross_entropy(torch.addmm(w["b2"], h, w["w2"]), x["t"])

    def jax(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import jax

        h = jax.nn.relu(x["x"] @ w["w1"] + w["b1"])
        return cross_entropy_in_jax(h @ w["w2"] + w["b2"], x["t"])
