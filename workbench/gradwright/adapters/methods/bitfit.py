"""BitFit: the biases of a model are trained, and nothing else (Ben Zaken et al. 2022)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...errors import GraphError
from ...graph import Tensor
from ...words.jsonable import jsonable
from ..adapter import Adapter, Leaf
from ..site import Place, Site
from ..targeting import Where, chosen
from .lora import is_bias


@jsonable
@dataclass(frozen=True)
class BitFit(Adapter):
    """The biases that a model has are trained (Ben Zaken et al. 2022, "BitFit").

    Nothing is added, so that disabling and merging are nothing either: ``remove`` leaves what was
    trained, and ``state`` holds it. Places are biases by their names, ``where`` patterns of these.

    Raises GraphError for a model without biases, such as a Llama.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 3)) @ g.variable("w", (3, 2)) + g.variable("b", (2,))
    >>> adapted = gw.adapters.add(g, gw.adapters.BitFit())
    >>> [t.name for t in adapted.parameters]
    ['b']
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"bias"})

    def places(
        self, sites: Sequence[Site], where: Where, layers: Any = None, exclude: Where = None
    ) -> Sequence[Place]:
        found = [Place(name=t.name, kind="bias", dtype=t.dtype) for t in biases(sites)]
        if not found:
            raise GraphError("the model has no biases", hint="gw.adapters.NormTuning(), or LoRA()")
        return chosen(found, where, layers=layers, exclude=exclude)

    def thaws(self, places: Sequence[Place], sites: Sequence[Site]) -> Sequence[Tensor]:
        names = {p.name for p in places}
        return [t for t in biases(sites) if t.name in names]

    def variables(self, place: Place) -> Mapping[str, Leaf]:
        return {}


def biases(sites: Sequence[Site]) -> list[Tensor]:
    """Return what is added to products, and variables that are called biases."""
    if not sites:
        return []
    added = [use.bias for site in sites for use in site.uses if use.bias is not None]
    named = [t for t in sites[0].weight.graph.variables if is_bias(t.name)]
    return sorted(dict.fromkeys([*added, *named]), key=lambda t: t.node.serial)
