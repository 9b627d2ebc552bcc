"""Many small layers, one after another: what a step costs to be made, rather than to be run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.engine.models.model import Arrays, Model, normal


class Deep(Model):
    """x: f32[32, 64], so many layers of tanh(x @ w + b): with Adam 37 nodes each."""

    def __init__(self, layers: int) -> None:
        self.layers = layers
        self.title = f"{layers} layers of tanh"

    def weights(self) -> Arrays:
        rng = np.random.default_rng(0)
        made: Arrays = {}
        for i in range(self.layers):
            made[f"{i}/w"] = normal(rng, 64, 64, scale=0.1)
            made[f"{i}/b"] = np.zeros(64, np.float32)
        return made

    def batch(self) -> Arrays:
        return {"x": normal(np.random.default_rng(1), 32, 64)}

    def ours(self, w: Mapping[str, gw.Tensor], x: Mapping[str, gw.Tensor]) -> gw.Tensor:
        h = x["x"]
        for i in range(self.layers):
            h = gw.tanh(h @ w[f"{i}/w"] + w[f"{i}/b"])
        return gw.mean(gw.square(h))

    def torch(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import torch

        h = x["x"]
        for i in range(self.layers):
            h = torch.tanh(torch.addmm(w[f"{i}/b"], h, w[f"{i}/w"]))
        return (h * h).mean()

    def jax(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import jax.numpy as jnp

        h = x["x"]
        for i in range(self.layers):
            h = jnp.tanh(h @ w[f"{i}/w"] + w[f"{i}/b"])
        return (h * h).mean()
