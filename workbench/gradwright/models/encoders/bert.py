"""BERT (Devlin et al. 2019): an encoder of text, with what stands on it.

h₀ = norm(embed[ids] + positions[t] + segments[s])
a  = norm(h + attend(h)),  h' = norm(a + gelu(a·Wupᵀ)·Wdownᵀ)        for each layer
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ... import loss, nn
from ...errors import FeedError, GraphError
from ...graph import Graph, Tensor
from ...ops.core.creation import Arange
from ...ops.core.identity import Identity
from ...spec.buffer import Buffer
from ...words.jsonable import jsonable
from ..decoder.config import Shapes, matrix
from ..decoder.layers import ACTIVATIONS, dropped
from ..decoder.rows import IGNORED
from ..decoder.weights import Weights
from ..tokenizers import TextCodec
from .encoder import Encoder
from .layers import attention, check_sizes, layer, network, norm

Array = np.ndarray[Any, Any]
HEADS = ("none", "tokens", "classes")


@jsonable
@dataclass(frozen=True)
class BertConfig:
    """The sizes of a BERT.

    Args:
        vocabulary: how many tokens there are.
        width: features of a position.
        layers: how many layers stand on each other.
        heads: heads of attention.
        inner: width between the matrices of a layer's network; None is 4·width.
        context: the longest row of tokens.
        segments: kinds of tokens, such as those of a question and of an answer.
        eps: what norms add to the variance.
        dropout: share of what each part adds that training drops.
        activation: of the networks.
        pooler: whether the first position goes through a layer of its own.
        head: what stands on it: ``"none"``; ``"tokens"``, which of the vocabulary stands at each
            position; ``"classes"``, which class a row is of.
        classes: how many there are.

    Raises GraphError for sizes that do not go together.

    >>> from gradwright.models import BertConfig
    >>> BertConfig(vocabulary=30522, width=768, heads=12).hidden
    3072
    """

    vocabulary: int
    width: int = 256
    layers: int = 4
    heads: int = 4
    inner: int | None = None
    context: int = 512
    segments: int = 2
    eps: float = 1e-12
    dropout: float = 0.0
    activation: str = "gelu"
    pooler: bool = True
    head: str = "none"
    classes: int = 2
    norm: ClassVar[str] = "layer"

    def __post_init__(self) -> None:
        names = "vocabulary", "width", "layers", "heads", "context", "segments", "hidden", "classes"
        check_sizes(self, *names)
        if self.head not in HEADS:
            raise GraphError(f"no head {self.head!r}", need=", ".join(HEADS))
        if self.head == "classes" and not self.pooler:
            raise GraphError("classes are told from what is pooled", need="pooler=True")

    @property
    def hidden(self) -> int:
        """Width between the matrices of a layer's network."""
        return 4 * self.width if self.inner is None else self.inner

    def weights(self) -> Shapes:
        """Yield name and shape of each weight; matrices are ``[out, in]``."""
        d = self.width
        yield "embed", (self.vocabulary, d)
        yield "positions", (self.context, d)
        yield "segments", (self.segments, d)
        yield from norm("embed_norm", d)
        for i in range(self.layers):
            yield from layer(f"layer{i}", d, self.hidden)
        if self.pooler:
            yield from matrix("pooler", d, d)
        if self.head == "tokens":
            yield from matrix("transform", d, d)
            yield from norm("transform_norm", d)
            yield "tokens_bias", (self.vocabulary,)
        if self.head == "classes":
            yield from matrix("classes", self.classes, d)


class Bert(Encoder):
    """A BERT: its graph, for training and for use.

    ``ids``, ``attention_mask`` and ``token_type_ids`` are placeholders i64[B, T]: tokens, 1 where
    there is one and 0 where there is padding, and their segments. ``hidden`` is f32[B, T, D],
    ``pooled`` f32[B, D]. With a head ``logits`` are f32[B, T, V] or f32[B, classes], ``labels``
    i64[B, T], −100 where none is asked for, or i64[B], and ``loss`` is the mean of −ln p(label).
    ``packed`` says which matrices lie as blocks of a ggml format, as for a `Decoder`.

    >>> import gradwright as gw
    >>> from gradwright.models import Bert, BertConfig
    >>> model = Bert(BertConfig(vocabulary=40, width=16, layers=1, heads=2))
    >>> with gw.Session(model.graph) as session:
    ...     session.run(model.hidden, model.examples([[5, 6, 7], [8, 9]])).shape
    (2, 3, 16)
    """

    config: BertConfig

    def __init__(
        self,
        config: BertConfig,
        *,
        name: str = "bert",
        seed: int = 0,
        values: Mapping[str, Array | Buffer] | None = None,
        packed: Mapping[str, str] | None = None,
        tokenizer: TextCodec | None = None,
        source: Path | None = None,
    ) -> None:
        self.config, self.tokenizer = config, tokenizer
        graph = Graph(name)
        self.ids, self.attention_mask, self.token_type_ids = (
            graph.placeholder(label, ("B", "T"), "int64")
            for label in ("ids", "attention_mask", "token_type_ids")
        )
        super().__init__(graph, seed, values, source, packed)

    def _layers(self, weights: Weights) -> Tensor:
        config, ids = self.config, self.ids
        place = Arange(start=ids.shape[1])()
        h = weights.rows(ids) + nn.embedding(place, weights["positions"])
        h = h + nn.embedding(self.token_type_ids, weights["segments"])
        h = dropped(weights.norm(h, "embed_norm"), config.dropout)
        seen = (self.attention_mask != 0)[:, None, None]
        for i in range(config.layers):
            at = f"layer{i}"
            h.graph.classes[at] = "EncoderLayer"
            with h.graph.scope(at):
                y = attention(weights, at, h, h, config.heads, seen)
                h = weights.norm(h + dropped(y, config.dropout), f"{at}/attention_norm")
                y = network(weights, at, h, config.activation)
                h = weights.norm(h + dropped(y, config.dropout), f"{at}/mlp_norm")
        return h

    def _head(self, weights: Weights) -> None:
        config, g = self.config, self.graph
        if config.head == "none":
            return
        if config.head == "tokens":
            self.labels = g.placeholder("labels", ("B", "T"), "int64")
            y = ACTIVATIONS[config.activation](weights.product(self.hidden, "transform"))
            y = weights.product(weights.norm(y, "transform_norm"), "embed")
            self.logits = Identity()(y + weights["tokens_bias"], name="logits")
        else:
            self.labels = g.placeholder("labels", ("B",), "int64")
            assert self.pooled is not None
            y = weights.product(dropped(self.pooled, config.dropout), "classes")
            self.logits = Identity()(y, name="logits")
        self.loss = loss.sparse_softmax_cross_entropy(
            self.labels, self.logits, ignore_index=IGNORED, name="loss"
        )

    def examples(
        self, rows: Sequence[Sequence[int]], segments: Sequence[Sequence[int]] | None = None
    ) -> dict[str, Array]:
        """Return ``ids``, ``attention_mask`` and ``token_type_ids`` of rows of tokens, padded.

        >>> from gradwright.models import Bert, BertConfig
        >>> model = Bert(BertConfig(vocabulary=9, width=8, layers=1, heads=2))
        >>> model.examples([[1, 2, 3], [4]])["attention_mask"].tolist()
        [[1, 1, 1], [1, 0, 0]]
        """
        longest = max(map(len, rows), default=0)
        if not 1 <= longest <= self.config.context:
            raise FeedError(
                f"the longest of {len(rows)} rows has {longest} tokens",
                need=f"1 to {self.config.context}",
            )
        ids = np.zeros((len(rows), longest), np.int64)
        mask, kinds = np.zeros_like(ids), np.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row)], mask[i, : len(row)] = row, 1
            if segments is not None:
                kinds[i, : len(row)] = segments[i]
        return {"ids": ids, "attention_mask": mask, "token_type_ids": kinds}
