"""Row max: message passing that keeps the largest of all messages to a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.engine.models.graphs import CLASSES, GraphNetwork
from tests.benchmarks.engine.models.model import Arrays, cross_entropy_in_jax, normal


class MaxMessages(GraphNetwork):
    """h' = h V + b + the largest of relu((h W)[s] + (h U)[t]) over the edges s → t of each t.

    A node that no edge leads to has 0 in its place.
    """

    kind = "max messages"

    def weights(self) -> Arrays:
        f, rng = self.sizes[2], np.random.default_rng(2)
        sizes = {1: f, 2: CLASSES}
        more = {f"{k}{i}": normal(rng, f, n, scale=f**-0.5) for i, n in sizes.items() for k in "uv"}
        return {**super().weights(), **more}

    def ours(self, w: Mapping[str, gw.Tensor], x: Mapping[str, gw.Tensor]) -> gw.Tensor:
        def layer(h: gw.Tensor, i: int) -> gw.Tensor:
            sent, taken = h @ w[f"w{i}"], h @ w[f"u{i}"]
            messages = gw.gather(sent, x["source"]) + gw.gather(taken, x["target"])
            top = gw.unsorted_segment_max(gw.nn.relu(messages), x["target"], self.sizes[0])
            return gw.maximum(top, 0.0) + h @ w[f"v{i}"] + w[f"b{i}"]

        y = layer(gw.nn.relu(layer(x["x"], 1)), 2)
        return gw.loss.sparse_softmax_cross_entropy(x["labels"], y)

    def torch(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import torch

        def layer(h: Any, i: int) -> Any:
            sent, taken = h @ w[f"w{i}"], h @ w[f"u{i}"]
            messages = torch.relu(sent[x["source"]] + taken[x["target"]])
            zeros = torch.zeros(self.sizes[0], messages.shape[1])
            places = x["target"][:, None].expand_as(messages)
            top = zeros.scatter_reduce(0, places, messages, "amax")
            return top + h @ w[f"v{i}"] + w[f"b{i}"]

        y = layer(torch.relu(layer(x["x"], 1)), 2)
        return torch.nn.functional.cross_entropy(y, x["labels"])

    def jax(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import jax
        import jax.numpy as jnp

        def layer(h: Any, i: int) -> Any:
            sent, taken = h @ w[f"w{i}"], h @ w[f"u{i}"]
            messages = jax.nn.relu(sent[x["source"]] + taken[x["target"]])
            top = jax.ops.segment_max(messages, x["target"], self.sizes[0])
            return jnp.maximum(top, 0) + h @ w[f"v{i}"] + w[f"b{i}"]

        return cross_entropy_in_jax(layer(jax.nn.relu(layer(x["x"], 1)), 2), x["labels"])
