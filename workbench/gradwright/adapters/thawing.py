"""Thawing: methods that add nothing to a model, and train variables that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import GraphError
from ..graph import Tensor
from .adapter import Adapter, Leaf
from .site import Place, Site
from .targeting import Where, chosen


class Thawing(Adapter):
    """Base of methods whose places are variables by their names; ``kinds`` has the one kind.

    Disabling and merging are nothing: ``remove`` leaves what was trained, ``state`` holds it.
    """

    def trains(self, sites: Sequence[Site]) -> Sequence[Tensor]:
        """Return the variables that the method means, of a graph that has these sites."""
        raise NotImplementedError

    def lacks(self) -> GraphError:
        """Return what to raise where there are none."""
        raise NotImplementedError

    def places(
        self, sites: Sequence[Site], where: Where, layers: Any = None, exclude: Where = None
    ) -> Sequence[Place]:
        """Return the variables that are meant, as places; raises GraphError for none."""
        (kind,) = self.kinds
        found = [Place(name=t.name, kind=kind, dtype=t.dtype) for t in self._ordered(sites)]
        if not found:
            raise self.lacks()
        return chosen(found, where, layers=layers, exclude=exclude)

    def thaws(self, places: Sequence[Place], sites: Sequence[Site]) -> Sequence[Tensor]:
        """Return the variables of places."""
        names = {p.name for p in places}
        return [t for t in self._ordered(sites) if t.name in names]

    def variables(self, place: Place) -> Mapping[str, Leaf]:
        """Return none: nothing is added."""
        return {}

    def _ordered(self, sites: Sequence[Site]) -> list[Tensor]:
        found = dict.fromkeys(self.trains(sites)) if sites else {}
        return sorted(found, key=lambda t: t.node.serial)
