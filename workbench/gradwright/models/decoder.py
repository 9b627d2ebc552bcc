"""A decoder language model of the Llama family, declared once and built for training and for use.

    h₀ = embed[ids]
    a  = h + attend(RoPE(n·Wq), RoPE(n·Wk), n·Wv)·Wo,  n = rms_norm(h)
    h' = a + (silu(m·Wgate)·(m·Wup))·Wdown,            m = rms_norm(a)        for each layer
    logits = rms_norm(h)·head

RMS norms before each part (Zhang and Sennrich 2019), rotary positions by halves (Su et al. 2021),
heads of queries that share keys and values (Ainslie et al. 2023), SwiGLU (Shazeer 2020), no biases:
the model of Touvron et al. 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import init, loss, nn
from ..errors import FeedError, GraphError
from ..graph import Graph, Tensor
from ..ops.attention.weights import group_average, group_scores
from ..ops.core.choice import Where
from ..ops.core.creation import Arange
from ..ops.core.identity import Identity
from ..ops.core.joining import Concat, Stack
from ..ops.core.movement import Cast
from ..ops.core.reduce import Sum
from ..session import Session
from ..words.jsonable import jsonable
from .generation import Generation
from .tokenizers import TextCodec

Array = np.ndarray[Any, Any]
IGNORED = -100
"""The label of a position that no loss is taken at."""
HIDDEN = -1e38
"""What is added to scores of keys that are not seen; −∞ would make NaN of rows of it."""
LAYER = ("attention_norm", "q", "k", "v", "o", "gated_norm", "gate", "up", "down")
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""From the number of a layer, queries, keys and values, all ``[B, heads, T, E]``, to averages."""


@jsonable
@dataclass(frozen=True)
class DecoderConfig:
    """The sizes of a decoder.

    Args:
        vocabulary: how many tokens there are.
        width: features of a position.
        layers: how many layers stand on each other.
        heads: heads of queries, each of width/heads features.
        kv_heads: heads of keys and values; None is as many as of queries.
        inner: width of the gated layers; None is 8/3·width, rounded up to a multiple of 32.
        rope_base: the slowest pair of features turns once in 2π·rope_base positions.
        eps: what norms add to the mean square.
        context: the longest row of tokens.
        dropout: share of what each layer adds that training drops.
        tied: whether the head is the embedding, transposed.

    Raises GraphError for sizes that do not go together.

    >>> from gradwright.models import DecoderConfig
    >>> DecoderConfig(vocabulary=96, width=64, heads=4).features
    16
    """

    vocabulary: int
    width: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int | None = None
    inner: int | None = None
    context: int = 1024
    rope_base: float = 10_000.0
    eps: float = 1e-6
    dropout: float = 0.0
    tied: bool = False

    def __post_init__(self) -> None:
        sizes = self.vocabulary, self.width, self.layers, self.heads, self.context
        if not all(isinstance(n, int) and n >= 1 for n in (*sizes, self.shared, self.hidden)):
            raise GraphError(f"{self} has sizes that are none", need="ints >= 1")
        if self.width % (2 * self.heads):
            raise GraphError(
                f"a width of {self.width} is not {self.heads} heads of an even size",
                need=f"a multiple of {2 * self.heads}",
            )
        if self.heads % self.shared:
            raise GraphError(
                f"{self.heads} heads of queries cannot share {self.shared} of keys and values",
                need="heads a multiple of kv_heads",
            )
        if not 0 <= self.dropout < 1:
            raise GraphError(f"dropout={self.dropout} is no share", need="0 <= dropout < 1")

    @property
    def features(self) -> int:
        """Features of a head."""
        return self.width // self.heads

    @property
    def shared(self) -> int:
        """Heads of keys and values."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def hidden(self) -> int:
        """Width of the gated layers."""
        return -(-self.width // 12) * 32 if self.inner is None else self.inner

    def weights(self) -> Iterator[tuple[str, tuple[int, ...], str]]:
        """Yield name and shape of each weight, and the name that transformers' Llama gives it.

        Matrices are [in, out] here and [out, in] there, but for the embedding.
        """
        d, kv = self.width, self.shared * self.features
        yield "embed", (self.vocabulary, d), "model.embed_tokens"
        for i in range(self.layers):
            at, there = f"layer{i}", f"model.layers.{i}"
            yield f"{at}/attention_norm", (d,), f"{there}.input_layernorm"
            for name, n_in, n_out in (("q", d, d), ("k", d, kv), ("v", d, kv), ("o", d, d)):
                yield f"{at}/{name}", (n_in, n_out), f"{there}.self_attn.{name}_proj"
            yield f"{at}/gated_norm", (d,), f"{there}.post_attention_layernorm"
            for name in ("gate", "up"):
                yield f"{at}/{name}", (d, self.hidden), f"{there}.mlp.{name}_proj"
            yield f"{at}/down", (self.hidden, d), f"{there}.mlp.down_proj"
        yield "norm", (d,), "model.norm"
        if not self.tied:
            yield "head", (d, self.vocabulary), "lm_head"


class Decoder:
    """A decoder: its training graph, and generations that read the same weights.

    ``ids`` and ``labels`` are placeholders i64[B, T]; the logits f32[B, T, V] at a position are of
    the token that follows it. ``loss`` is the mean of −ln p(labelsₜ₊₁ | idsₛ, s ≤ t) over all
    t < T − 1 where labelsₜ₊₁ is not −100, of which there are ``tokens``, f32[]: labels are the ids,
    with −100 where they are padding or a prompt. Padding stands on the right, where no token looks.

    What ``model.graph.save(path)`` has kept, another model of the config takes over with
    ``model.graph.values.restore(gw.load(path).values)``.

    Matrices begin as normals of deviation 0.02, those that end a branch as 0.02/√(2·layers)
    (Radford et al. 2019), norms as ones.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=50, width=16, layers=1, heads=2))
    >>> model.logits.shape, model.loss.shape, model.n_weights
    ((B, T, 50), (), 5744)
    >>> trainer = gw.Trainer(model.graph, model.loss, gw.optim.AdamW(1e-3))
    >>> record = trainer.step(model.examples([[1, 2, 3, 4]]))
    >>> [len(c.tokens) for c in model.generation().generate([[1, 2]], 5)]
    [5]
    """

    def __init__(self, config: DecoderConfig, *, name: str = "decoder", seed: int = 0) -> None:
        self.config = config
        self.graph = g = Graph(name)
        self.ids = g.placeholder("ids", ("B", "T"), "int64")
        self.labels = g.placeholder("labels", ("B", "T"), "int64")
        with g:
            weights = {
                label: g.variable(label, shape, init=self._first(label, len(shape), seed + i))
                for i, (label, shape, _) in enumerate(config.weights())
            }
            places = Arange(start=self.ids.shape[1])()
            h = _layers(config, weights, self.ids, places, self._causal)
            counts = Cast(dtype="float32")(self.labels[:, 1:] != IGNORED)
            self.tokens = Sum()(counts, name="tokens")
            self.logits = Identity()(_head(config, weights, h), name="logits")
            self.loss = loss.sparse_softmax_cross_entropy(
                self.labels[:, 1:], self.logits[:, :-1], ignore_index=IGNORED, name="loss"
            )
        self.n_weights = sum(math.prod(shape) for _, shape, _ in config.weights())

    def _first(self, label: str, rank: int, seed: int) -> Any:
        """Return what a weight begins as."""
        ends_branch = label.endswith(("/o", "/down"))
        std = 0.02 / math.sqrt(2 * self.config.layers) if ends_branch else 0.02
        return 1.0 if rank == 1 else init.normal(std=std, seed=seed)

    def _causal(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return attention within a row."""
        b, n, t, e = q.shape
        shared = self.config.shared
        if n == shared:
            return nn.scaled_dot_product_attention(q, k, v, is_causal=True)
        q = q.reshape(b, shared, n // shared, t, e)
        y = nn.scaled_dot_product_attention(q, k[:, :, None], v[:, :, None], is_causal=True)
        return y.reshape(b, n, t, e)

    def __repr__(self) -> str:
        return f"<Decoder of {self.n_weights:,} weights: {self.config}>"

    # -- use -------------------------------------------------------------------------------------

    def generation(
        self,
        *,
        tokenizer: TextCodec | None = None,
        eos: int | Sequence[int] = (),
        **session: Any,
    ) -> Generation:
        """Return a generation with the weights of this model as they are whenever one begins.

        ``session`` are settings of its `Session`: ``deterministic=True`` gives the same bits again.
        """
        graph = generation_graph(self.config, f"{self.graph.name}_generation")
        return Generation(
            graph,
            tokenizer=tokenizer,
            eos=eos,
            context=self.config.context,
            weights=self.graph.values,
            session=Session(graph, **session),
        )

    def examples(
        self, rows: Sequence[Sequence[int]], n_prompt: int | Sequence[int] = 0
    ) -> dict[str, Array]:
        """Return ``ids`` and ``labels`` of rows of tokens, shorter ones padded.

        No loss is taken at padding, nor at the first ``n_prompt`` tokens of a row.

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
        ids = np.zeros((len(rows), longest), np.int64)
        labels = np.full_like(ids, IGNORED)
        hidden = np.broadcast_to(n_prompt, len(rows))
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
            labels[i, hidden[i] : len(row)] = row[hidden[i] :]
        return {"ids": ids, "labels": labels}

    def load_llama(self, state: Mapping[str, Any]) -> None:
        """Take over the weights of a Llama of transformers, ``model.state_dict()``, all or none.

        Raises GraphError for weights that are missing, left over, or of another shape.
        """
        left = {k: v for k, v in state.items() if not k.endswith(("rotary_emb.inv_freq",))}
        if self.config.tied:
            left.pop("lm_head.weight", None)
        found, missing = {}, []
        for name, shape, there in self.config.weights():
            if (array := left.pop(f"{there}.weight", None)) is None:
                missing.append(f"{there}.weight")
                continue
            array = np.asarray(array, np.float32)
            array = array.T if array.ndim == 2 and name != "embed" else array
            if array.shape != shape:
                raise GraphError(f"{there}.weight is {array.T.shape}", need=f"{shape} for {name}")
            found[name] = np.array(array, order="C")
        if missing or left:
            raise GraphError(
                "the weights are not those of this model",
                facts=[f"missing: {', '.join(missing)}"] * bool(missing)
                + [f"left over: {', '.join(left)}"] * bool(left),
            )
        self.graph.values.commit(found)


def generation_graph(config: DecoderConfig, name: str = "generation") -> Graph:
    """Return the graph of ``Generation`` for a decoder; its weights are zero.

    >>> from gradwright.models import DecoderConfig, generation_graph
    >>> g = generation_graph(DecoderConfig(vocabulary=9, width=8, layers=3, heads=2))
    >>> g["past"].shape, g["present"].shape, g["logits"].shape
    ((3, 2, B, 2, S, 4), (3, 2, B, 2, T, 4), (B, 9))
    """
    g = Graph(name)
    ids = g.placeholder("ids", ("B", "T"), "int64")
    position = g.placeholder("position", ("B",), "int64")
    last = g.placeholder("last", ("B",), "int64")
    room = (config.layers, 2, "B", config.shared, "S", config.features)
    past = g.placeholder("past", room)
    with g:
        weights = {label: g.variable(label, shape) for label, shape, _ in config.weights()}
        n_old, n_new = past.shape[4], ids.shape[1]
        known = Arange(start=n_old)()[None] < position[:, None]
        hides_old = Where()(known, 0.0, HIDDEN)[:, None, None]
        new = Arange(start=n_new)()
        hides_new = Where()(new <= new[:, None], 0.0, HIDDEN)
        made: list[Tensor] = []

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            made.extend((k, v))
            old_k, old_v = past[layer, 0], past[layer, 1]
            q = q * config.features**-0.5
            scores = group_scores(q, old_k) + hides_old, group_scores(q, k) + hides_new
            weights = nn.softmax(Concat(axis=-1)(*scores))
            of_old, of_new = weights[..., :n_old], weights[..., n_old:]
            y: Tensor = group_average(of_old, old_v) + group_average(of_new, v)
            return y

        places = position[:, None] + new
        h = _layers(config, weights, ids, places, attend)
        first = Arange(start=ids.shape[0] * n_new)().reshape(*ids.shape)[:, 0]
        Identity()(_head(config, weights, h), name="all_logits")
        h = h.reshape(-1, config.width)[first + last]
        Identity()(_head(config, weights, h), name="logits")
        b, n, t, e = made[0].shape
        present = Stack(axis=0)(*made).reshape(config.layers, 2, b, n, t, e)
        Identity()(present, name="present")
    return g


def _layers(
    config: DecoderConfig,
    weights: Mapping[str, Tensor],
    ids: Tensor,
    places: Tensor,
    attend: Attend,
) -> Tensor:
    """Return what the last layer gives, before the norm; ``places`` are i64[T] or i64[B, T]."""
    b, t = ids.shape
    cos, sin = nn.rope_cos_sin(places, dim=config.features, base=config.rope_base)
    if places.rank == 2:
        cos, sin = cos[:, None], sin[:, None]

    def by_heads(y: Tensor, n: int) -> Tensor:
        return y.reshape(b, t, n, config.features).transpose(0, 2, 1, 3)

    def dropped(y: Tensor) -> Tensor:
        return nn.dropout(y, p=config.dropout) if config.dropout else y

    h = dropped(nn.embedding(ids, weights["embed"]))
    for i in range(config.layers):
        with h.graph.scope(f"layer{i}"):
            w = {label: weights[f"layer{i}/{label}"] for label in LAYER}
            y = nn.rms_norm(h, w["attention_norm"], eps=config.eps)
            q = nn.rotate_pairs(by_heads(y @ w["q"], config.heads), cos, sin)
            k = nn.rotate_pairs(by_heads(y @ w["k"], config.shared), cos, sin)
            a = attend(i, q, k, by_heads(y @ w["v"], config.shared))
            h = h + dropped(a.transpose(0, 2, 1, 3).reshape(b, t, config.width) @ w["o"])
            y = nn.rms_norm(h, w["gated_norm"], eps=config.eps)
            h = h + dropped(nn.swiglu(y @ w["gate"], y @ w["up"]) @ w["down"])
    return h


def _head(config: DecoderConfig, weights: Mapping[str, Tensor], h: Tensor) -> Tensor:
    """Return logits."""
    y = nn.rms_norm(h, weights["norm"], eps=config.eps)
    return y @ (weights["embed"].mT if config.tied else weights["head"])


def windows(tokens: Sequence[int], length: int) -> Array:
    """Return rows i64[n, length] of a long text, each beginning with the last token of another.

    So every token but the first is predicted once; what does not fill a row is left out.

    >>> from gradwright.models import windows
    >>> windows(range(8), 3).tolist()
    [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    """
    held = np.asarray(tokens, np.int64)
    if length < 2 or len(held) < length:
        raise FeedError(f"{len(held)} tokens give no rows of {length}", need="2 <= length <= n")
    return np.lib.stride_tricks.sliding_window_view(held, length)[:: length - 1].copy()
