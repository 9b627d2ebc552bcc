"""BitFit: the biases of a model are trained, and nothing else (Ben Zaken et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...errors import GraphError
from ...graph import Tensor
from ...words.jsonable import jsonable
from ..site import Site
from ..thawing import Thawing
from .lora import is_bias


@jsonable
@dataclass(frozen=True)
class BitFit(Thawing):
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

    def trains(self, sites: Sequence[Site]) -> Sequence[Tensor]:
        added = [use.bias for site in sites for use in site.uses if use.bias is not None]
        return [*added, *(t for t in sites[0].weight.graph.variables if is_bias(t.name))]

    def lacks(self) -> GraphError:
        return GraphError("the model has no biases", hint="gw.adapters.NormTuning(), or LoRA()")
