"""Generation all of which stands in the graph: caches are its variables, and it draws the token.

So it can be drawn, stepped through and saved as a whole. The graph is built once, for ids of any
length from a position on; each run updates the caches, whose room is fixed. `Generation` keeps
keys and values outside, takes rows of different lengths, and is faster: a variable of the graph is
copied whole when a token is written into it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..errors import GraphError, ShapeError
from ..graph import Graph, Tensor
from ..op import find_op
from ..session import Session

Array = np.ndarray[Any, Any]


class KvCache:
    """Room for the keys and values of one attention layer, in two variables of the graph.

    key: f32[batch, heads, capacity, features], value likewise; neither is trainable.

    >>> import gradwright as gw
    >>> from gradwright.models import KvCache
    >>> g = gw.Graph()
    >>> at, k = g.placeholder("at", (), "int64"), g.placeholder("k", (1, 2, "T", 4))
    >>> cache = KvCache(g, "layer0", batch=1, heads=2, capacity=64, features=4)
    >>> keys, values = cache.append(k, k, at)
    >>> keys.shape, [t.name for t in cache.updates]
    ((1, 2, 64, 4), ['layer0/key_cache', 'layer0/value_cache'])
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        *,
        batch: int,
        heads: int,
        capacity: int,
        features: int,
        value_features: int | None = None,
        dtype: DTypeLike = "float32",
    ) -> None:
        room = batch, heads, capacity
        with graph.scope(name):
            self.key, self.value = (
                graph.variable(label, (*room, n), init=0.0, dtype=dtype, trainable=False)
                for label, n in (
                    ("key_cache", features),
                    ("value_cache", features if value_features is None else value_features),
                )
            )
        self.capacity = capacity
        self.updates: dict[Tensor, Tensor] = {}
        """What a run has to commit for the next one to find what was appended."""
        self.filler: object = None
        """The generation that fills the room now: another one would write over its past."""

    def append(self, key: Tensor, value: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Return the whole caches with new positions written from ``position`` (i64[]) on."""
        if self.updates:
            raise GraphError(
                "this cache is written already", need="one layer each", hint="make another KvCache"
            )
        write = find_op("kv_cache_update")()
        keys, values = write(self.key, self.value, key, value, position)
        self.updates = {self.key: keys, self.value: values}
        return keys, values


def generate(
    session: Session,
    fetches: Tensor | Sequence[Tensor],
    prompt: Any,
    n: int,
    *,
    ids: Tensor,
    position: Tensor,
    caches: Sequence[KvCache],
    training: bool = False,
) -> Iterator[Any]:
    """Run the prompt, then token after token, and yield what is fetched, ``n`` times.

    ``fetches`` is the next token, i64[B], or a list that begins with it. ``ids`` is the placeholder
    i64[B, T] for tokens, ``position``, i64[], says where the first of them stands; the prompt is
    fed as i64[B, T] at 0. Two plans are compiled, however many tokens there are. Raises ShapeError
    at once if prompt and tokens do not fit into the caches, GraphError for a cache that nothing is
    written to. Caches belong to the graph, so one generation fills them at a time: where a second
    one begins, the first raises GraphError when it goes on.

    >>> import gradwright as gw, numpy as np
    >>> from gradwright.models import generate
    >>> g = gw.Graph()
    >>> ids = g.placeholder("ids", (1, "T"), "int64")
    >>> at = g.placeholder("at", (), "int64")
    >>> token = ids[:, -1] * 2 + at
    >>> with gw.Session(g) as session:
    ...     run = generate(session, token, [[1, 2]], 3, ids=ids, position=at, caches=[])
    ...     [int(t[0]) for t in run], len(session.plan_cache)
    ([4, 10, 23], 2)
    """
    try:
        tokens = np.asarray(prompt)
    except ValueError:  # rows of different lengths
        tokens = np.empty(0)
    if tokens.ndim != 2 or not tokens.shape[1]:
        raise ShapeError(
            "a prompt is a row of tokens per sample, all of one length", need="i64[B, T], T >= 1"
        )
    if n < 0:
        raise GraphError(f"{n} tokens cannot be generated", need="0 or more")
    for cache in caches:
        if not cache.updates:
            raise GraphError(
                f"nothing is written to the cache of {cache.key.name!r}",
                hint="cache.append(key, value, position)",
            )
    room = min((cache.capacity for cache in caches), default=tokens.shape[1] + n)
    if tokens.shape[1] + n - 1 > room:
        raise ShapeError(
            f"{tokens.shape[1]} tokens of prompt and {n} more do not fit into {room}",
            hint="KvCache(..., capacity=...)",
        )
    return _generated(session, fetches, tokens, n, ids, position, caches, training)


def _generated(
    session: Session,
    fetches: Tensor | Sequence[Tensor],
    tokens: Array,
    n: int,
    ids: Tensor,
    position: Tensor,
    caches: Sequence[KvCache],
    training: bool,
) -> Iterator[Any]:
    """Yield what is fetched, step by step."""
    updates = {k: v for cache in caches for k, v in cache.updates.items()}
    own, at = object(), 0
    for cache in caches:
        cache.filler = own
    for _ in range(n):
        if any(cache.filler is not own for cache in caches):
            raise GraphError(
                "another generation has begun to fill these caches",
                need="one at a time",
                hint="finish the first, join the prompts in a batch, or build a graph for each",
            )
        feeds = {ids: tokens, position: at}
        found = session.run(fetches, feeds, updates, training=training)
        yield found
        at += tokens.shape[1]
        token = found if isinstance(fetches, Tensor) else found[0]
        tokens = np.reshape(token, (-1, 1))
