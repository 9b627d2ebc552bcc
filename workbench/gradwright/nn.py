"""``gw.nn``: activations, normalisations, attention, embedding, dropout.

Functions are those of the ops in ``ops/``; the ones written out here also need something from the
graph: a random stream, or variables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .calling import function
from .graph import Tensor
from .op import find_op
from .ops import surface
from .ops.activation import Tanh
from .ops.nn import Dropout
from .ops.norm import BatchNorm
from .spec import TensorSpec, at_least_float32, normalize_axis

if TYPE_CHECKING:
    from .ops.signatures.nn import *  # noqa: F403

tanh = function(Tanh)


def dropout(
    x: Tensor,
    p: float = 0.5,
    *,
    inverted: bool = True,
    training: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Zero each element with probability ``p`` in training; pass everything in eval.

    y = x·m, m = 0 with probability p, else 1/(1 − p) (Srivastava et al. 2014). With
    ``inverted=False`` the kept elements stay as they are and eval multiplies by 1 − p instead.
    ``training`` None follows the run. Raises GraphError unless 0 <= p <= 1.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.dropout(g.constant([1.0, 2.0, 3.0, 4.0]), p=0.5)
    >>> with gw.Session(g, seed=2) as session:
    ...     session.run(y, training=True).tolist(), session.run(y).tolist()
    ([2.0, 4.0, 0.0, 8.0], [1.0, 2.0, 3.0, 4.0])
    """
    op = Dropout(p=p, inverted=inverted, training=training, stream=x.graph.next_stream())
    y: Tensor = op(x.graph.rng, x, name=name)
    return y


def batch_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    *,
    axis: int = 1,
    momentum: float = 0.1,
    eps: float = 1e-5,
    training: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Bring each channel to mean 0 and variance 1 over the batch (Ioffe and Szegedy 2015).

    y = (x − μ)/√(σ² + ε)·weight + bias, with the batch's μ and σ² in training and the running ones
    in eval. Every training step sets running = (1 − momentum)·running + momentum·batch, as in torch
    (ONNX and Keras call 1 − momentum the momentum), with the unbiased variance. Channels lie along
    ``axis``; ``training`` None follows the run.

    Parameters that are not given are made: variables ``name/weight``, ``name/bias``,
    ``name/running_mean`` and ``name/running_var`` of one number per channel.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> y = gw.nn.batch_norm(x, name="bn")
    >>> [t.name for t in g.trainable], [t.name for t in g.updates]
    (['bn/weight', 'bn/bias'], ['bn/running_mean', 'bn/running_var'])
    """
    op = BatchNorm(axis=axis, momentum=momentum, eps=eps, training=training)
    channels = x.shape[normalize_axis(axis, x.rank)]
    spec = TensorSpec((channels,), at_least_float32(x.dtype))
    given = {
        "weight": weight,
        "bias": bias,
        "running_mean": running_mean,
        "running_var": running_var,
    }
    op.infer(x.spec, *(spec if p is None else p.spec for p in given.values()))  # before any is made
    graph = x.graph
    name = name or graph._free_name("batch_norm").rpartition("/")[2]
    with graph.scope(name):
        parameters = [
            graph.variable(
                label,
                spec.shape,  # type: ignore[arg-type]
                init=1.0 if label in ("weight", "running_var") else 0.0,
                dtype=spec.dtype,
                trainable=not label.startswith("running"),
            )
            if p is None
            else p
            for label, p in given.items()
        ]
    y, mean, var = op(x, *parameters, name=name)
    graph.update(parameters[2], mean)
    graph.update(parameters[3], var)
    result: Tensor = y
    return result


def fused_bias_dropout_residual(
    x: Tensor,
    bias: Tensor,
    residual: Tensor,
    p: float = 0.5,
    *,
    training: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """End of a transformer's sub-layer: bias, dropout, residual connection.

    y = dropout(x + bias) + residual, with x, residual: f32[…, D], bias: f32[D]. ``training`` None
    follows the run. Raises GraphError unless 0 <= p <= 1.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, b = g.constant([1.0, 2.0]), g.constant([10.0, 20.0])
    >>> y = gw.nn.fused_bias_dropout_residual(x, b, x, p=0.5, name="y")
    >>> g.output({}, y)["y"].tolist()
    [12.0, 24.0]
    """
    cls = find_op("fused_bias_dropout_residual")
    op = cls(p=p, training=training, stream=x.graph.next_stream())
    y: Tensor = op(x.graph.rng, x, bias, residual, name=name)
    return y


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


__getattr__, __dir__ = surface(__name__, "nn", also=("batch_norm", "dropout", "tanh"))
