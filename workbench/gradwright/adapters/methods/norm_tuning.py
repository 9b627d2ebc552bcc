"""Norm tuning: scales and shifts of norms are trained, and nothing else (Zhao et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...errors import GraphError
from ...graph import Graph, Tensor, Variable, ancestors
from ...words.jsonable import jsonable
from ..adapter import Adapter, Leaf
from ..site import Place, Site
from ..targeting import Where, chosen


@jsonable
@dataclass(frozen=True)
class NormTuning(Adapter):
    """The scales and shifts of a model's norms are trained (Zhao et al. 2023, "Tuning LayerNorm").

    Nothing is added, so that disabling and merging are nothing either: ``remove`` leaves what was
    trained, and ``state`` holds it. Places are variables that norms read, ``where`` patterns of
    their names.

    Raises GraphError for a model without norms that have any.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    >>> adapted = gw.adapters.add(model, gw.adapters.NormTuning(), where="layer0/.*")
    >>> [t.name for t in adapted.parameters]
    ['layer0/attention_norm', 'layer0/mlp_norm']
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"norm"})

    def places(
        self, sites: Sequence[Site], where: Where, layers: Any = None, exclude: Where = None
    ) -> Sequence[Place]:
        found = [Place(name=t.name, kind="norm", dtype=t.dtype) for t in _norms(sites)]
        if not found:
            raise GraphError("the model has no norms with scales", hint="gw.adapters.BitFit()")
        return chosen(found, where, layers=layers, exclude=exclude)

    def thaws(self, places: Sequence[Place], sites: Sequence[Site]) -> Sequence[Tensor]:
        names = {p.name for p in places}
        return [t for t in _norms(sites) if t.name in names]

    def variables(self, place: Place) -> Mapping[str, Leaf]:
        return {}


def _norms(sites: Sequence[Site]) -> list[Tensor]:
    """Return the variables of rank 1 that norms read, also as a part of a sum such as 1 + w."""
    if not sites:
        return []
    graph: Graph = sites[0].weight.graph
    read = [
        t
        for node in graph.nodes
        if node.op.name.endswith("_norm")
        for t in node.inputs[1:]
        if t is not None
    ]
    held = {
        n.outputs[0]: None
        for t in read
        for n in ancestors([t])
        if isinstance(n.op, Variable) and n.outputs[0].rank == 1 and t.rank == 1
    }
    return sorted(held, key=lambda t: t.node.serial)
