"""Prefix tuning: keys and values that are learned, before those of the text (Li and Liang 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...errors import GraphError
from ...graph import Graph, Tensor
from ...init import normal, uniform
from ...models.decoder.attention import WINDOWS
from ...ops.core.activation import Tanh
from ...words.jsonable import jsonable
from ..adapter import Adapter, Leaf, Leaves, computed
from ..attentions import attentions, heads, longer, positions
from ..chain import adapters_of
from ..settings import check_count
from ..site import Place, Site, Use
from ..targeting import Where, chosen

if TYPE_CHECKING:
    from ...models.reading import Before
    from ..built import Built

Array = np.ndarray[Any, Any]


@jsonable
@dataclass(frozen=True)
class Prefix(Adapter):
    """Keys and values that all queries see before those of the text (Li and Liang 2021).

    attention(q, [Kₗ; k], [Vₗ; v]),   Kₗ, Vₗ: f32[heads, P, E] of layer l

    All lie in one variable, prompt_embeddings: f32[P, 2·layers·heads·E], keys of a layer before its
    values. They are not turned to positions; those of the text count from P on, and so do learned
    ones. Layers of a decoder that look back so far see no more of it. With ``projection`` they are
    tanh(embedding·W₀ᵀ + b₀)·W₂ᵀ + b₂, with embedding: f32[P, heads·E], W₀: f32[hidden, heads·E].

    A prefix cannot be merged, and counts whole or not at all.

    Args:
        tokens: P.
        projection: whether they come of a network that is trained in their place.
        hidden: its width; as wide as keys if it is None.
        init: ``True``: normal; ``"zero"``: zero, of which attention still takes notice.

    Raises GraphError where there is no attention, or attentions differ in heads.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=50, width=16, layers=2, heads=2))
    >>> adapted = gw.adapters.add(model, gw.adapters.Prefix(tokens=3))
    >>> {t.name: t.shape for t in adapted.parameters}
    {'default/prompt_embeddings': (3, 64)}
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"attention", "positions"})
    is_weighable: ClassVar[bool] = False
    is_followed: ClassVar[bool] = False

    tokens: int = 20
    projection: bool = False
    hidden: int | None = None
    init: bool | str = True

    def __post_init__(self) -> None:
        check_count("tokens", self.tokens)
        if self.hidden is not None:
            check_count("hidden", self.hidden)
        if self.init not in (True, "zero"):
            raise GraphError(f"init={self.init!r} is not known", need="True or 'zero'")

    def places(
        self, sites: Sequence[Site], where: Where, layers: Any = None, exclude: Where = None
    ) -> Sequence[Place]:
        if not sites:
            raise GraphError("the graph has no weights, and so no attention to adapt")
        graph = sites[0].weight.graph
        nodes = attentions(graph, but=adapters_of(graph).references)
        if len({heads(n) for n in nodes}) > 1:
            raise GraphError(
                "the attentions of the graph differ in heads, and a prefix lies in one variable",
                facts=[f"{n.name!r}: {heads(n)}" for n in nodes[:8]],
            )
        found = [
            Place(
                name=n.name, kind="attention", dtype=n.outputs[0].dtype, uses=(_use(n.outputs[0]),)
            )
            for n in nodes
        ]
        some = chosen(found, where, layers=layers, exclude=exclude)
        if len(some) < len(found):
            raise GraphError(
                "a prefix stands before all attentions, as all positions count from it on",
                facts=[f"chosen are {len(some)} of {len(found)}"],
                need="where=None",
            )
        at = [
            Place(name=t.name, kind="positions", dtype=found[0].dtype, uses=(_use(t),))
            for t in positions(nodes)
        ]
        return [*found, *at]

    def variables(self, place: Place) -> Mapping[str, Leaf]:
        return {}

    def shared(self, places: Sequence[Place]) -> Mapping[str, Leaf]:
        nodes = [p.uses[0].node for p in places if p.kind == "attention"]
        n, e = heads(nodes[0])
        wide, first = 2 * len(nodes) * n * e, 0.0 if self.init == "zero" else normal()
        if not self.projection:
            return {"prompt_embeddings": Leaf((self.tokens, wide), first)}
        hidden = self.hidden or n * e
        up, down = (uniform(low=-(d**-0.5), high=d**-0.5) for d in (n * e, hidden))
        return {
            "embedding.weight": Leaf((self.tokens, n * e), first),
            "transform.0.weight": Leaf((hidden, n * e), up),
            "transform.0.bias": Leaf((hidden,), up),
            "transform.2.weight": Leaf((wide, hidden), down),
            "transform.2.bias": Leaf((wide,), down),
        }

    def common(self, places: Sequence[Place], p: Leaves) -> Leaves:
        nodes = {place.name: place.uses[0].node for place in places if place.kind == "attention"}
        names = list(nodes)
        n, e = heads(nodes[names[0]])
        parts = self.flat(p).reshape(self.tokens, 2 * len(names), n, e).transpose(1, 2, 0, 3)
        return {
            f"{kind} {name}": parts[2 * i + j]
            for i, name in enumerate(names)
            for j, kind in enumerate(("keys", "values"))
        }

    def flat(self, p: Leaves) -> Tensor:
        """Return prompt_embeddings, which files hold: as they are, or as the network makes them."""
        if not self.projection:
            return p["prompt_embeddings"]
        h = Tanh()(p["embedding.weight"] @ p["transform.0.weight"].mT + p["transform.0.bias"])
        made: Tensor = h @ p["transform.2.weight"].mT + p["transform.2.bias"]
        return made

    def apply(self, place: Place, use: Use, x: Any, y: Tensor, p: Leaves) -> Tensor:
        if place.kind == "positions":
            return y + self.tokens
        reach = y.graph.notes.get(WINDOWS, {}).get(place.name)
        return longer(use.node, p[f"keys {place.name}"], p[f"values {place.name}"], reach)

    def merge(
        self, place: Any, w: Array, bias: Array | None, p: Mapping[str, Array]
    ) -> tuple[Array, Array | None] | None:
        return None

    # -- generation ------------------------------------------------------------------------------

    def before(self, adapted: Built, graph: Graph) -> Before | None:
        from ...models.reading import Before

        values = adapted.graph.values
        leaves = {name: values[t.name] for name, t in adapted.shared.items()}
        flat = computed(lambda _, q: self.flat(q), np.zeros(1, np.float32), leaves)
        layers, _, _, heads, _, e = graph["past"].shape
        past = flat.reshape(self.tokens, int(layers), 2, int(heads), int(e))
        return Before(self.tokens, past.transpose(1, 2, 3, 0, 4))


def _use(t: Tensor) -> Use:
    return Use(t.node, 0, t)
