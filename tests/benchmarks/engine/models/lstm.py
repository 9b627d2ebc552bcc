"""Row f: an LSTM that is taught to give a vector at every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import gradwright as gw

from .model import Array, Arrays, Model, normal


class LSTM(Model):
    """x: f32[T, B, I] -> one layer of H cells, then H-I affine at every step; MSE; Adam.

    Gates stand in the order i, o, f, g with two biases, as in ONNX; torch's i, f, g, o hold the
    same numbers. The loss is the mean of the squared differences to f32[T, B, I].
    """

    def __init__(
        self, length: int = 64, batch: int = 32, inputs: int = 64, hidden: int = 128
    ) -> None:
        self.sizes = length, batch, inputs, hidden
        self.title = f"LSTM T={length} B={batch} I={inputs} H={hidden}"

    def weights(self) -> Arrays:
        _, _, i, h = self.sizes
        rng = np.random.default_rng(0)
        bound = h**-0.5
        return {
            "w": normal(rng, 1, 4 * h, i, scale=bound / 2),
            "r": normal(rng, 1, 4 * h, h, scale=bound / 2),
            "b": normal(rng, 1, 8 * h, scale=bound / 2),
            "head": normal(rng, h, i, scale=bound),
            "head_bias": np.zeros(i, np.float32),
        }

    def batch(self) -> Arrays:
        t, b, i, _ = self.sizes
        rng = np.random.default_rng(1)
        return {k: normal(rng, t, b, i) for k in ("x", "t")}

    def ours(self, w: Mapping[str, gw.Tensor], x: Mapping[str, gw.Tensor]) -> gw.Tensor:
        y, _, _ = gw.rnn.lstm(x["x"], w["w"], w["r"], w["b"])
        return gw.loss.mean_squared_error(x["t"], y[:, 0] @ w["head"] + w["head_bias"])

    def torch_weights(self) -> Arrays:
        w, h = self.weights(), self.sizes[-1]

        def in_order(a: Array) -> Array:
            i, o, f, g = a.reshape(4, h, *a.shape[1:])
            return np.concatenate([i, f, g, o])

        half = w["b"].shape[1] // 2
        return {
            "w": in_order(w["w"][0]),
            "r": in_order(w["r"][0]),
            "b_w": in_order(w["b"][0, :half]),
            "b_r": in_order(w["b"][0, half:]),
            "head": w["head"],
            "head_bias": w["head_bias"],
        }

    def torch(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import torch

        _, b, _, h = self.sizes
        zeros = torch.zeros(1, b, h)
        gates = [w["w"], w["r"], w["b_w"], w["b_r"]]
        y, _, _ = torch.lstm(x["x"], (zeros, zeros), gates, True, 1, 0.0, True, False, False)
        y = torch.addmm(w["head_bias"], y.flatten(0, 1), w["head"])
        return torch.nn.functional.mse_loss(y, x["t"].flatten(0, 1))

    def jax(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import jax
        import jax.numpy as jnp

        _, b, _, h = self.sizes
        half = 4 * h
        r = w["r"][0].T
        fed = x["x"] @ w["w"][0].T + (w["b"][0, :half] + w["b"][0, half:])  # all steps in one

        def step(state: Any, u: Any) -> Any:
            y, c = state
            i, o, f, g = jnp.split(u + y @ r, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            y = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (y, c), y

        zeros = jnp.zeros((b, h), jnp.float32)
        _, y = jax.lax.scan(step, (zeros, zeros), fed)
        return ((y @ w["head"] + w["head_bias"] - x["t"]) ** 2).mean()
