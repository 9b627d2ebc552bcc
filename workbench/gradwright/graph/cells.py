"""Which notebook cell is running, so that running it again is an edit instead of an error."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator
from typing import Any

Cell = tuple[str, int]
"""Identity of a cell and of its execution."""

_blocks: list[Cell] = []
_runs = itertools.count(1)
_latest: tuple[int, Cell | None] = (-1, None)


@contextlib.contextmanager
def cell_block(name: str) -> Iterator[None]:
    """Treat the block as one execution of the cell ``name``."""
    _blocks.append((name, next(_runs)))
    try:
        yield
    finally:
        _blocks.pop()


def current_cell() -> Cell | None:
    """Return the running cell; None in scripts. Costs 0.1 us outside IPython."""
    global _latest
    if _blocks:
        return _blocks[-1]
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return None
    count = shell.execution_count
    if count != _latest[0]:
        identity = _cell_id(shell)
        _latest = count, None if identity is None else (identity, count)
    return _latest[1]


def _cell_id(shell: Any) -> str | None:
    """Return the front end's id of the cell; without one, the cell's text stands for it."""
    parent = shell.get_parent() if hasattr(shell, "get_parent") else None
    metadata = (parent or {}).get("metadata", {})
    if "cellId" in metadata:
        return str(metadata["cellId"])
    code = (parent or {}).get("content", {}).get("code")
    return None if code is None else f"text:{hash(code)}"
