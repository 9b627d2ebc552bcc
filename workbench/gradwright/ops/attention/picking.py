"""Tokens drawn from logits, and attention with functions of the caller: more than their ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...graph import Tensor
from ...op import find_op, maker


@maker("nn")
def token_sample(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Draw a token from logits, after the usual filters in their usual order.

    y ~ softmax(logits/temperature) among the ``top_k`` likeliest (0: all), the fewest of them that
    have the mass ``top_p``, and those at least ``min_p`` times as likely as the likeliest.
    logits: f32[…, V] gives i64[…]; temperature 0 takes the largest. Raises GraphError for settings
    that are no probabilities.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.token_sample(g.constant([[0.0, 5.0, 1.0]]), top_k=1, name="y")
    >>> g.output({}, y)["y"].tolist()
    [1]
    """
    settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    return _drawn("token_sample", logits, name, settings)


@maker("nn")
def top_k_sample(
    logits: Tensor, k: int = 50, *, temperature: float = 1.0, name: str | None = None
) -> Tensor:
    """Draw a token from the k likeliest (Fan et al. 2018).

    y ~ softmax(logits/temperature) among the k largest logits; logits: f32[…, V] gives i64[…].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.top_k_sample(g.constant([[0.0, 5.0, 1.0]]), 1, name="y")
    >>> g.output({}, y)["y"].tolist()
    [1]
    """
    return _drawn("top_k_sample", logits, name, {"k": k, "temperature": temperature})


@maker("nn")
def top_p_sample(
    logits: Tensor, p: float = 0.9, *, temperature: float = 1.0, name: str | None = None
) -> Tensor:
    """Draw a token from the likeliest that together have the mass p (Holtzman et al. 2020).

    y ~ softmax(logits/temperature) among the fewest tokens with Σ probability ≥ p; logits:
    f32[…, V] gives i64[…].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.top_p_sample(g.constant([[0.0, 5.0, 1.0]]), 0.5, name="y")
    >>> g.output({}, y)["y"].tolist()
    [1]
    """
    return _drawn("top_p_sample", logits, name, {"p": p, "temperature": temperature})


@maker("nn")
def xtc_filter(
    logits: Tensor,
    threshold: float = 0.1,
    probability: float = 0.5,
    *,
    name: str | None = None,
) -> Tensor:
    """Strike the likeliest tokens in some draws, all above a threshold but the last of them.

    With ``probability``, for each row: tokens with softmax(logits) ≥ ``threshold`` become −∞ but
    the least likely of them ("exclude top choices", 2024). logits: f32[…, V] keep their shape.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.xtc_filter(g.constant([3.0, 2.0, -9.0]), probability=1.0, name="y")
    >>> g.output({}, y)["y"].tolist()
    [-inf, 2.0, -9.0]
    """
    settings = {"threshold": threshold, "probability": probability}
    return _drawn("xtc_filter", logits, name, settings)


def _drawn(op: str, logits: Tensor, name: str | None, settings: dict[str, float]) -> Tensor:
    cls = find_op(op)
    y: Tensor = cls(**settings, stream=logits.graph.next_stream())(
        logits.graph.rng, logits, name=name
    )
    return y


@maker("nn")
def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[[Tensor], Tensor] | None = None,
    prob_mod: Callable[[Tensor], Tensor] | None = None,
    *,
    scale: float | None = None,
    softmax_precision: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Attention with functions of yours between its steps (Dong et al. 2024).

    y = prob_mod(softmax(score_mod(query @ keyᵀ·scale))) @ value, with query: f32[B, Hq, T, E],
    key: f32[B, H, S, E], value: f32[B, H, S, D]. The functions take and return f32[B, Hq, T, S] as
    graph, and may use tensors from outside; scores of −∞ hide. Raises ShapeError if they return
    something else.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, v = g.constant([[[[1.0]]]]), g.constant([[[[2.0], [4.0]]]])
    >>> y = gw.nn.flex_attention(q, v, v, lambda s: s * 0.0, lambda p: p * 2.0, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[[6.0]]]]
    """
    cls: Any = find_op("flex_attention")
    functions = {"score_mod": score_mod, "prob_mod": prob_mod}
    settings = {"scale": scale, "softmax_precision": softmax_precision}
    y: Tensor = cls.trace(query, key, value, functions, settings, name)
    return y
