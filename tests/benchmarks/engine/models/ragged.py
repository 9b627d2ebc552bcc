"""Row ragged: an LSTM over sentences of different lengths, which looks words up at every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.engine.models.model import (
    Array,
    Arrays,
    Model,
    cross_entropy_in_jax,
    normal,
)

CLASSES = 16


class Ragged(Model):
    """words: i64[T, B], lengths: i64[B] -> the class of each sentence from its last state; Adam.

    Each step looks its words up, and a sentence that has ended keeps its state. The loop is written
    out in torch, and is ``scan`` here and in JAX.
    """

    def __init__(
        self,
        steps: int = 32,
        batch: int = 32,
        words: int = 2000,
        inputs: int = 64,
        hidden: int = 128,
    ) -> None:
        self.sizes = steps, batch, words, inputs, hidden
        self.title = f"ragged LSTM T={steps} B={batch} words={words} I={inputs} H={hidden}"

    def weights(self) -> Arrays:
        _, _, v, i, h = self.sizes
        rng = np.random.default_rng(0)
        return {
            "table": normal(rng, v, i),
            "w": normal(rng, i + h, 4 * h, scale=(i + h) ** -0.5),
            "b": np.zeros(4 * h, np.float32),
            "head": normal(rng, h, CLASSES, scale=h**-0.5),
        }

    def batch(self) -> Arrays:
        t, b, v, _, _ = self.sizes
        rng = np.random.default_rng(1)
        lengths: Array = rng.integers(1, t + 1, b)
        mask = (np.arange(t)[:, None] < lengths)[..., None]
        return {
            "words": rng.integers(0, v, (t, b)),
            "mask": mask.astype(np.float32),
            "labels": rng.integers(0, CLASSES, b),
        }

    def ours(self, w: Mapping[str, gw.Tensor], x: Mapping[str, gw.Tensor]) -> gw.Tensor:
        _, b, _, _, h = self.sizes

        def step(state: Any, given: Any) -> Any:
            (y, c), (words, mask) = state, given
            u = gw.concat([gw.gather(w["table"], words), y], axis=1) @ w["w"] + w["b"]
            i, f, o, g = gw.split(u, 4, axis=1)
            new_c = gw.nn.sigmoid(f) * c + gw.nn.sigmoid(i) * gw.tanh(g)
            new_y = gw.nn.sigmoid(o) * gw.tanh(new_c)
            y, c = y + mask * (new_y - y), c + mask * (new_c - c)
            return (y, c), ()

        zeros = y = w["head"].graph.constant(np.zeros((b, h), np.float32))
        (y, _), _ = gw.scan(step, (zeros, zeros), (x["words"], x["mask"]))
        return gw.loss.sparse_softmax_cross_entropy(x["labels"], y @ w["head"])

    def torch(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import torch

        _, b, _, _, h = self.sizes
        y = c = torch.zeros(b, h)
        for words, mask in zip(x["words"].unbind(), x["mask"].unbind(), strict=True):
            u = torch.cat([w["table"][words], y], 1) @ w["w"] + w["b"]
            i, f, o, g = u.chunk(4, 1)
            new_c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            new_y = torch.sigmoid(o) * torch.tanh(new_c)
            y, c = y + mask * (new_y - y), c + mask * (new_c - c)
        return torch.nn.functional.cross_entropy(y @ w["head"], x["labels"])

    def jax(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import jax
        import jax.numpy as jnp

        _, b, _, _, h = self.sizes

        def step(state: Any, given: Any) -> Any:
            (y, c), (words, mask) = state, given
            u = jnp.concatenate([w["table"][words], y], 1) @ w["w"] + w["b"]
            i, f, o, g = jnp.split(u, 4, 1)
            new_c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            new_y = jax.nn.sigmoid(o) * jnp.tanh(new_c)
            return (y + mask * (new_y - y), c + mask * (new_c - c)), None

        zeros = jnp.zeros((b, h), jnp.float32)
        (y, _), _ = jax.lax.scan(step, (zeros, zeros), (x["words"], x["mask"]))
        return cross_entropy_in_jax(y @ w["head"], x["labels"])
