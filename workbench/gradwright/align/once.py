"""Once: tensors that are made for a graph once, and found again by what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..graph import Graph, Tensor
from ..graph.cells import current_cell

NOTE = "align"


def once(graph: Graph, key: str, make: Callable[[], Sequence[Tensor]]) -> list[Tensor]:
    """Return the tensors that were made under a key, or what ``make`` makes now.

    Names are noted with the graph, and so in its archives. A notebook cell that runs again makes
    its tensors again, for those of its run before go.
    """
    noted = noted_of(graph)
    found = [graph.get(str(name)) for name in noted.get(key, ())]
    known = [t for t in found if t is not None and not _is_stale(t)]
    if not known or len(known) < len(found):
        known = list(make())
        noted[key] = [t.name for t in known]
    return known


def noted_of(graph: Graph) -> dict[str, list[str]]:
    """Return the names that are noted with a graph, by key; none where an archive has others."""
    noted = graph.notes.get(NOTE)
    if isinstance(noted, dict) and all(isinstance(names, list) for names in noted.values()):
        return noted
    made: dict[str, list[str]] = {}
    graph.notes[NOTE] = made
    return made


def _is_stale(t: Tensor) -> bool:
    """Tell whether a run before of the present cell has made a tensor."""
    cell, made = current_cell(), t.node.cell
    return cell is not None and made is not None and made.id == cell.id and made != cell
