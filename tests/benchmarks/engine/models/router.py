"""Row router: a mixture of experts, where a gate chooses two for each token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.engine.models.model import Arrays, Model, normal

CHOSEN = 2


class Router(Model):
    """y = Σ p_e·relu(x W_e) V_e over the two largest p = softmax(x G); squared error; Adam.

    torch and JAX sort tokens by their experts, as ours does; torch multiplies expert by expert, JAX
    with ``ragged_dot``.
    """

    def __init__(
        self, tokens: int = 4096, width: int = 64, hidden: int = 128, experts: int = 16
    ) -> None:
        self.sizes = tokens, width, hidden, experts
        self.title = f"router T={tokens} D={width} H={hidden} experts={experts} k={CHOSEN}"

    def weights(self) -> Arrays:
        _, d, h, e = self.sizes
        rng = np.random.default_rng(0)
        return {
            "gate": normal(rng, d, e, scale=d**-0.5),
            "w": normal(rng, e, d, h, scale=d**-0.5),
            "v": normal(rng, e, h, d, scale=h**-0.5),
        }

    def batch(self) -> Arrays:
        t, d, _, _ = self.sizes
        rng = np.random.default_rng(1)
        return {k: normal(rng, t, d) for k in ("x", "t")}

    def ours(self, w: Mapping[str, gw.Tensor], x: Mapping[str, gw.Tensor]) -> gw.Tensor:
        y, _ = gw.nn.mixture_of_experts(
            x["x"], w["gate"], w["w"], w["v"], k=CHOSEN, activation="relu"
        )
        return gw.loss.mean_squared_error(x["t"], y)

    def torch(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import torch

        t, d, _, e = self.sizes
        p, chosen = torch.softmax(x["x"] @ w["gate"], -1).topk(CHOSEN)
        flat = chosen.reshape(-1)
        order = torch.argsort(flat, stable=True)
        parts = x["x"][order // CHOSEN].split(torch.bincount(flat, minlength=e).tolist())
        y = torch.cat([torch.relu(r @ w["w"][i]) @ w["v"][i] for i, r in enumerate(parts)])
        back = torch.zeros_like(y).index_copy(0, order, y).view(t, CHOSEN, d)
        return torch.nn.functional.mse_loss((back * p[..., None]).sum(1), x["t"])

    def jax(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import jax
        import jax.numpy as jnp

        t, d, _, e = self.sizes
        p, chosen = jax.lax.top_k(jax.nn.softmax(x["x"] @ w["gate"]), CHOSEN)
        flat = chosen.reshape(-1)
        order = jnp.argsort(flat)
        sizes = jnp.bincount(flat, length=e)
        hidden = jax.nn.relu(jax.lax.ragged_dot(x["x"][order // CHOSEN], w["w"], sizes))
        y = jax.lax.ragged_dot(hidden, w["v"], sizes)
        back = jnp.zeros_like(y).at[order].set(y).reshape(t, CHOSEN, d)
        return (((back * p[..., None]).sum(1) - x["t"]) ** 2).mean()
