"""A decoder that sees: patches of an image stand before the tokens of a row.

    p  = gelu(patches·Wupᵀ)·Wdownᵀ + positions
    h₀ = [p, embed[ids]]

All else is as in ``decoder/decoder.py``. A projector of two products between what sees and what
speaks is that of LLaVA 1.5 (Liu et al. 2024); patches that go into a decoder as they are, those of
Fuyu (Bavishi et al. 2023).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ... import init
from ...errors import FeedError, GraphError
from ...graph import Graph
from ...ops.core.creation import Arange
from ...ops.core.identity import Identity
from ...ops.core.joining import Concat
from ...session import Session
from ...spec.buffer import Buffer
from ..completion import Completion, Prompts
from ..decoder.attention import Within
from ..decoder.decoder import Edited, first_values
from ..decoder.layers import embedded, head, layers, next_tokens
from ..decoder.rows import padded_rows
from ..decoder.weights import Weights, count, fill
from ..generation import Generation
from ..reading import Before
from ..tokenizers import TextCodec
from .config import VisionLanguageConfig
from .layers import images_of, seeing_graph, seen

Array = np.ndarray[Any, Any]


class VisionLanguage:
    """A decoder that sees an image before each row: its training graph, and generations.

    ``images`` is a placeholder f32[B, H, W], or f32[B, H, W, C] of several channels; ``ids`` and
    ``labels`` are i64[B, T], and the logits f32[B, T, V] at a token are of the one that follows,
    as those of ``Decoder``: no loss is taken at an image. ``seen``, f32[B, patches, D], is what
    the projector makes of it. A row sees its own image and no other. For `gw.align` data has a
    column ``images``.

    Args:
        config: its sizes.
        name: of the graph.
        seed: of the first weights.
        values: all weights, by the names of ``config.weights()``, instead of first ones.
        tokenizer: for generations.
        eos: tokens that end a row, likewise.

    >>> import numpy as np, gradwright as gw
    >>> from gradwright.models import DecoderConfig, VisionLanguage, VisionLanguageConfig
    >>> decoder = DecoderConfig(vocabulary=9, width=16, layers=1, heads=2, context=32)
    >>> model = VisionLanguage(VisionLanguageConfig(decoder, image=8, patch=2))
    >>> images = np.zeros((2, 8, 8), np.float32)
    >>> trainer = gw.Trainer(model.graph, model.loss, gw.optim.AdamW(1e-3))
    >>> record = trainer.step(model.examples([[1, 2, 3], [1, 4]], images, n_prompt=1))
    >>> [len(c.tokens) for c in model.generate([[1], [1]], images, 5)]
    [5, 5]
    """

    def __init__(
        self,
        config: VisionLanguageConfig,
        *,
        name: str = "vision_language",
        seed: int = 0,
        values: Mapping[str, Array | Buffer] | None = None,
        tokenizer: TextCodec | None = None,
        eos: int | Sequence[int] = (),
    ) -> None:
        self.config, self.tokenizer, self.eos = config, tokenizer, eos
        self._generation: Generation | None = None
        self._followed: list[Edited] = []
        decoder = config.decoder
        self.graph = g = Graph(name)
        self.images = images_of(config, g)
        self.ids = g.placeholder("ids", ("B", "T"), "int64")
        self.labels = g.placeholder("labels", ("B", "T"), "int64")
        with g:
            first = _first(config, seed) if values is None else None
            weights = Weights(g, config, {}, first)
            self.seen = seen(config, weights, self.images)
            h = Concat(axis=1)(self.seen, embedded(decoder, weights, self.ids))
            places = Arange(start=h.shape[1])()
            h = layers(decoder, weights, h, places, Within(decoder, self.ids, places))
            self.head = head(decoder, weights, h[:, config.patches :])
            self.logits = Identity()(self.head.logits, name="logits")
            self.tokens, self.loss = next_tokens(self.labels, self.logits)
        if values is not None:
            fill(g, values)
        self.n_weights = count(config)

    def __repr__(self) -> str:
        return f"<VisionLanguage of {self.n_weights:,} weights: {self.config}>"

    def generation(
        self,
        *,
        tokenizer: TextCodec | None = None,
        eos: int | Sequence[int] | None = None,
        **session: Any,
    ) -> Generation:
        """Return a generation with the weights of this model as they are whenever one begins.

        Its rows feed ``images``: ``generate(prompts, feeds={"images": images})``. The projector
        works once for each, and keys and values of patches are kept as those of tokens. Settings
        are those of ``Decoder.generation``. It raises GraphError with an adapter that stands before
        rows, as a prefix does: an image stands there.
        """
        graph = seeing_graph(self.config, f"{self.graph.name}_generation")
        others = [other for edit in self._followed if (other := edit(graph)) is not None]
        image = Before(self.config.patches)

        def before() -> Before:
            if any(other() is not None for other in others):
                raise GraphError(
                    "an adapter stands before each row, where an image does",
                    need="adapters of weights, such as gw.adapters.LoRA()",
                )
            return image

        return Generation(
            graph,
            tokenizer=self.tokenizer if tokenizer is None else tokenizer,
            eos=self.eos if eos is None else eos,
            context=self.config.decoder.context,
            weights=self.graph.values,
            before=before,
            session=Session(graph, **session),
        )

    def generate(
        self, prompts: Prompts, images: Any, max_new_tokens: int = 100, **settings: Any
    ) -> list[Completion]:
        """Return a completion of each prompt, behind an image of its own.

        Raises FeedError for images that are not those of the model, or not one of each prompt;
        other arguments and errors are those of ``Generation.generate``.
        """
        if self._generation is None:
            self._generation = self.generation()
        feeds = {"images": self._checked(images)}
        return self._generation.generate(prompts, max_new_tokens, feeds=feeds, **settings)

    def follow(self, edit: Edited, *, no_more: bool = False) -> None:
        """Have an edit made in each graph that generates from now on, as ``Decoder.follow``."""
        self._generation = None
        (self._followed.remove if no_more else self._followed.append)(edit)

    def examples(
        self, rows: Sequence[Sequence[int]], images: Any, n_prompt: int | Sequence[int] = 0
    ) -> dict[str, Array]:
        """Return ``ids`` and ``labels`` of rows, shorter ones padded, and ``images``.

        No loss is taken at padding, nor at the first ``n_prompt`` tokens of a row. Raises FeedError
        for rows that are too long, and images that are not one of each row.
        """
        given, room = self._checked(images), self.config.decoder.context - self.config.patches
        longest = max(map(len, rows), default=0)
        if not 2 <= longest <= room:
            raise FeedError(
                f"the longest of {len(rows)} rows has {longest} tokens",
                need=f"2 to {room}, behind {self.config.patches} patches",
            )
        if len(given) != len(rows):
            raise FeedError(f"{len(given)} images and {len(rows)} rows", need="one of each row")
        return {**padded_rows(rows, n_prompt), "images": given}

    def _checked(self, images: Any) -> Array:
        given, shape = np.asarray(images, np.float32), self.config.shape
        if given.shape[1:] != shape or not given.ndim:
            raise FeedError(
                f"images are {given.shape}", need=f"(rows, {', '.join(map(str, shape))})"
            )
        return given


def _first(config: VisionLanguageConfig, seed: int) -> Any:
    """Return what tells how a weight begins.

    The matrices of the projector are normals of deviation 1/√in, for patches may have few pixels;
    all else is as in a decoder alone of the same seed.
    """
    decoder, projector = first_values(config.decoder, seed), dict(config.projector())
    seeds = {name: seed + i for i, (name, _) in enumerate(config.weights())}

    def first(name: str, shape: tuple[int, ...]) -> Any:
        if name not in projector or len(shape) == 1:
            return decoder(name, shape)
        return init.normal(std=shape[1] ** -0.5, seed=seeds[name])

    return first
