"""Row f: an LSTM that is taught to give a vector at every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.engine.models.model import Array, Arrays, Model, normal


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

    def torch_model(self) -> tuple[Any, list[Any]]:
        import torch

        _, _, i, h = self.sizes
        w = self.weights()
        half = 4 * h
        gates = w["w"][0], w["r"][0], w["b"][0, :half], w["b"][0, half:]
        cells, head = torch.nn.LSTM(i, h), torch.nn.Linear(h, i)
        trained = [*cells.parameters(), *head.parameters()]
        arrays = [*map(self._in_torchs_order, gates), w["head"].T, w["head_bias"]]
        with torch.no_grad():
            for parameter, array in zip(trained, arrays, strict=True):
                parameter.copy_(torch.from_numpy(array))
        x, t = map(torch.from_numpy, self.batch().values())
        return lambda: torch.nn.functional.mse_loss(head(cells(x)[0]), t), trained

    @staticmethod
    def _in_torchs_order(a: Array) -> Array:
        """Return gates i, o, f, g as i, f, g, o."""
        i, o, f, g = np.split(a, 4)
        return np.concatenate([i, f, g, o])

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
