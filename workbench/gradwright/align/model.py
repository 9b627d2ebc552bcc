"""What a method asks of a model: its last states, its head, and how it generates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..graph import Graph, Tensor
from ..models.decoder.layers import Head
from ..models.generation import Generation
from ..models.tokenizers import TextCodec


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
