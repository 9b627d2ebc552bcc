"""Parts of encoders: attention to a whole row or another one, and networks of two products."""

from __future__ import annotations

from typing import Any

from ... import init, nn
from ...errors import GraphError
from ...graph import Tensor
from ..decoder.config import Shapes, check_counts, check_heads, check_numbers, matrix
from ..decoder.layers import ACTIVATIONS, dropped
from ..decoder.weights import Weights


def block(
    weights: Weights,
    at: str,
    h: Tensor,
    heads: int,
    *,
    activation: str,
    dropout: float,
    seen: Tensor | None = None,
) -> Tensor:
    """Return h after a layer: attention to its own row, then a network, each added to it."""
    h.graph.classes[at] = "EncoderLayer"
    with h.graph.scope(at):
        y = weights.norm(h, f"{at}/attention_norm")
        h = h + dropped(attention(weights, at, y, y, heads, seen), dropout)
        y = network(weights, at, weights.norm(h, f"{at}/mlp_norm"), activation)
        return h + dropped(y, dropout)


def attention(
    weights: Weights, at: str, h: Tensor, seen_by: Tensor, heads: int, seen: Tensor | None = None
) -> Tensor:
    """Return averages of values of ``seen_by`` for each position of h, f32[B, T, D].

    ``seen``, bool[B, 1, T, S], says which are seen; None is all.
    """
    q = by_heads(weights.product(h, f"{at}/q"), heads)
    k, v = (by_heads(weights.product(seen_by, f"{at}/{name}"), heads) for name in "kv")
    return weights.product(joined(averages(q, k, v, seen)), f"{at}/o")


def averages(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> Tensor:
    """Return what heads of queries see of keys and values."""
    return nn.scaled_dot_product_attention(q, k, v, seen, unseen="average")


def by_heads(y: Tensor, heads: int) -> Tensor:
    """Return f32[B, heads, T, D/heads] of f32[B, T, D]."""
    b, t, d = y.shape
    return y.reshape(b, t, heads, d // heads).transpose(0, 2, 1, 3)


def joined(y: Tensor) -> Tensor:
    """Return f32[B, T, D] of heads."""
    b, heads, t, e = y.shape
    return y.transpose(0, 2, 1, 3).reshape(b, t, heads * e)


def network(weights: Weights, at: str, h: Tensor, activation: str) -> Tensor:
    """Return two products with an activation between them."""
    inner = ACTIVATIONS[activation](weights.product(h, f"{at}/up"))
    return weights.product(inner, f"{at}/down")


def norm(name: str, width: int) -> Shapes:
    """Yield what a layer norm multiplies by and adds."""
    yield name, (width,)
    yield f"{name}_bias", (width,)


def layer(at: str, width: int, inner: int, qkv_bias: bool = True, k_bias: bool = True) -> Shapes:
    """Yield the weights of a layer with attention to its own row."""
    yield from norm(f"{at}/attention_norm", width)
    for name, bias in (("q", qkv_bias), ("k", qkv_bias and k_bias), ("v", qkv_bias), ("o", True)):
        yield from matrix(f"{at}/{name}", width, width, bias)
    yield from norm(f"{at}/mlp_norm", width)
    yield from matrix(f"{at}/up", inner, width)
    yield from matrix(f"{at}/down", width, inner)


def first(config: Any, seed: int) -> Any:
    """Return what tells how a weight begins.

    Matrices begin as normals of deviation 0.02 (Devlin et al. 2019), norms as ones, biases as 0.
    """
    seeds = {name: seed + i for i, (name, _) in enumerate(config.weights())}

    def begin(name: str, shape: tuple[int, ...]) -> Any:
        if len(shape) == 1:
            return 0.0 if name.endswith("_bias") else 1.0
        return init.normal(std=0.02, seed=seeds[name])

    return begin


def check_sizes(config: Any, *names: str) -> None:
    """Refuse sizes of an encoder that are none, or that do not go together."""
    check_counts(config, *names)
    check_heads(config.width, config.heads)
    if config.activation not in ACTIVATIONS:
        raise GraphError(f"no activation {config.activation!r}", need=", ".join(ACTIVATIONS))
    check_numbers(config)
