"""Rows of graph networks: what they share, their nodes, edges and classes."""

from __future__ import annotations

import numpy as np

from tests.benchmarks.engine.models.model import Arrays, Model, normal

CLASSES = 16


class GraphNetwork(Model):
    """N nodes of F numbers, E edges at random in any order, two layers, classes of nodes; Adam."""

    kind: str

    def __init__(self, nodes: int = 10_000, edges: int = 100_000, width: int = 64) -> None:
        self.sizes = nodes, edges, width
        self.title = f"{self.kind} N={nodes} E={edges} F={width}"

    def weights(self) -> Arrays:
        _, _, f = self.sizes
        rng = np.random.default_rng(0)
        return {
            "w1": normal(rng, f, f, scale=f**-0.5),
            "b1": np.zeros(f, np.float32),
            "w2": normal(rng, f, CLASSES, scale=f**-0.5),
            "b2": np.zeros(CLASSES, np.float32),
        }

    def batch(self) -> Arrays:
        n, e, f = self.sizes
        rng = np.random.default_rng(1)
        source, target = rng.integers(0, n, (2, e))
        return {
            "x": normal(rng, n, f),
            "source": source,
            "target": target,
            "labels": rng.integers(0, CLASSES, n),
        }
