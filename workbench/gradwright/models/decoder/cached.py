"""The graph by which a decoder generates: new tokens, and keys and values of the old ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ...graph import Graph, Tensor
from ...ops.core.choice import Minimum
from ...ops.core.creation import Arange
from ...ops.core.identity import Identity
from ...ops.core.joining import Stack
from .attention import Cached
from .config import DecoderConfig
from .layers import embedded, head, layers
from .weights import Weights

Begin = Callable[[Tensor, Tensor], tuple[Weights, Tensor]]
"""From new tokens i64[B, T] and their places to weights, and what the first layer is given."""


def generation_graph(
    config: DecoderConfig,
    name: str = "generation",
    *,
    packed: Mapping[str, str] | None = None,
    activations: str = "float32",
) -> Graph:
    """Return the graph of ``Generation`` for a decoder; its weights are zero.

    ``all_logits``, f32[B, T, V], are those of every new position; they cost nothing where nobody
    asks for them. Where positions turn by how long a row is, ``length`` is a placeholder, too.
    ``packed`` as for `Decoder`, ``activations`` as for ``nn.ggml_matmul``.

    >>> from gradwright.models import DecoderConfig, generation_graph
    >>> g = generation_graph(DecoderConfig(vocabulary=9, width=8, layers=3, heads=2))
    >>> g["past"].shape, g["present"].shape, g["logits"].shape
    ((3, 2, B, 2, S, 4), (3, 2, B, 2, T, 4), (B, 9))
    """
    g = Graph(name)

    def begin(ids: Tensor, places: Tensor) -> tuple[Weights, Tensor]:
        weights = Weights(g, config, packed or {}, activations=activations)
        return weights, embedded(config, weights, ids)

    generating(g, config, begin)
    return g


def generating(g: Graph, config: DecoderConfig, begin: Begin) -> None:
    """Fill a graph with what ``Generation`` asks of it; ``begin`` says what a row begins as."""
    ids = g.placeholder("ids", ("B", "T"), "int64")
    position = g.placeholder("position", ("B",), "int64")
    last = g.placeholder("last", ("B",), "int64")
    room = (config.layers, 2, "B", config.shared, "S", config.features)
    past = g.placeholder("past", room)
    with g:
        n_new = ids.shape[1]
        places = position[:, None] + Arange(start=n_new)()
        weights, h = begin(ids, places)
        length = partial(g.placeholder, "length", ("B", "T"), "int64")
        attend = Cached(config, past, position, places, length)
        if config.positions == "learned":  # padding may stand behind the last of them
            places = Minimum()(places, config.context - 1)
        h = layers(config, weights, h, places, attend)
        Identity()(head(config, weights, h).logits, name="all_logits")
        first = Arange(start=ids.shape[0] * n_new)().reshape(*ids.shape)[:, 0]
        h = h.reshape(-1, config.width)[first + last]
        Identity()(head(config, weights, h).logits, name="logits")
        b, n, t, e = attend.made[0].shape
        present = Stack(axis=0)(*attend.made).reshape(config.layers, 2, b, n, t, e)
        Identity()(present, name="present")
