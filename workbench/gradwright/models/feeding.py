"""What rows of a generation feed beside their tokens, and what a graph makes of that once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ..errors import FeedError
from ..graph import Graph
from ..graph.walk import placeholders
from ..session import Session

Array = np.ndarray[Any, Any]
ENCODED, ENCODING = "encoded", "encoding"
"""A placeholder that is read with every token, and the tensor that is computed for it once."""


class Feeding:
    """Checks what rows feed to placeholders beside those of every generation.

    Args:
        graph: that generates.
        own: names of the placeholders that the loop feeds.

    >>> import gradwright as gw
    >>> from gradwright.models.feeding import Feeding
    >>> g = gw.Graph()
    >>> x, seen = g.placeholder("x", ("B", 4)), g.placeholder("encoded", ("B",))
    >>> total = gw.sum(x, axis=-1, name="encoding")
    >>> feeding, session = Feeding(g, ()), gw.Session(g)
    >>> feeding.encoded(session, feeding.checked({"x": [[1, 2, 3, 4]]}, 1))
    {'encoded': array([10.], dtype=float32)}
    """

    def __init__(self, graph: Graph, own: Collection[str]) -> None:
        self._graph, self._own = graph, frozenset({*own, ENCODED})
        self._encodes = ENCODED in graph
        needed = placeholders([graph[ENCODING]]) if self._encodes else []
        self._read = frozenset(t.name for t in needed)
        """What is encoded, and read no more after that."""

    def checked(self, feeds: Mapping[str, Any], rows: int) -> dict[str, Array]:
        """Return what rows feed as arrays; raises FeedError for what the graph does not take."""
        if not feeds and not self._read:
            return {}
        taken = {t.name for t in self._graph.placeholders} - self._own  # a graph may gain some
        if unknown := sorted(feeds.keys() - taken):
            raise FeedError(
                f"rows feed nothing to {', '.join(map(repr, unknown))}",
                need=", ".join(sorted(taken)) or "a graph with placeholders beside its own",
            )
        if missing := sorted(self._read - feeds.keys()):
            raise FeedError(
                f"rows feed no {', '.join(missing)}",
                need=f"one of {rows} rows each",
                hint=f"generate(prompts, feeds={{{missing[0]!r}: array}})",
            )
        given = {name: np.asarray(value) for name, value in feeds.items()}
        for name, array in given.items():
            if not array.ndim or len(array) != rows:
                raise FeedError(
                    f"{name} is given as {array.shape}", need=f"one of {rows} rows each"
                )
        return given

    def encoded(self, session: Session, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return what is fed with every token: in the place of what is encoded, what it became."""
        if not self._encodes:
            return dict(feeds)
        made = session.run(ENCODING, {name: feeds[name] for name in self._read})
        return {ENCODED: made, **{n: x for n, x in feeds.items() if n not in self._read}}
