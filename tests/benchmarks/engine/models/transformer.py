"""Row e: a pre-norm transformer that is taught to give other vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.engine.models.model import Arrays, Model, normal


class Transformer(Model):
    """x: f32[B·T, d]; layers of layer_norm, attention, layer_norm, tanh-GELU network; MSE; Adam.

    No mask, no dropout, biases everywhere, one product for queries, keys and values; the loss is
    the mean of the squared differences to f32[B·T, d].
    """

    def __init__(
        self, batch: int = 8, length: int = 64, width: int = 128, heads: int = 4, layers: int = 2
    ) -> None:
        self.shape = batch, length, heads, width // heads
        self.rows, self.width, self.layers = batch * length, width, layers
        self.title = f"transformer, {layers} layers, d={width} h={heads} T={length} B={batch}"

    def weights(self) -> Arrays:
        rng, d = np.random.default_rng(0), self.width
        made: Arrays = {}
        for i in range(self.layers):
            for name, fan_in, fan_out in (
                ("qkv", d, 3 * d), ("out", d, d), ("up", d, 4 * d), ("down", 4 * d, d)
            ):  # fmt: skip
                made[f"{i}/{name}"] = normal(rng, fan_in, fan_out, scale=0.08)
                made[f"{i}/{name}_bias"] = np.zeros(fan_out, np.float32)
            for j in range(2):
                made[f"{i}/gain{j}"] = np.ones(d, np.float32)
                made[f"{i}/shift{j}"] = np.zeros(d, np.float32)
        return made

    def batch(self) -> Arrays:
        rng = np.random.default_rng(1)
        return {k: normal(rng, self.rows, self.width) for k in ("x", "t")}

    def ours(self, w: Mapping[str, gw.Tensor], x: Mapping[str, gw.Tensor]) -> gw.Tensor:
        h, (b, t, n, d) = x["x"], self.shape

        def affine(y: gw.Tensor, name: str) -> gw.Tensor:
            return y @ w[name] + w[f"{name}_bias"]

        for i in range(self.layers):
            y = gw.nn.layer_norm(h, w[f"{i}/gain0"], w[f"{i}/shift0"])
            qkv = affine(y, f"{i}/qkv").reshape(b, t, 3, n, d)
            q, k, v = (qkv[:, :, j].transpose(0, 2, 1, 3) for j in range(3))
            a = gw.nn.scaled_dot_product_attention(q, k, v).transpose(0, 2, 1, 3)
            h = h + affine(a.reshape(self.rows, self.width), f"{i}/out")
            y = gw.nn.layer_norm(h, w[f"{i}/gain1"], w[f"{i}/shift1"])
            h = h + affine(gw.nn.gelu(affine(y, f"{i}/up"), approximate="tanh"), f"{i}/down")
        return gw.loss.mean_squared_error(x["t"], h)

    def torch(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import torch
        from torch.nn import functional as f

        h, (b, t, n, d) = x["x"], self.shape

        def affine(y: Any, name: str) -> Any:
            return torch.addmm(w[f"{name}_bias"], y, w[name])

        for i in range(self.layers):
            y = f.layer_norm(h, (self.width,), w[f"{i}/gain0"], w[f"{i}/shift0"])
            q, k, v = affine(y, f"{i}/qkv").view(b, t, 3, n, d).permute(2, 0, 3, 1, 4)
            a = f.scaled_dot_product_attention(q, k, v).transpose(1, 2)
            h = h + affine(a.reshape(self.rows, self.width), f"{i}/out")
            y = f.layer_norm(h, (self.width,), w[f"{i}/gain1"], w[f"{i}/shift1"])
            h = h + affine(f.gelu(affine(y, f"{i}/up"), approximate="tanh"), f"{i}/down")
        return f.mse_loss(h, x["t"])

    def jax(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import jax

        h, (b, t, n, d) = x["x"], self.shape

        def affine(y: Any, name: str) -> Any:
            return y @ w[name] + w[f"{name}_bias"]

        def norm(y: Any, gain: Any, shift: Any) -> Any:
            y = y - y.mean(-1, keepdims=True)
            return y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5) * gain + shift

        for i in range(self.layers):
            y = norm(h, w[f"{i}/gain0"], w[f"{i}/shift0"])
            q, k, v = affine(y, f"{i}/qkv").reshape(b, t, 3, n, d).transpose(2, 0, 3, 1, 4)
            a = jax.nn.softmax(q @ k.swapaxes(-1, -2) * d**-0.5) @ v
            h = h + affine(a.transpose(0, 2, 1, 3).reshape(self.rows, self.width), f"{i}/out")
            y = norm(h, w[f"{i}/gain1"], w[f"{i}/shift1"])
            h = h + affine(jax.nn.gelu(affine(y, f"{i}/up"), approximate=True), f"{i}/down")
        return ((h - x["t"]) ** 2).mean()
