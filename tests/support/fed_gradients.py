"""A trainer whose gradients are what is fed, so that any optimizer can be held beside another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import gradwright as gw

SHAPES = {"w": (3, 4), "b": (4,), "s": (), "t": (2, 3, 2), "e": (0, 2)}
MATRICES = {"w": (3, 4), "tall": (5, 2), "square": (3, 3)}
Arrays = dict[str, Any]


def linear(
    optimizer: Any, shapes: Mapping[str, Any] = SHAPES, dtype: str = "float64", **options: Any
) -> gw.Trainer:
    """Return a trainer of loss = Σ p·c, so that ∂loss/∂p = c, which is fed."""
    g = gw.Graph()
    loss: Any = 0.0
    for name, start in starts(shapes, dtype).items():
        c = g.placeholder(f"c_{name}", start.shape, dtype)
        loss = (g.variable(name, init=start) * c).sum() + loss
    return gw.Trainer(g, loss, optimizer, **options)


def starts(shapes: Mapping[str, Any] = SHAPES, dtype: str = "float64") -> Arrays:
    """Return what the parameters begin as."""
    rng = np.random.default_rng(7)
    return {n: rng.standard_normal(s).astype(gw.spec.dtype(dtype)) for n, s in shapes.items()}


def gradients(
    steps: int, shapes: Mapping[str, Any] = SHAPES, dtype: str = "float64"
) -> Iterator[Arrays]:
    """Yield gradients step by step, of sizes from a hundredth to ten."""
    for step in range(steps):
        rng = np.random.default_rng(100 + step)
        yield {
            n: (rng.standard_normal(s) * 10.0 ** (step % 4 - 2)).astype(gw.spec.dtype(dtype))
            for n, s in shapes.items()
        }


def fed(grads: Arrays) -> Arrays:
    """Return what is to be fed to get these gradients."""
    return {f"c_{name}": c for name, c in grads.items()}


def trajectory(trainer: gw.Trainer, given: Iterator[Arrays]) -> Iterator[Arrays]:
    """Yield the parameters after each step."""
    for grads in given:
        trainer.step(fed(grads))
        yield {n: trainer.values[n].copy() for n in grads}


def torch_trajectory(
    torch: Any, make: Any, given: Iterator[Arrays], shapes: Mapping[str, Any], dtype: str
) -> Iterator[Arrays]:
    """Yield what torch's optimizer, made by ``make`` of parameters, makes of them."""
    params = {n: torch.nn.Parameter(torch.tensor(a)) for n, a in starts(shapes, dtype).items()}
    optimizer = make(list(params.values()))
    for grads in given:
        for n, p in params.items():
            p.grad = torch.tensor(grads[n])
        optimizer.step()
        yield {n: p.detach().numpy().copy() for n, p in params.items()}


def optax_trajectory(transform: Any, given: Iterator[Arrays], params: Arrays) -> Iterator[Arrays]:
    """Yield what an optax transformation makes of parameters."""
    import jax
    import optax

    params = {n: jax.numpy.asarray(a) for n, a in params.items()}
    state, move = transform.init(params), jax.jit(transform.update)
    for grads in given:
        updates, state = move(grads, state, params)
        params = optax.apply_updates(params, updates)
        yield {n: np.asarray(p) for n, p in params.items()}
