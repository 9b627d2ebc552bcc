"""Log-probabilities of a batch's own tokens, each asked of the hidden state before it."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import ShapeError
from ..graph import Tensor
from ..ops.core.choice import Where
from ..ops.losses.head import HeadLogProbs
from ..spec import kind, shapes_differ


class TokenLogProbs(NamedTuple):
    """What a model says of the tokens of a batch, f32[B, T − 1] each; 0 where the mask is 0."""

    log_probs: Tensor
    entropy: Tensor
    log_sum_squares: Tensor
    mean_logit: Tensor
    is_top: Tensor
    mask: Tensor


def token_log_probs(
    hidden: Tensor,
    weight: Tensor,
    ids: Tensor,
    mask: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    softcap: float | None = None,
) -> TokenLogProbs:
    """Return log-probabilities of tokens, and what else logits say, without holding logits.

    log_probs[b, t] = log softmax((hidden[b, t] @ weightᵀ + bias)/temperature)[ids[b, t + 1]]

    ``hidden``, f32[B, T, D], are a decoder's last states, ``weight``, f32[V, D], its head, ``ids``
    i64[B, T] what it read. ``mask``, of the shape of ids, is 0 at prompts and padding; the token
    that ends a completion is part of it. Results and mask are shifted: place t is about token
    t + 1. What the mask leaves out is not computed. Raises ShapeError where shapes do not fit.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> h, w = g.constant([[[1.0], [1.0], [1.0]]]), g.constant([[0.0], [0.0]])
    >>> said = gw.align.token_log_probs(h, w, g.constant([[0, 1, 1]]), g.constant([[0, 0, 1]]))
    >>> [x.round(4) for x in g.output({}, said.log_probs).values()]
    [array([[ 0.    , -0.6931]], dtype=float32)]
    """
    if hidden.rank != 3 or shapes_differ(ids.shape, hidden.shape[:2]):
        raise ShapeError(
            f"ids {ids.spec} do not fit hidden states {hidden.spec}",
            need="hidden f32[B, T, D], ids i64[B, T]",
        )
    if mask is None:
        mask = ids == ids
    elif shapes_differ(mask.shape, ids.shape):
        raise ShapeError(f"mask {mask.spec} does not fit ids {ids.spec}", need="a place per id")
    shifted, counts = ids[:, 1:], mask[:, 1:]
    asked = Where()(counts if kind(counts.dtype) == "b" else counts != 0, shifted, -100)
    head = HeadLogProbs(temperature=temperature, softcap=softcap)
    log_probs, entropy, squares, mean, top = head(hidden[:, :-1], weight, asked, bias)
    return TokenLogProbs(log_probs, entropy, squares, mean, top, counts)
