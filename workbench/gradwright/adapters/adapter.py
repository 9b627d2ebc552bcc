"""Adapter: what a method of fine-tuning says of itself; targeting and edits are done for it.

A method is a frozen dataclass in a file of ``methods/``. It says which variables it needs at a
place, and what they do there; most say no more than ``variables``, ``shift`` and ``delta``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import GraphError
from ..graph import Graph, Node, Tensor
from ..op import Op
from ..ops.core.movement import cast_to
from ..session import Session
from ..spec import at_least_float32, promote
from ..words.named import Named
from .low_rank import LowRank
from .site import Place, Site, Use
from .targeting import Where, chosen

if TYPE_CHECKING:
    from ..models.reading import Before
    from .built import Built

Array = np.ndarray[Any, Any]
Leaves = Mapping[str, Tensor]
"""The variables of an adapter at a place, by the names that they have in its file."""


@dataclass(frozen=True)
class Leaf:
    """A variable that an adapter needs: its shape, and what it begins as.

    >>> Leaf((4, 8), 1.0).init
    1.0
    """

    shape: tuple[int, ...]
    init: Any = 0.0
    trainable: bool = True
    dtype: Any = None
    """None is that of the adapter."""
    is_state: bool = False
    """Whether it only serves training: it is not trained itself, and in no file of an adapter."""


class Adapter(Named):
    """Base of methods: a frozen dataclass of settings, and what it makes of a place."""

    kinds: ClassVar[frozenset[str]] = frozenset({"linear", "embedding", "conv"})
    """Of places that it can stand at."""
    is_weighable: ClassVar[bool] = True
    """Whether it may count in part."""
    is_followed: ClassVar[bool] = True
    """Whether it is put into graphs that generate as well."""
    reads_weights: ClassVar[bool] = False
    """Whether first values depend on the weight, so that ``prepare`` is called."""
    by_row: ClassVar[str] = ""
    """``"sum"`` or ``"product"``, if it is such a `LowRank`: rows of a batch can differ in it."""

    # -- where -----------------------------------------------------------------------------------

    def places(
        self, sites: Sequence[Site], where: Where, layers: Any = None, exclude: Where = None
    ) -> Sequence[Place]:
        """Return the places that are meant; raises GraphError for those it cannot stand at."""
        able = [s for s in sites if s.kind in self.kinds or s.kind == "tied"]
        try:
            found = chosen(able or sites, where, layers=layers, exclude=exclude)
        except GraphError:
            found = chosen(sites, where, layers=layers, exclude=exclude)  # and says so below
        for place in found:
            if place.kind == "tied":
                raise GraphError(
                    f"{place.name!r} is table and head at once: one adapter would change both",
                    facts=[f"it is read by {' and '.join(repr(u.node.name) for u in place.uses)}"],
                    hint=f"exclude={place.name!r}, or a model whose head is a weight of its own",
                )
            if place.kind not in self.kinds:
                raise GraphError(
                    f"{type(self).__name__} cannot stand at {place.name!r}, of kind {place.kind}",
                    need=", ".join(sorted(self.kinds)),
                )
        return found

    def thaws(self, places: Sequence[Any], sites: Sequence[Site]) -> Sequence[Tensor]:
        """Return variables of the model that are trained, too; ``sites`` are all it has."""
        return ()

    # -- variables -------------------------------------------------------------------------------

    def variables(self, place: Any) -> Mapping[str, Leaf]:
        """Return what it needs at a place, by the names of files."""
        raise NotImplementedError

    def shared(self, places: Sequence[Any]) -> Mapping[str, Leaf]:
        """Return what all its places read, beside their own."""
        return {}

    def common(self, places: Sequence[Any], p: Leaves) -> Leaves:
        """Return what is computed once for all places, of ``shared``; these read it beside."""
        return {}

    def surveyed(
        self, places: Sequence[Any], data: Any = None
    ) -> tuple[Adapter, Sequence[Any], Mapping[str, Mapping[str, Array]]]:
        """Return itself, its places and first values by place, as a look at all of them has it."""
        return self, places, {}

    def prepare(
        self, place: Any, w: Array, data: Any = None
    ) -> tuple[Mapping[str, Array], Array | None]:
        """Return first values, and the weight that takes the place of ``w`` [out, in, *kernel]."""
        return {}, None

    # -- what they do ----------------------------------------------------------------------------

    def shift(self, place: Any, use: Use, x: Any, p: Leaves) -> Tensor:
        """Return what is added to a layer's output."""
        raise NotImplementedError

    def apply(self, place: Any, use: Use, x: Any, y: Tensor, p: Leaves) -> Tensor:
        """Return the output of a layer, from its input and what it was."""
        return added(y, self.shift(place, use, x, p))

    def delta(self, place: Any, p: Leaves) -> Tensor:
        """Return what is added to a weight, [out, in, *kernel]."""
        raise GraphError(f"{type(self).__name__} is no sum with a weight")

    def changed(self, place: Any, w: Tensor, p: Leaves) -> Tensor:
        """Return a weight [out, in, *kernel] with the adapter in it.

        Merges compute it, and ops that do more than multiply read it.
        """
        return added(w, self.delta(place, p))

    def rebound(self, places: Sequence[Any], *, on: bool) -> Mapping[Node, Op]:
        """Return nodes that become another op where it is switched on, or off."""
        return {}

    def check(self, places: Sequence[Any]) -> None:
        """Refuse what has come of it, once all specs are known."""

    @property
    def is_additive(self) -> bool:
        """Whether outputs are sums with ``shift``."""
        return type(self).apply is Adapter.apply

    # -- rows that differ ------------------------------------------------------------------------

    def low_rank(self, place: Any, p: Mapping[str, Array]) -> LowRank:
        """Return what it does at a place; of a method that says ``by_row``."""
        raise NotImplementedError

    def row_rank(self, place: Any) -> int:
        """Return the rank of that."""
        return int(getattr(self, "r", 0))

    def multiplies_input(self, place: Any) -> bool:
        """Tell whether it multiplies what goes into a place, and not what comes out."""
        return False

    # -- what is trained -------------------------------------------------------------------------

    def penalty(self, adapted: Built) -> Tensor | None:
        """Return what is added to the loss."""
        return None

    def after_update(
        self, adapted: Built, grads: Mapping[Tensor, Tensor], new: Mapping[Tensor, Tensor]
    ) -> Mapping[Tensor, Tensor]:
        """Return what else a step sets, as a part of its graph.

        ``grads`` are its gradients, clipped, and ``new`` what it has made of parameters, which may
        be set to something else.
        """
        return {}

    def compacted(self, adapted: Built) -> tuple[Adapter, Mapping[str, Mapping[str, Array]]] | None:
        """Return settings and values without what training has switched off; None for nothing."""
        return None

    # -- generation ------------------------------------------------------------------------------

    def generating(self) -> Adapter:
        """Return what stands for it in graphs that generate."""
        return self

    def before(self, adapted: Built, graph: Graph) -> Before | None:
        """Return what stands before each row where ``graph`` generates, as values are now."""
        return None

    # -- merging ---------------------------------------------------------------------------------

    def merge(
        self, place: Any, w: Array, bias: Array | None, p: Mapping[str, Array]
    ) -> tuple[Array, Array | None] | None:
        """Return weight and bias with the adapter in them; None where that cannot be."""
        return computed(lambda t, q: self.changed(place, t, q), w, p), bias


def added(y: Tensor, shift: Tensor) -> Tensor:
    """Return y + shift in the dtype of y; halves are added as float32."""
    wide = promote(at_least_float32(y.dtype), shift.dtype)
    total: Tensor = cast_to(y.dtype, cast_to(wide, y) + cast_to(wide, shift))
    return total


def computed(formula: Any, w: Array, p: Mapping[str, Array]) -> Array:
    """Return what a formula of tensors gives for arrays, in the dtype of ``w``."""
    with Graph("merge", scratch=True) as g:
        leaves = {name: g.constant(array) for name, array in p.items()}
        y = cast_to(w.dtype, formula(g.constant(w), leaves))
    found: Array = Session(g, kernels="off").run(y)
    return found
