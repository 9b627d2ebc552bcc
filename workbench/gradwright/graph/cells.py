"""Notebook cells: running one again is an edit instead of an error.

What a cell builds again under the same name takes the place of what it built before. Later cells
that used it follow, as long as the name says the same thing: the user gave it, or the text of the
cell has not changed. Otherwise what they built is dropped, and using it asks for their cell to run.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import CycleError, GradwrightError
from ..shared import module_lock
from .edit import discard, drop_derived, reinfer, set_inputs, unlink
from .tensor import Node
from .walk import descendants

if TYPE_CHECKING:
    from .graph import Graph


class Cell(NamedTuple):
    """One execution of a cell: its id, the number of the run, and a hash of its text if known."""

    id: str
    run: int
    text: int | None = None


settling = module_lock()
"""Held while a cell's leftovers are looked for and removed: whoever looks at a graph may do so."""
_blocks: list[Cell] = []
_runs = itertools.count(1)
_latest: tuple[int, Cell | None] = (-1, None)


@contextlib.contextmanager
def cell_block(graph: Graph, name: str) -> Iterator[None]:
    """Treat the block as one execution of the cell ``name``."""
    _blocks.append(Cell(name, next(_runs)))
    try:
        yield
    finally:
        _blocks.pop()
        graph.settle()


def current_cell() -> Cell | None:
    """Return the running cell; None in scripts. Costs 0.1 us outside IPython."""
    global _latest
    if block := _blocks[-1:]:  # another thread may leave it meanwhile
        return block[0]
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    count = getattr(shell, "execution_count", None)
    if count is None:  # no IPython, or what stands in for it where there are no cells, as in Solara
        return None
    known = _latest
    if count != known[0]:
        known = _latest = count, _identify(shell, count)
    return known[1]


def _identify(shell: Any, count: int) -> Cell | None:
    """Return the front end's id of the cell; without one, the cell's text stands for it."""
    if hasattr(shell, "events"):
        shell.events.register("post_run_cell", _after_cell)  # which it keeps once
    parent = (shell.get_parent() if hasattr(shell, "get_parent") else None) or {}
    code = parent.get("content", {}).get("code")
    identity = parent.get("metadata", {}).get("cellId") or code
    return None if identity is None else Cell(str(identity), count, hash(code))


def _after_cell(result: Any) -> None:
    """Have those who draw in notebooks show an error of ours, below its traceback."""
    error = result.error_in_exec
    if isinstance(error, GradwrightError):
        from importlib.metadata import entry_points  # 24 ms, and only after an error

        for entry in entry_points(group="gradwright.notebooks"):
            entry.load()(error)


def supersede(old: Node, new: Node) -> None:
    """Put a node that a cell built again in the place of the one before."""
    graph = new.graph
    users = _outside(graph, [old])
    graph.revision += 1
    graph.gradients.clear()
    unlink(old)
    if not means_the_same(old, new):
        _drop(graph, users)
        drop_derived(graph)
        return
    mapping = dict(zip(old.outputs, new.outputs, strict=True))
    graph.updates.supersede(mapping)
    for user in users:
        set_inputs(user, tuple(None if t is None else mapping.get(t, t) for t in user.inputs))
    drop_derived(graph)
    order = descendants(users)
    if order is None:
        raise CycleError(f"re-running the cell would make {new.name!r} depend on itself")
    try:
        reinfer(graph, order)
    except GradwrightError:  # what no longer fits asks for its own cell to run
        _drop(graph, users)


def remove_stale(graph: Graph, stale: dict[str, Node]) -> None:
    """Remove what a re-run cell did not build again, and what later cells built on it."""
    graph.revision += 1
    graph.gradients.clear()
    _drop(graph, _outside(graph, stale.values()))
    for node in stale.values():
        unlink(node)
    discard(stale.values())
    stale.clear()
    drop_derived(graph)


def means_the_same(old: Node, new: Node) -> bool:
    """Tell whether ``new`` is what the name of ``old`` stands for, and not another thing."""
    same_text = old.cell is not None and new.cell is not None and old.cell.text == new.cell.text
    known = old.cell is not None and old.cell.text is not None
    return len(old.outputs) == len(new.outputs) and (new.named or (known and same_text))


def _outside(graph: Graph, nodes: Iterable[Node]) -> list[Node]:
    """Return the users of ``nodes`` that other cells built."""
    found = dict.fromkeys(u for n in nodes for t in n.outputs for u in t.uses)
    return [u for u in found if graph._stale.get(u.name) is not u and not u.derived]


def _drop(graph: Graph, nodes: Iterable[Node]) -> None:
    for node in descendants(nodes) or ():
        if graph._nodes.get(node.name) is node and not node.derived:
            discard([node])
