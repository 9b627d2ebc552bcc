"""A decoder language model, declared once and built for training and for use.

    h₀ = embed[ids]
    a  = h + attend(turn(n·Wqᵀ), turn(n·Wkᵀ), n·Wvᵀ)·Woᵀ,  n = norm(h)
    h' = a + (silu(m·Wgateᵀ)·(m·Wupᵀ))·Wdownᵀ,             m = norm(a)        for each layer
    logits = norm(h)·headᵀ

As it stands this is Llama (Touvron et al. 2023): RMS norms before each part (Zhang and Sennrich
2019), rotary positions by halves (Su et al. 2021), heads of queries that share keys and values
(Ainslie et al. 2023), SwiGLU (Shazeer 2020), no biases. `DecoderConfig` tells what other families
do otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ... import init
from ...errors import FeedError
from ...graph import Graph
from ...ops.core.creation import Arange
from ...ops.core.identity import Identity
from ...session import Session
from ...spec.buffer import Buffer
from ..completion import Completion, Prompts
from ..generation import Generation
from ..reading import Before
from ..tokenizers import TextCodec
from .attention import Within
from .cached import generation_graph
from .config import DecoderConfig
from .layers import embedded, head, layers, next_tokens
from .packing import floats_of
from .quantizing import Quantized, quantized_weights
from .rows import packed_rows, padded_rows
from .weights import Weights, count, fill

Array = np.ndarray[Any, Any]
Edited = Callable[[Graph], Callable[[], Before | None] | None]
"""An edit of graphs that generate."""


class Decoder:
    """A decoder: its training graph, and generations that read the same weights.

    ``ids`` and ``labels`` are placeholders i64[B, T]; the logits f32[B, T, V] at a position are of
    the token that follows it. ``loss`` is the mean of −ln p(labelsₜ₊₁ | idsₛ, s ≤ t) over all
    t < T − 1 where labelsₜ₊₁ is not −100, of which there are ``tokens``, f32[]: labels are the ids,
    with −100 where they are padding or a prompt. Padding stands on the right, where no token looks.
    ``head`` has the last states f32[B, T, D] and the weight that makes logits of them.

    What ``model.graph.save(path)`` has kept, another model of the config takes over with
    ``model.graph.values.restore(gw.load(path).values)``.

    Matrices begin as normals of deviation 0.02, those that end a branch as 0.02/√(2·layers)
    (Radford et al. 2019), norms as ones, biases as zeros.

    Args:
        config: its sizes and kind.
        name: of the graph.
        seed: of the first weights.
        position_ids: whether a third placeholder, i64[B, T], says where in its row a token stands.
            So rows may lie one after another, each from 0 on: none sees another.
        values: all weights, by the names of ``config.weights()``, instead of first ones. Arrays are
            read where they lie, such as in a mapped file; training makes arrays of its own.
        packed: weights that lie in blocks of a ggml format, and which: ``{"layer0/q": "q4_k"}``.
            Such a weight is u8[out, bytes of a row], of experts u8[E, out, bytes of a row], and not
            trained. ``"nf4"`` and ``"nf4_double"`` have variables of scales beside it, such as
            ``layer0/q_absmax``.
        tokenizer: for generations.
        eos: tokens that end a row, likewise.
        source: the file or folder that it is of.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=50, width=16, layers=1, heads=2))
    >>> model.logits.shape, model.loss.shape, model.n_weights
    ((B, T, 50), (), 5744)
    >>> trainer = gw.Trainer(model.graph, model.loss, gw.optim.AdamW(1e-3))
    >>> record = trainer.step(model.examples([[1, 2, 3, 4]]))
    >>> [len(c.tokens) for c in model.generate([[1, 2]], 5)]
    [5]
    """

    def __init__(
        self,
        config: DecoderConfig,
        *,
        name: str = "decoder",
        seed: int = 0,
        position_ids: bool = False,
        values: Mapping[str, Array | Buffer] | None = None,
        packed: Mapping[str, str] | None = None,
        tokenizer: TextCodec | None = None,
        eos: int | Sequence[int] = (),
        source: Path | None = None,
    ) -> None:
        self.config, self.packed = config, dict(packed or {})
        self.tokenizer, self.eos, self.source = tokenizer, eos, source
        self._generation: Generation | None = None
        self._followed: list[Edited] = []
        self.graph = g = Graph(name)
        self.ids = g.placeholder("ids", ("B", "T"), "int64")
        self.labels = g.placeholder("labels", ("B", "T"), "int64")
        given = g.placeholder("position_ids", ("B", "T"), "int64") if position_ids else None
        self.position_ids = given
        with g:
            first = first_values(config, seed) if values is None else None
            weights = Weights(g, config, self.packed, first)
            places = Arange(start=self.ids.shape[1])() if given is None else given
            attend = Within(config, self.ids, places)
            h = layers(config, weights, embedded(config, weights, self.ids), places, attend)
            self.head = head(config, weights, h)
            self.logits = Identity()(self.head.logits, name="logits")
            self.tokens, self.loss = next_tokens(self.labels, self.logits)
        if values is not None:
            fill(g, values)
        self.n_weights = count(config)

    def __repr__(self) -> str:
        return f"<Decoder of {self.n_weights:,} weights: {self.config}>"

    # -- use -------------------------------------------------------------------------------------

    def generation(
        self,
        *,
        tokenizer: TextCodec | None = None,
        eos: int | Sequence[int] | None = None,
        activations: str = "float32",
        **session: Any,
    ) -> Generation:
        """Return a generation with the weights of this model as they are whenever one begins.

        ``tokenizer`` and ``eos`` are those of the model if they are not given. With
        ``activations="int8"`` what packed weights are multiplied with is rounded to bytes: faster,
        and off by 6e-3 in each product.
        ``session`` are settings of its `Session`: ``deterministic=True`` gives the same bits again.
        """
        name, scaling = f"{self.graph.name}_generation", self.config.rope_scaling
        graph = generation_graph(self.config, name, packed=self.packed, activations=activations)
        befores = [before for edit in self._followed if (before := edit(graph)) is not None]
        return Generation(
            graph,
            tokenizer=self.tokenizer if tokenizer is None else tokenizer,
            eos=self.eos if eos is None else eos,
            context=self.config.context,
            reread=scaling.original_length if scaling is not None and scaling.is_twofold else None,
            weights=self.graph.values,
            before=befores[0] if befores else None,
            session=Session(graph, **session),
        )

    def generate(
        self, prompts: Prompts, max_new_tokens: int = 100, **settings: Any
    ) -> list[Completion]:
        """Return a completion of each prompt; arguments and errors of ``Generation.generate``."""
        if self._generation is None:
            self._generation = self.generation()
        return self._generation.generate(prompts, max_new_tokens, **settings)

    def floats(self, name: str) -> Array:
        """Return a weight as float32, whatever it lies in.

        >>> import gradwright as gw
        >>> from gradwright.models import Decoder, DecoderConfig
        >>> model = Decoder(DecoderConfig(vocabulary=9, width=64, layers=1, heads=2))
        >>> packed = gw.quant.quantize(model, "nf4").model
        >>> packed.graph.values["layer0/q"].shape, packed.floats("layer0/q").shape
        ((64, 32), (64, 64))
        """
        return floats_of(self, name)

    def follow(self, edit: Edited, *, no_more: bool = False) -> None:
        """Have an edit made in each graph that generates from now on, or no more.

        What it adds under the names that it has in ``graph`` is read from there, as weights are;
        it may return what tells what stands before each row then.
        """
        self._generation = None
        (self._followed.remove if no_more else self._followed.append)(edit)

    def quantized(self, format: str, formats: Mapping[str, str]) -> Quantized:
        """Return a decoder with its matrices in blocks, as ``gw.quant.quantize`` says."""
        held = self.graph.values
        made, packed, rows = quantized_weights(self.config, held, self.packed, format, formats)
        model = Decoder(
            self.config,
            name=self.graph.name,
            position_ids=self.position_ids is not None,
            values=made,
            packed=packed,
            tokenizer=self.tokenizer,
            eos=self.eos,
            source=self.source,
        )
        return Quantized(model, tuple(rows))

    def examples(
        self, rows: Sequence[Sequence[int]], n_prompt: int | Sequence[int] = 0
    ) -> dict[str, Array]:
        """Return ``ids`` and ``labels`` of rows of tokens, shorter ones padded.

        No loss is taken at padding, nor at the first ``n_prompt`` tokens of a row. Where the model
        takes ``position_ids``, shorter rows share one of the length of the longest.

        >>> from gradwright.models import Decoder, DecoderConfig
        >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
        >>> batch = model.examples([[1, 2, 3], [4]])
        >>> batch["ids"].tolist(), batch["labels"].tolist()
        ([[1, 2, 3], [4, 0, 0]], [[1, 2, 3], [4, -100, -100]])
        """
        longest = max(map(len, rows), default=0)
        if longest < 2 or longest > self.config.context:
            raise FeedError(
                f"the longest of {len(rows)} rows has {longest} tokens",
                need=f"2 to {self.config.context}",
                hint="gw.models.windows(tokens, length) cuts a long text",
            )
        if self.position_ids is None:
            return padded_rows(rows, n_prompt)
        return packed_rows(rows, n_prompt, longest)


def first_values(config: DecoderConfig, seed: int) -> Any:
    """Return what tells the first value of a weight by its name and shape, in their order."""
    seeds = {name: seed + i for i, (name, _) in enumerate(config.weights())}

    def first(name: str, shape: tuple[int, ...]) -> Any:
        if len(shape) == 1:
            return float(not name.endswith("_bias") and config.norm != "rms_plus_one")
        ends_branch = name.endswith(("/o", "/down"))
        std = 0.02 / math.sqrt(2 * config.layers) if ends_branch else 0.02
        return init.normal(std=std, seed=seeds[name])

    return first
