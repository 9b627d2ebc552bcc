"""A training step of three models beside torch and JAX, and a gradient check beside torch's."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import gradwright as gw

from . import models
from .timing import race, table

HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_JAX = importlib.util.find_spec("jax") is not None


def steps() -> None:
    """Print the step times; every rival starts from the same weights and must agree on the loss."""
    small, wide = (32, (64, 64, 10)), (128, (784, 256, 10))
    cases: dict[str, dict[str, Callable[[], Any]]] = {
        "MLP 32x(64-64-10)": _rivals(models.mlp_ours, models.mlp_torch, models.mlp_jax, *small),
        "MLP 128x(784-256-10)": _rivals(models.mlp_ours, models.mlp_torch, models.mlp_jax, *wide),
        "decoder d=128 h=4 T=64 B=8": _rivals(
            models.decoder_ours, models.decoder_torch, models.decoder_jax
        ),
    }
    for title, makers in cases.items():
        rivals = {name: make() for name, make in makers.items()}
        first = {name: _loss(step()) for name, step in rivals.items()}
        spread = max(first.values()) - min(first.values())
        table(
            f"training step, {title} (first losses within {spread:.1e})", race(rivals), "gradwright"
        )


def _rivals(ours: Any, torch: Any, jax: Any, *args: Any) -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {"gradwright": lambda: ours(*args)}
    if HAS_TORCH:
        found["torch eager"] = lambda: torch(*args)
        found["torch eager, fused Adam"] = lambda: torch(*args, fused=True)
    if HAS_JAX:
        found["jax jit, donated"] = lambda: jax(*args)
    return found


def _loss(result: Any) -> float:
    return float(result.metrics["loss"]) if hasattr(result, "metrics") else float(result)


def gradient_check() -> None:
    """Print a check of all 1,002 parameters of an MLP 16-32-10-8, batch 8, beside torch's."""
    rng = np.random.default_rng(0)
    sizes = (16, 32, 10, 8)
    x = rng.standard_normal((8, sizes[0]))
    g = gw.Graph()
    h = g.placeholder("x", (None, sizes[0]), "float64")
    weights = [rng.standard_normal(s) / 3 for s in itertools.pairwise(sizes)]
    for i, w in enumerate(weights):
        h = gw.nn.tanh(
            h @ g.variable(f"w{i}", init=w) + g.variable(f"b{i}", (w.shape[1],), dtype="float64")
        )
    loss = (h * h).sum()
    rivals: dict[str, Callable[[], Any]] = {
        "gradwright, with blame": lambda: gw.gradient_check(g, loss, {"x": x})
    }
    if HAS_TORCH:
        import torch

        parameters: list[Any] = []
        for w in weights:
            parameters += [torch.tensor(w, requires_grad=True)]
            parameters += [torch.zeros(w.shape[1], dtype=torch.float64, requires_grad=True)]
        data = torch.from_numpy(x)

        def forward(*ps: Any) -> Any:
            h = data
            for w, b in zip(ps[::2], ps[1::2], strict=True):
                h = torch.tanh(h @ w + b)
            return (h * h).sum()

        rivals["torch.autograd.gradcheck"] = lambda: torch.autograd.gradcheck(forward, parameters)
    table("gradient check, MLP 16-32-10-8", race(rivals, rounds=5), "gradwright, with blame")


def main() -> None:
    """Print all of it."""
    if HAS_TORCH:
        import torch

        torch.set_num_threads(1)
    print("\nversions:", ", ".join(_versions()), "— one BLAS thread each")
    steps()
    gradient_check()


def _versions() -> list[str]:
    import importlib.metadata

    found = [f"gradwright {gw.__version__}"]
    for name, there in (("numpy", True), ("torch", HAS_TORCH), ("jax", HAS_JAX)):
        found += [f"{name} {importlib.metadata.version(name)}"] * there
    return found
