"""Log-probabilities of a batch's own tokens, each asked of the hidden state before it."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import ShapeError, TrainingError
from ..graph import Tensor, Variable, ancestors
from ..models.decoder.layers import Head
from ..models.decoder.rows import IGNORED
from ..ops.core.choice import Where
from ..ops.core.exponential import Exp, Log
from ..ops.core.movement import ExpandDims
from ..ops.core.scatter import TakeAlongAxis
from ..ops.layers.nn import LogSoftmax
from ..ops.losses.head import HeadLogProbs
from ..spec import kind, shapes_differ
from .model import LanguageModel
from .once import once


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
    asked = Where()(counts if kind(counts.dtype) == "b" else counts != 0, shifted, IGNORED)
    head = HeadLogProbs(temperature=temperature, softcap=softcap)
    log_probs, entropy, squares, mean, top = head(hidden[:, :-1], weight, asked, bias)
    return TokenLogProbs(log_probs, entropy, squares, mean, top, counts)


def model_log_probs(
    model: LanguageModel, mask: Tensor | None = None, *, temperature: float = 1.0
) -> TokenLogProbs:
    """Return what a model says of the tokens that it is fed, which ``mask`` counts.

    That is `token_log_probs` over the model's head; where the head lies in blocks, or an adapter
    stands at it, its whole logits are made. By default the mask is ``labels != -100``. Tensors are
    made once for each mask and temperature.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    >>> said = gw.align.model_log_probs(model)
    >>> said.log_probs.shape, gw.align.model_log_probs(model).log_probs is said.log_probs
    ((B, max(0, T - 1)), True)
    """
    graph, way = model.graph, "logits" if needs_logits(model.head) else "states"
    of = "labels" if mask is None else graph.check_member(mask).name
    key = f"log_probs of {model.head.states.name} by {way}, {of}, {temperature}"

    def make() -> TokenLogProbs:
        with graph._at_top(), graph.scope(graph._free_scope("log_probs")):
            counts = model.labels != IGNORED if mask is None else mask
            return head_log_probs(model.head, model.ids, counts, temperature=temperature)

    return TokenLogProbs(*once(graph, key, make))


def needs_logits(head: Head) -> bool:
    """Tell whether logits are more than states @ weightᵀ: packed, or changed by an adapter."""
    if head.weight is None:
        return True
    nodes = ancestors([head.logits], stop={head.states})
    plain = {head.weight.node, *([] if head.bias is None else [head.bias.node])}
    return any(isinstance(n.op, Variable) and n not in plain for n in nodes)


def head_log_probs(
    head: Head, ids: Tensor, mask: Tensor, *, temperature: float = 1.0
) -> TokenLogProbs:
    """Return `token_log_probs` of a head, by its logits where it needs them."""
    if head.weight is not None and not needs_logits(head):
        return token_log_probs(
            *(head.states, head.weight, ids, mask),
            bias=head.bias,
            temperature=temperature,
            softcap=head.softcap,
        )
    counts = mask[:, 1:]
    counts = counts if kind(counts.dtype) == "b" else counts != 0
    asked = ExpandDims(axis=-1)(Where()(counts, ids[:, 1:], 0))
    x = head.logits[:, :-1] / temperature
    log_p = LogSoftmax()(x)
    p = Exp()(log_p)
    found = TakeAlongAxis(axis=-1)(log_p, asked).sum(-1)
    top = found == log_p.max(-1)
    return TokenLogProbs(
        Where()(counts, found, 0),
        Where()(counts, -(p * log_p).sum(-1), 0),
        Where()(counts, Log()((p * p).sum(-1)), 0),
        Where()(counts, x.mean(-1), 0),
        Where()(counts, top, False),
        counts,
    )


def check_said(model: LanguageModel, log_probs: Tensor) -> None:
    """Refuse log-probabilities that leave out an adapter which came to the head after them."""
    if isinstance(log_probs.op, HeadLogProbs) and needs_logits(model.head):
        raise TrainingError(
            "an adapter has come to the head of the model since its log-probabilities were made",
            need="adapters at the head before the trainer",
            hint="make the trainer again",
        )
