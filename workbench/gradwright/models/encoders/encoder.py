"""What encoders share: hidden positions, what is pooled of them, and a head with a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...graph import Graph, Tensor
from ...ops.core.activation import Tanh
from ...ops.core.identity import Identity
from ...spec.buffer import Buffer
from ..decoder.weights import Weights, count, fill
from .layers import first

Array = np.ndarray[Any, Any]


class Encoder(ABC):
    """A graph whose ``hidden`` sees all of its input at once; heads add what a config asks for."""

    config: Any

    def __init__(
        self,
        graph: Graph,
        seed: int,
        values: Mapping[str, Array | Buffer] | None,
        source: Path | None,
        packed: Mapping[str, str] | None = None,
    ) -> None:
        config, self.graph, self.source = self.config, graph, source
        self.packed = dict(packed or {})
        self.pooled: Tensor | None = None
        self.labels: Tensor | None = None
        self.logits: Tensor | None = None
        self.loss: Tensor | None = None
        with graph:
            begin = first(config, seed) if values is None else None
            weights = Weights(graph, config, self.packed, begin)
            self.hidden = Identity()(self._layers(weights), name="hidden")
            if config.pooler:
                y = Tanh()(weights.product(self.hidden[:, 0], "pooler"))
                self.pooled = Identity()(y, name="pooled")
            self._head(weights)
        if values is not None:
            fill(graph, values)
        self.n_weights = count(config)

    @abstractmethod
    def _layers(self, weights: Weights) -> Tensor:
        """Return what the positions have become, f32[B, T, D]."""

    @abstractmethod
    def _head(self, weights: Weights) -> None:
        """Add labels, logits and loss of the head, if there is one."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.n_weights:,} weights: {self.config}>"
