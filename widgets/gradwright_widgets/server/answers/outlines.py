"""The graphs of the latest files: a page draws one, opens nodes of it, and asks what would fit."""

from __future__ import annotations

from gradwright.formats.registry import Outline, find
from gradwright.formats.source import naming
from gradwright.shared import Bounded

from ..refused import RefusedError
from .asked import Asked

_OUTLINES = Bounded[Outline](2)


def outlined(asked: Asked, k: int = 0) -> Outline:
    """Return the graph of a file; raises RefusedError where the format has none."""
    key = asked.files[k], asked.stamps[k]
    found = _OUTLINES.find(key)
    if found is None:
        source = asked.source(k)
        format = find(source)
        if format.outline is None:
            raise RefusedError(
                422, f"{format.title} holds no graph", code="no-graph", hint=format.use
            )
        with naming(source.name):
            found = format.outline(source)
        _OUTLINES.keep(key, found)
    return found
