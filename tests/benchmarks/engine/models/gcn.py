"""Row gcn: a graph convolutional network, sums of neighbours with a weight for each edge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.engine.models.graphs import GraphNetwork
from tests.benchmarks.engine.models.model import Arrays, cross_entropy_in_jax


class GCN(GraphNetwork):
    """h' = b + Σ over edges s → t of weight·(h W)[s]; relu between; cross entropy of all nodes."""

    kind = "GCN"

    def batch(self) -> Arrays:
        batch, (n, e, _) = super().batch(), self.sizes
        sizes = [np.maximum(np.bincount(batch[k], minlength=n), 1) for k in ("source", "target")]
        degree = sizes[0][batch["source"]] * sizes[1][batch["target"]]
        return {**batch, "weight": (degree**-0.5).astype(np.float32).reshape(e, 1)}

    def ours(self, w: Mapping[str, gw.Tensor], x: Mapping[str, gw.Tensor]) -> gw.Tensor:
        def layer(h: gw.Tensor, weight: gw.Tensor, bias: gw.Tensor) -> gw.Tensor:
            messages = gw.gather(h @ weight, x["source"]) * x["weight"]
            return gw.unsorted_segment_sum(messages, x["target"], self.sizes[0]) + bias

        h = gw.nn.relu(layer(x["x"], w["w1"], w["b1"]))
        y = layer(h, w["w2"], w["b2"])
        return gw.loss.sparse_softmax_cross_entropy(x["labels"], y)

    def torch(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import torch

        def layer(h: Any, weight: Any, bias: Any) -> Any:
            messages = (h @ weight)[x["source"]] * x["weight"]
            zeros = torch.zeros(self.sizes[0], weight.shape[1])
            return zeros.index_add(0, x["target"], messages) + bias

        h = torch.relu(layer(x["x"], w["w1"], w["b1"]))
        y = layer(h, w["w2"], w["b2"])
        return torch.nn.functional.cross_entropy(y, x["labels"])

    def jax(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import jax

        def layer(h: Any, weight: Any, bias: Any) -> Any:
            messages = (h @ weight)[x["source"]] * x["weight"]
            return jax.ops.segment_sum(messages, x["target"], self.sizes[0]) + bias

        h = jax.nn.relu(layer(x["x"], w["w1"], w["b1"]))
        return cross_entropy_in_jax(layer(h, w["w2"], w["b2"]), x["labels"])
