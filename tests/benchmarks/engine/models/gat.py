"""Row gat: a graph attention network, means of neighbours whose weights are a softmax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.engine.models.graphs import CLASSES, GraphNetwork
from tests.benchmarks.engine.models.model import Arrays, cross_entropy_in_jax, normal

HEADS, SLOPE = 4, 0.2


class GAT(GraphNetwork):
    """Of each head: h' = Σ α (h W)[s], α the softmax over the edges s → t of each t, elu between.

    Its logits are leaky_relu(a·(h W)[s] + c·(h W)[t]); the second layer has a single head.
    """

    kind = "GAT"

    def weights(self) -> Arrays:
        f, rng = self.sizes[2], np.random.default_rng(2)
        d = f // HEADS
        more = {k: normal(rng, HEADS, d, scale=d**-0.5) for k in ("a1", "c1")}
        more |= {k: normal(rng, 1, CLASSES, scale=CLASSES**-0.5) for k in ("a2", "c2")}
        return {**super().weights(), **more}

    def ours(self, w: Mapping[str, gw.Tensor], x: Mapping[str, gw.Tensor]) -> gw.Tensor:
        n, source, target = self.sizes[0], x["source"], x["target"]

        def layer(h: gw.Tensor, i: int) -> gw.Tensor:
            heads, d = w[f"a{i}"].shape
            z = (h @ w[f"w{i}"]).reshape(n, heads, d)
            a, c = ((z * w[f"{k}{i}"]).sum(-1) for k in "ac")
            e = gw.nn.leaky_relu(gw.gather(a, source) + gw.gather(c, target), SLOPE)
            top = gw.stop_gradient(gw.unsorted_segment_max(e, target, n))
            e = gw.exp(e - gw.gather(top, target))
            total = gw.unsorted_segment_sum(e, target, n)
            alpha = e / gw.gather(total, target)
            messages = gw.gather(z, source) * gw.expand_dims(alpha, -1)
            y = gw.unsorted_segment_sum(messages, target, n)
            return y.reshape(n, heads * d) + w[f"b{i}"]

        y = layer(gw.nn.elu(layer(x["x"], 1)), 2)
        return gw.loss.sparse_softmax_cross_entropy(x["labels"], y)

    def torch(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import torch

        n, source, target = self.sizes[0], x["source"], x["target"]

        def layer(h: Any, i: int) -> Any:
            heads, d = w[f"a{i}"].shape
            z = (h @ w[f"w{i}"]).view(n, heads, d)
            a, c = ((z * w[f"{k}{i}"]).sum(-1) for k in "ac")
            e = torch.nn.functional.leaky_relu(a[source] + c[target], SLOPE)
            lowest = torch.full((n, heads), -torch.inf)
            places = target[:, None].expand(-1, heads)
            with torch.no_grad():
                top = lowest.scatter_reduce(0, places, e, "amax")
            e = torch.exp(e - top[target])
            total = torch.zeros(n, heads).index_add(0, target, e)
            alpha = e / total[target]
            messages = z[source] * alpha[..., None]
            y = torch.zeros(n, heads, d).index_add(0, target, messages)
            return y.view(n, heads * d) + w[f"b{i}"]

        y = layer(torch.nn.functional.elu(layer(x["x"], 1)), 2)
        return torch.nn.functional.cross_entropy(y, x["labels"])

    def jax(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import jax
        import jax.numpy as jnp

        n, source, target = self.sizes[0], x["source"], x["target"]

        def layer(h: Any, i: int) -> Any:
            heads, d = w[f"a{i}"].shape
            z = (h @ w[f"w{i}"]).reshape(n, heads, d)
            a, c = ((z * w[f"{k}{i}"]).sum(-1) for k in "ac")
            e = jax.nn.leaky_relu(a[source] + c[target], SLOPE)
            top = jax.lax.stop_gradient(jax.ops.segment_max(e, target, n))
            e = jnp.exp(e - top[target])
            alpha = e / jax.ops.segment_sum(e, target, n)[target]
            y = jax.ops.segment_sum(z[source] * alpha[..., None], target, n)
            return y.reshape(n, heads * d) + w[f"b{i}"]

        return cross_entropy_in_jax(layer(jax.nn.elu(layer(x["x"], 1)), 2), x["labels"])
