"""What a method asks of a model: its last states, its head, and how it generates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..graph import Graph, Placeholder, Tensor, ancestors
from ..models.decoder.layers import Head
from ..models.generation import Generation
from ..models.tokenizers import TextCodec

Array = np.ndarray[Any, Any]


class LanguageModel(Protocol):
    """A model that can be aligned: ``Decoder`` is one, and so is one that sees images.

    ``ids`` and ``labels`` are placeholders i64[B, T]. Labels are ids, and -100 at prompts and
    padding, which stands on the right: so the mask of what counts is ``labels != -100``.
    """

    graph: Graph
    ids: Tensor
    labels: Tensor
    head: Head
    tokenizer: TextCodec | None
    eos: int | Sequence[int]

    def generation(self, **settings: Any) -> Generation:
        """Return a generation that reads the weights of this model as they are."""


def by_placeholder(model: LanguageModel, arrays: Mapping[str, Array]) -> dict[Tensor, Array]:
    """Return rows that `collate` or `pack` has made by the placeholders of a model.

    ``position_ids`` are fed where the model has such a placeholder.
    """
    feeds = {model.ids: arrays["ids"], model.labels: arrays["labels"]}
    places: Tensor | None = getattr(model, "position_ids", None)
    return feeds if places is None else {**feeds, places: arrays["position_ids"]}


def fed_beside(model: LanguageModel) -> dict[str, Tensor]:
    """Return what a model is fed with each row beside tokens, by name: images, for one that sees.

    >>> from gradwright.models import DecoderConfig, VisionLanguage, VisionLanguageConfig
    >>> decoder = DecoderConfig(vocabulary=9, width=8, layers=1, heads=2, context=32)
    >>> [*fed_beside(VisionLanguage(VisionLanguageConfig(decoder, image=8, patch=2)))]
    ['images']
    """
    own = {model.ids, model.labels, getattr(model, "position_ids", None)}
    nodes = ancestors([model.head.states])
    fed = [n.outputs[0] for n in nodes if isinstance(n.op, Placeholder)]
    return {t.name: t for t in fed if t not in own}


def context_of(model: LanguageModel) -> int | None:
    """Return how many tokens of a row a model reads at most; None where it does not say.

    >>> from gradwright.models import Decoder, DecoderConfig
    >>> config = DecoderConfig(vocabulary=9, width=8, layers=1, heads=2, context=64)
    >>> context_of(Decoder(config))
    64
    """
    context: int | None = getattr(getattr(model, "config", None), "context", None)
    return context
