"""The layers of a decoder, from tokens to logits, as they stand in every graph of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ... import loss, nn
from ...graph import Tensor
from ...ops.core.activation import Tanh
from ...ops.core.movement import Cast
from ...ops.core.reduce import Sum
from ...ops.experts.mixture import routed
from .attention import Attend
from .config import DecoderConfig
from .rows import IGNORED
from .weights import Weights

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": nn.silu,
    "gelu": nn.gelu,
    "gelu_tanh": partial(nn.gelu, approximate="tanh"),
    "relu": nn.relu,
}


def embedded(config: DecoderConfig, weights: Weights, ids: Tensor) -> Tensor:
    """Return what tokens are before their places are told, f32[B, T, D]."""
    h = weights.rows(ids)
    return h if config.embedding_scale == 1 else h * config.embedding_scale


def layers(
    config: DecoderConfig, weights: Weights, h: Tensor, places: Tensor, attend: Attend
) -> Tensor:
    """Return what the last layer makes of h, f32[B, T, D], before the norm.

    ``places``, i64[T] or i64[B, T], say where a token stands in its row.
    """
    if config.positions == "learned":
        h = h + nn.embedding(places, weights["positions"])
    h = dropped(h, config.dropout)
    for i in range(config.layers):
        h.graph.classes[f"layer{i}"] = "DecoderLayer"
        with h.graph.scope(f"layer{i}"):
            h = h + _attention(config, weights, h, i, attend)
            h = h + _network(config, weights, h, f"layer{i}")
    return h


class Head(NamedTuple):
    """What makes logits of last states: softcap·tanh((states @ weightᵀ + bias)/softcap)."""

    states: Tensor
    """f32[B, T, D], after the last norm."""
    weight: Tensor | None
    """f32[V, D]; None where it lies in blocks."""
    bias: Tensor | None
    softcap: float | None
    logits: Tensor
    """f32[B, T, V]."""


def head(config: DecoderConfig, weights: Weights, h: Tensor) -> Head:
    """Return logits, and what they are made of."""
    name, cap = "embed" if config.tied else "head", config.logit_cap
    states = weights.norm(h, "norm")
    y = weights.product(states, name)
    logits = y if cap is None else Tanh()(y / cap) * cap
    weight = None if weights.is_packed(name) else weights[name]
    return Head(states, weight, weights.bias(name), cap, logits)


def next_tokens(labels: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many tokens have a label and one before it, and the mean of −ln p of them."""
    tokens = Sum()(Cast(dtype="float32")(labels[:, 1:] != IGNORED), name="tokens")
    told = loss.sparse_softmax_cross_entropy(
        labels[:, 1:], logits[:, :-1], ignore_index=IGNORED, name="loss"
    )
    return tokens, told


def _attention(
    config: DecoderConfig, weights: Weights, h: Tensor, i: int, attend: Attend
) -> Tensor:
    """Return what attention adds: norm, queries, keys and values by heads, averages, output."""
    b, t, _ = h.shape
    at, e = f"layer{i}", config.features
    y = weights.norm(h, f"{at}/attention_norm")

    def by_heads(name: str, n: int) -> Tensor:
        return weights.product(y, f"{at}/{name}").reshape(b, t, n, e)

    q, k, v = (
        by_heads("q", config.heads),
        by_heads("k", config.shared),
        by_heads("v", config.shared),
    )
    if config.qk_norm:
        q, k = weights.norm(q, f"{at}/q_norm"), weights.norm(k, f"{at}/k_norm")
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    a = attend(i, q, k, v)
    y = weights.product(a.transpose(0, 2, 1, 3).reshape(b, t, config.heads * e), f"{at}/o")
    y = weights.norm(y, f"{at}/attention_post_norm") if config.post_norms else y
    return dropped(y, config.dropout)


def _network(config: DecoderConfig, weights: Weights, h: Tensor, at: str) -> Tensor:
    """Return what the network adds: norm, two products or three, or experts of a choice."""
    y, act = weights.norm(h, f"{at}/mlp_norm"), ACTIVATIONS[config.activation]
    if config.experts:
        y = _experts(config, weights, y, at)
    else:
        up = weights.product(y, f"{at}/up")
        if not config.gated:
            y = act(up)
        elif config.activation == "silu":
            y = nn.swiglu(weights.product(y, f"{at}/gate"), up)
        else:
            y = act(weights.product(y, f"{at}/gate")) * up
        y = weights.product(y, f"{at}/down")
    y = weights.norm(y, f"{at}/mlp_post_norm") if config.post_norms else y
    return dropped(y, config.dropout)


def _experts(config: DecoderConfig, weights: Weights, y: Tensor, at: str) -> Tensor:
    """Return the mixture of the experts that each token chooses; packed ones stay packed."""
    k, renormalize = config.experts_per_token, config.renormalize
    if not any(weights.is_packed(f"{at}/{n}") for n in ("gate", "up", "down")):
        router, gate, up, down = (weights[f"{at}/{n}"].mT for n in ("router", "gate", "up", "down"))
        y, _ = nn.mixture_of_experts(
            *(y, router, gate, down, up),
            k=k,
            renormalize=renormalize,
            activation=config.activation,
        )
        return y

    def network(rows: Tensor, sizes: Tensor, _: Tensor) -> Tensor:
        gate, up = (weights.grouped(rows, sizes, f"{at}/{n}") for n in ("gate", "up"))
        hidden = ACTIVATIONS[config.activation](gate) * up
        return weights.grouped(hidden, sizes, f"{at}/down")

    router = weights[f"{at}/router"].mT
    mixed: Tensor = routed(y, router, network, k=k, renormalize=renormalize)[0]
    return mixed


def dropped(y: Tensor, share: float) -> Tensor:
    """Return y, of which training drops a share."""
    return nn.dropout(y, p=share) if share else y
