"""Where nodes were written: cell and line of a notebook, or a file; and the nodes of each cell."""

from __future__ import annotations

import linecache
from collections import Counter
from typing import Any

from gradwright import Graph, Node

SHOWN = 2
"""Lines of code above and below the one that is meant."""


def place_of(node: Node) -> dict[str, Any]:
    """Return where the user wrote a node: ``cell``, as the front end calls it, or ``file``.

    ``line`` counts from 1, ``where`` says it in words, ``code`` are pairs of number and text around
    the line, as far as the source is at hand.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> place_of(g.placeholder("x", ()).node)["line"] > 0
    True
    """
    if node.site is None:
        return {"cell": "", "file": "", "line": 0, "where": "", "code": []}
    code, line = node.site
    cell = "" if node.cell is None else node.cell.id
    return {
        "cell": cell,
        "file": "" if _of_cell(node) else code.co_filename,
        "line": line,
        "where": node.where,
        "code": _around(code.co_filename, line),
    }


def _of_cell(node: Node) -> bool:
    """Tell whether the line itself stands in the cell, and not in a file that the cell calls."""
    return node.where.startswith("cell ")


def _around(filename: str, line: int) -> list[list[Any]]:
    lines = linecache.getlines(filename)
    first = max(1, line - SHOWN)
    last = min(len(lines), line + SHOWN)
    return [[k, lines[k - 1].rstrip("\n")[:200]] for k in range(first, last + 1)]


def nodes_by_cell(graph: Graph) -> Counter[str]:
    """Return how many nodes each cell has built, by the front end's name of the cell.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> with g.cell("a"):
    ...     y = gw.exp(g.placeholder("x", ()))
    >>> dict(nodes_by_cell(g))
    {'a': 2}
    """
    return Counter(n.cell.id for n in graph.all_nodes if n.cell is not None and not n.derived)


def nodes_of_cell(graph: Graph, cell: str) -> list[str]:
    """Return the names of the nodes that a cell has built, in order."""
    return [n.name for n in graph.all_nodes if n.cell is not None and n.cell.id == cell]
