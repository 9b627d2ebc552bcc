"""Norm tuning: scales and shifts of norms are trained, and nothing else (Zhao et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...errors import GraphError
from ...graph import Tensor, Variable, ancestors
from ...words.jsonable import jsonable
from ..site import Site
from ..thawing import Thawing


@jsonable
@dataclass(frozen=True)
class NormTuning(Thawing):
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

    def trains(self, sites: Sequence[Site]) -> Sequence[Tensor]:
        graph = sites[0].weight.graph
        read = [
            t
            for node in graph.nodes
            if node.op.name.endswith("_norm")
            for t in node.inputs[1:]
            if t is not None and t.rank == 1
        ]  # also as a part of a sum such as 1 + w; running statistics are no weights
        held = [n.outputs[0] for t in read for n in ancestors([t]) if isinstance(n.op, Variable)]
        return [t for t in held if t.rank == 1 and (t.trainable or t.node.frozen)]

    def lacks(self) -> GraphError:
        return GraphError("the model has no norms with scales", hint="gw.adapters.BitFit()")
