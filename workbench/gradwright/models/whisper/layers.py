"""The layers of a Whisper, as they stand in each of its graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import cnn, nn
from ...graph import Graph, Tensor
from ...ops.attention.tiled import LOW
from ...ops.core.choice import Where
from ...ops.core.creation import Arange
from ...ops.core.identity import Identity
from ...ops.core.joining import Concat, Stack
from ..decoder.layers import dropped
from ..decoder.weights import Weights
from ..encoders.layers import averages, block, by_heads, joined, network
from .config import WhisperConfig

KeysValues = tuple[Tensor, Tensor]


def heard(config: WhisperConfig, weights: Weights, features: Tensor) -> Tensor:
    """Return what the encoder makes of a spectrum f32[B, bands, 2·frames]: f32[B, frames, D]."""
    h = features
    for name, stride in (("conv1", 1), ("conv2", 2)):
        y = cnn.conv1d(h, weights[name], weights[f"{name}_bias"], stride=stride, padding=1)
        h = nn.gelu(y)
    h = dropped(h.transpose(0, 2, 1) + weights["encoder_positions"], config.dropout)
    for i in range(config.encoder_layers):
        h = block(
            *(weights, f"encoder_layer{i}", h, config.encoder_heads),
            activation=config.activation,
            dropout=config.dropout,
        )
    return weights.norm(h, "encoder_norm")


def crossed(config: WhisperConfig, weights: Weights, sound: Tensor) -> list[KeysValues]:
    """Return keys and values of what was heard, for each layer that writes."""

    def of(i: int, name: str) -> Tensor:
        y = weights.product(sound, f"decoder_layer{i}/cross_{name}")
        return by_heads(y, config.decoder_heads)

    return [(of(i, "k"), of(i, "v")) for i in range(config.decoder_layers)]


def written(
    config: WhisperConfig,
    weights: Weights,
    ids: Tensor,
    places: Tensor,
    cross: Sequence[KeysValues],
    attend: Callable[[int, Tensor, Tensor, Tensor], Tensor],
) -> Tensor:
    """Return what the decoder makes of tokens, f32[B, T, D], normed: its logits are one product."""
    h = weights.rows(ids) + nn.embedding(places, weights["positions"])
    h = dropped(h, config.dropout)
    for i, (keys, values) in enumerate(cross):
        at = f"decoder_layer{i}"
        h.graph.classes[at] = "DecoderLayer"
        with h.graph.scope(at):
            y = weights.norm(h, f"{at}/attention_norm")
            q, k, v = (
                by_heads(weights.product(y, f"{at}/{n}"), config.decoder_heads) for n in "qkv"
            )
            y = weights.product(joined(attend(i, q, k, v)), f"{at}/o")
            h = h + dropped(y, config.dropout)
            y = weights.norm(h, f"{at}/cross_norm")
            q = by_heads(weights.product(y, f"{at}/cross_q"), config.decoder_heads)
            y = weights.product(joined(averages(q, keys, values, None)), f"{at}/cross_o")
            h = h + dropped(y, config.dropout)
            y = network(weights, at, weights.norm(h, f"{at}/mlp_norm"), config.activation)
            h = h + dropped(y, config.dropout)
    return weights.norm(h, "norm")


def logits(weights: Weights, h: Tensor) -> Tensor:
    """Return logits: the head is the embedding."""
    return weights.product(h, "embed")


def causal(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return attention within rows, to what stands before."""
    return nn.scaled_dot_product_attention(q, k, v, is_causal=True)


def hearing_graph(config: WhisperConfig) -> Graph:
    """Return the graph from a spectrum to keys and values, ``cross``: [layers, 2, B, H, S, E]."""
    g = Graph("whisper_hearing")
    features = g.placeholder("features", ("B", config.bands, 2 * config.frames))
    with g:
        weights = Weights(g, config, {})
        made = crossed(config, weights, heard(config, weights, features))
        Identity()(Stack(axis=0)(*(Stack(axis=0)(*pair) for pair in made)), name="cross")
    return g


def writing_graph(config: WhisperConfig) -> Graph:
    """Return the graph from new tokens, and what is known, to logits of the next one.

    ``ids`` i64[B, T] stand from ``position`` i64[] on; ``past`` has room for keys and values of
    all, ``present`` are those of the new ones.
    """
    g = Graph("whisper_writing")
    ids = g.placeholder("ids", ("B", "T"), "int64")
    position = g.placeholder("position", (), "int64")
    room = (config.decoder_layers, 2, "B", config.decoder_heads)
    features = config.width // config.decoder_heads
    past = g.placeholder("past", (*room, "S", features))
    cross = g.placeholder("cross", (*room, config.frames, features))
    with g:
        weights = Weights(g, config, {})
        new, old = Arange(start=ids.shape[1])(), Arange(start=past.shape[4])()
        hides = Concat(axis=-1)(
            Where()((old < position)[None] & (new >= 0)[:, None], 0.0, LOW),
            Where()(new <= new[:, None], 0.0, LOW),
        )
        made: list[Tensor] = []

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            made.extend((k, v))
            keys, values = (Concat(axis=2)(past[layer, n], x) for n, x in enumerate((k, v)))
            return nn.scaled_dot_product_attention(q, keys, values, hides, unseen="average")

        pairs = [(cross[i, 0], cross[i, 1]) for i in range(config.decoder_layers)]
        h = written(config, weights, ids, position + new, pairs, attend)
        Identity()(logits(weights, h[:, -1]), name="logits")
        b, n, t, e = made[0].shape
        present = Stack(axis=0)(*made).reshape(config.decoder_layers, 2, b, n, t, e)
        Identity()(present, name="present")
    return g
