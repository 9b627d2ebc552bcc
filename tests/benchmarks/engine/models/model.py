"""What a benchmarked model is: weights and a batch, and its loss in three libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

import gradwright as gw

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]


class Model:
    """A network, its data and its loss, said once for each library.

    Weights have our layout, ``x @ w``. The three losses are written as a user of that library would
    write them for speed, and must agree on the losses of the first steps.
    """

    title: str
    optimizer: ClassVar[str] = "Adam"
    """Adam, or AdamW with the decay of 0.01 that all three libraries call the default."""
    rate: ClassVar[float] = 1e-3
    torch_needs: ClassVar[tuple[str, ...]] = ("torch",)
    """The packages that torch's side runs on."""

    def weights(self) -> Arrays:
        """Return all initial weights; the same at every call."""
        raise NotImplementedError

    def batch(self) -> Arrays:
        """Return the batch that every step takes; the same at every call."""
        raise NotImplementedError

    def is_trained(self, name: str) -> bool:
        """Tell whether a weight is trained; the others are frozen."""
        return True

    def ours(self, w: Mapping[str, gw.Tensor], x: Mapping[str, gw.Tensor]) -> gw.Tensor:
        """Return the loss as a tensor of a graph."""
        raise NotImplementedError

    def torch(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        """Return the loss in torch; unless ``torch_model`` is written otherwise."""
        raise NotImplementedError

    def jax(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        """Return the loss in JAX."""
        raise NotImplementedError

    # -- built -----------------------------------------------------------------------------------

    def graph(self) -> tuple[gw.Graph, gw.Tensor]:
        """Return a graph with one placeholder per array of the batch, and its loss."""
        g = gw.Graph(type(self).__name__.lower())
        x = {k: g.placeholder(k, a.shape, a.dtype) for k, a in self.batch().items()}
        w = {
            k: g.variable(k, init=a, trainable=self.is_trained(k))
            for k, a in self.weights().items()
        }
        with g:
            return g, self.ours(w, x)

    def trainer(self, **options: Any) -> gw.Trainer:
        """Return a trainer with this model's optimizer."""
        g, loss = self.graph()
        made = getattr(gw.optim, self.optimizer)(self.rate)
        return gw.Trainer(g, loss, optimizer=made, **options)

    def torch_model(self) -> tuple[Any, list[Any]]:
        """Return a function that gives the loss of the batch in torch, and what it trains."""
        import torch

        w = {k: torch.from_numpy(a.copy()) for k, a in self.weights().items()}
        x = {k: torch.from_numpy(a) for k, a in self.batch().items()}
        trained = [t.requires_grad_() for k, t in w.items() if self.is_trained(k)]
        return lambda: self.torch(w, x), trained


def normal(rng: np.random.Generator, *shape: int, scale: float = 1.0) -> Array:
    """Return normal numbers in float32."""
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def cross_entropy_in_jax(logits: Any, labels: Any) -> Any:
    """Return the mean cross entropy of labels, for which JAX itself has no function."""
    import jax

    logp = jax.nn.log_softmax(logits)
    return -jax.numpy.take_along_axis(logp, labels[..., None], -1).mean()
