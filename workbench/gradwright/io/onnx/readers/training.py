"""Steps of optimizers, as ``ai.onnx.preview.training`` has them, for any number of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....errors import ArchiveError
from ..node import OnnxNode, op, reads

DOMAIN = "ai.onnx.preview.training"


def _each(n_kinds: int, xs: tuple[Any, ...], step: Callable[..., tuple[Any, ...]]) -> list[Any]:
    """Apply a step to parameters, gradients and states, which stand kind by kind; so do results."""
    n = len(xs) // n_kinds
    if n * n_kinds != len(xs):
        raise ArchiveError(f"{len(xs)} tensors are no parameters with {n_kinds - 1} others each")
    new = [step(*(xs[k * n + i] for k in range(n_kinds))) for i in range(n)]
    return [row[k] for k in range(n_kinds - 1) for row in new]


@reads("Momentum", since=1, domain=DOMAIN)
def momentum(node: OnnxNode, rate: Any, count: Any, *xs: Any) -> Any:
    alpha, beta = node["alpha"], node["beta"]
    decay, nesterov = node["norm_coefficient"], node["mode"] == "nesterov"

    def step(x: Any, g: Any, v: Any) -> tuple[Any, ...]:
        g = x * decay + g
        share = op("where")(count > 0, beta, 1.0)
        v = v * alpha + g * share
        return x - rate * (g + v * alpha if nesterov else v), v

    return _each(3, xs, step)


@reads("Adagrad", since=1, domain=DOMAIN)
def adagrad(node: OnnxNode, rate: Any, count: Any, *xs: Any) -> Any:
    slower = rate / (op("cast", dtype=rate.dtype)(count) * node.get("decay_factor", 0.0) + 1.0)

    def step(x: Any, g: Any, h: Any) -> tuple[Any, ...]:
        g = x * node.get("norm_coefficient", 0.0) + g
        h = h + g * g
        return x - slower * g / (op("sqrt")(h) + node.get("epsilon", 1e-6)), h

    return _each(3, xs, step)


@reads("Adam", since=1, domain=DOMAIN)
def adam(node: OnnxNode, rate: Any, count: Any, *xs: Any) -> Any:
    alpha, beta = node.get("alpha", 0.9), node.get("beta", 0.999)
    t = op("cast", dtype=rate.dtype)(count)
    unbiased = op("sqrt")(1.0 - op("pow")(beta, t)) / (1.0 - op("pow")(alpha, t))
    settled = op("where")(count > 0, rate * unbiased, rate)

    def step(x: Any, g: Any, v: Any, h: Any) -> tuple[Any, ...]:
        g = x * node.get("norm_coefficient", 0.0) + g
        v, h = v * alpha + g * (1 - alpha), h * beta + g * g * (1 - beta)
        new = x - settled * v / (op("sqrt")(h) + node.get("epsilon", 1e-6))
        return new * (1 - node.get("norm_coefficient_post", 0.0)), v, h

    return _each(4, xs, step)
