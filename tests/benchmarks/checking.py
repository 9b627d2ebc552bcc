"""A gradient check beside torch's: ``python -m tests.benchmarks`` runs it."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.timing import race, table

HAS_TORCH = importlib.util.find_spec("torch") is not None


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
    """Print it."""
    if HAS_TORCH:
        import torch

        torch.set_num_threads(1)
    gradient_check()
