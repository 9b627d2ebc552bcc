"""What adapters of a graph have to do with its training: penalties, and what a step sets for them.

It is a part of the graph of a step, so that nobody calls it, and a step that is skipped skips it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...graph import Graph, Tensor

if TYPE_CHECKING:
    from ...adapters import Adapted


def penalties(graph: Graph) -> dict[str, Tensor]:
    """Return what is added to the losses, by the name it is recorded with."""
    return {
        f"{name}_penalty": one.penalty
        for name, one in _active(graph).items()
        if one.penalty is not None and one.parameters
    }


def after_update(
    graph: Graph, grads: Mapping[Tensor, Tensor], new: Mapping[Tensor, Tensor]
) -> dict[Tensor, Tensor]:
    """Return what else a step sets, or sets otherwise than optimizers have moved it."""
    found: dict[Tensor, Tensor] = {}
    for one in _active(graph).values():
        found |= one.adapter.after_update(one, grads, new)
    return found


def asleep(graph: Graph) -> set[Tensor]:
    """Return the variables of adapters that are switched off, which no step trains."""
    return {t for one in _all(graph).values() if not one.is_enabled for t in one.owned}


def owned(graph: Graph) -> set[Tensor]:
    """Return the variables of all adapters."""
    return {t for one in _all(graph).values() for t in one.owned}


def _active(graph: Graph) -> dict[str, Adapted]:
    return {name: one for name, one in _all(graph).items() if one.is_enabled}


def _all(graph: Graph) -> dict[str, Adapted]:
    if "adapters" not in graph.notes:  # of most graphs, for which the room need not be imported
        return {}
    from ...adapters import of

    return of(graph)
