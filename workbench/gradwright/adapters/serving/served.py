"""Served: many adapters on one base, each row of a batch with its own.

    files ──read──▶ memory: LRU by count and bytes ──copy──▶ slots of the graph: LRU ──▶ rows

A row whose adapter stands in a slot costs nothing but its product; one whose adapter is in memory,
a copy of it. What a run reads stays in its slot until the run has ended.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Generator, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import FeedError, GraphError, ShapeError
from ...graph import Graph, Tensor, member
from ...models.completion import Completion, Piece
from ...models.generation import Generation
from ...session import Session
from ...words.spelling import meant
from ..adapted import Adapted
from ..adapter import Adapter
from ..chain import adapters_of
from ..low_rank import LowRank
from ..site import Site
from .cache import Cache, Counts
from .per_row import PerRow
from .rows import Rows, chosen, fed
from .slots import Slots
from .sources import Source, source_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Placed:
    """A slot that holds an adapter, and whether that multiplies outputs."""

    slot: int
    multiplies: bool


class Served:
    """Adapters by name, and the slots of a graph that they are read from; ``serve`` makes one.

    Any number of threads may ask for rows, add, remove and pin at once. ``memory`` and ``slots``
    are caches: they tell ``counts`` of hits, misses and evictions, and what is ``pinned``.

    >>> import gradwright as gw
    >>> import numpy as np
    >>> g = gw.Graph()
    >>> y = gw.identity(g.placeholder("x", ("B", 2)) @ g.variable("w", (2, 1), init=1.0), name="y")
    >>> a, b = np.ones((1, 2), "f4"), np.ones((1, 1), "f4")
    >>> served = gw.adapters.serve(g, slots=2, r=1, where="w")
    >>> for name, n in (("ten", 10), ("hundred", 100)):
    ...     served.add(name, (gw.adapters.LoRA(r=1, alpha=1), {"w/lora_A": a, "w/lora_B": n * b}))
    >>> served.output({"x": np.ones((3, 2))}, "y", rows=["ten", "hundred", None])["y"].ravel()
    array([ 22., 202.,   2.], dtype=float32)
    """

    def __init__(
        self, model: Any, adapted: Adapted, *, most: int = 64, most_bytes: int | None = None
    ) -> None:
        assert isinstance(adapted.adapter, PerRow)
        self.model, self.adapted, self.method = model, adapted, adapted.adapter
        self.graph: Graph = adapted.graph
        self._sources: dict[str, Source] = {}
        self._opened: dict[str, tuple[Hashable, Any, Mapping[str, Array]]] = {}
        self._places = {place.name: place for place in adapted.places if isinstance(place, Site)}
        self._memory = Slots(adapted)
        self._free = list(range(self.method.slots))
        self.memory: Cache[Mapping[str, LowRank]] = Cache(
            self._read, most, most_bytes, size=self._size, stamp=self._stamp, what="adapters"
        )
        self.slots: Cache[_Placed] = Cache(
            self._place, self.method.slots, stamp=self._stamp, gone=self._gone, what="slots"
        )
        self.session = Session(self.graph)
        self._generation = model if isinstance(model, Generation) else None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return (
            f"<Served: {len(self._sources)} adapters, {len(self.memory)} of {self.memory.most} in "
            f"memory, {len(self.slots)} of {self.method.slots} slots in use>"
        )

    # -- which there are -------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """The names of all adapters."""
        return list(self._sources)

    def add(self, name: str, source: Any) -> None:
        """Serve an adapter: a path, an ``Adapted`` as it is now, or a method and its state.

        Nothing is read before a row asks for it. Raises GraphError for a name that is taken, and
        for what is none.
        """
        if not isinstance(name, str):
            raise GraphError(f"{name!r} is no name of an adapter", need="text")
        made = source_of(source)
        with self._lock:
            if name in self._sources:
                raise GraphError(
                    f"{name!r} is served already",
                    facts=[repr(self._sources[name])],
                    hint=f"served.remove({name!r}) first",
                )
            self._sources[name] = made

    def remove(self, name: str) -> None:
        """Serve an adapter no more; rows that have it now keep it until they have ended."""
        with self._lock:
            self._check_known(name)
            del self._sources[name]
            self._opened.pop(name, None)
        self.slots.forget(name)
        self.memory.forget(name)

    def pin(self, name: str) -> None:
        """Keep an adapter in its slot until it is unpinned."""
        self._check_known(name)
        self.slots.pin(name)

    def unpin(self, name: str) -> None:
        """Let an adapter leave its slot when its time comes."""
        self.slots.unpin(name)

    @property
    def counts(self) -> dict[str, Counts]:
        """Hits, misses and evictions of slots and of memory."""
        return {"slots": self.slots.counts, "memory": self.memory.counts}

    def close(self) -> None:
        """Take the slots out of the graph, which is then what it was."""
        self.session.close()
        self.adapted.remove()

    # -- use -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def rows(self, rows: Rows, n: int | None = None) -> Iterator[dict[str, Array]]:
        """Have the adapters of rows in slots, and give what the graph is fed, until the block ends.

        A row has one adapter by name, several, some with weights, or None: the base. One entry for
        all of ``n`` rows is enough. Raises FeedError for names that are not known, and for more
        different adapters than there are slots.

            with served.rows(["a", None]) as feeds:
                session.run(y, {"x": x, **feeds})
        """
        method = self.method
        listed = chosen(rows, n, self.names, method.per_row)
        wanted = list(dict.fromkeys(name for row in listed for name in row))
        if len(wanted) > method.slots:
            raise FeedError(
                f"rows have {len(wanted)} different adapters, and there are {method.slots} slots",
                hint=f"fewer rows at a time, or gw.adapters.serve(..., slots={len(wanted)})",
            )
        self._check_on(wanted)
        with self.slots.holding(wanted) as placed:
            held = dict(zip(wanted, placed, strict=True))
            for i, row in enumerate(listed):
                alone = [*row.values()] == [1.0]
                if not alone and (product := [k for k in row if held[k].multiplies]):
                    raise FeedError(
                        f"row {i} weighs {product[0]!r}, which multiplies what a layer gives",
                        need="that adapter alone, with weight 1",
                    )
            slots = {name: p.slot for name, p in held.items()}
            numbers, weights = fed(listed, slots, method.slots, method.per_row)
            yield {method.rows: numbers, method.weights: weights}

    def run(
        self,
        fetches: Any,
        feeds: Mapping[Any, Any],
        *,
        rows: Rows,
        session: Session | None = None,
        **settings: Any,
    ) -> Any:
        """Return what ``Session.run`` does, each row with its adapter."""
        with self.rows(rows, self._count(feeds)) as more:
            return (session or self.session).run(fetches, {**feeds, **more}, **settings)

    def output(self, feeds: Mapping[Any, Any], *fetches: Any, rows: Rows) -> dict[str, Array]:
        """Return what ``Graph.output`` does, each row with its adapter."""
        with self.rows(rows, self._count(feeds)) as more:
            return self.graph.output({**feeds, **more}, *fetches)

    def generate(
        self, prompts: Any, max_new_tokens: int = 100, *, rows: Rows, **settings: Any
    ) -> list[Completion]:
        """Return what ``Generation.generate`` does, each row with its adapter."""
        generation = self.generation
        with self.rows(rows, len(generation.rows(prompts, 0))) as more:
            return generation.generate(prompts, max_new_tokens, feeds=more, **settings)

    def stream(
        self, prompts: Any, max_new_tokens: int = 100, *, rows: Rows, **settings: Any
    ) -> Generator[Piece, None, None]:
        """Yield what ``Generation.stream`` does; slots are held until it ends, or is closed."""
        generation = self.generation
        with self.rows(rows, len(generation.rows(prompts, 0))) as more:
            yield from generation.stream(prompts, max_new_tokens, feeds=more, **settings)

    @property
    def generation(self) -> Generation:
        """The generation of the model, made when first asked for."""
        with self._lock:
            if self._generation is None:
                if not hasattr(self.model, "generation"):
                    raise GraphError(
                        f"a {type(self.model).__name__} does not generate",
                        hint="gw.adapters.serve(decoder) or serve(generation)",
                    )
                self._generation = self.model.generation()
            return self._generation

    def _count(self, feeds: Mapping[Any, Any]) -> int | None:
        """Return how many rows are fed, as an axis of a feed that is as long says."""
        size = self.graph[self.method.rows].shape[0]
        for key, array in feeds.items():
            t: Tensor = member(self.graph, key)
            shape = np.shape(array)
            if size in t.shape and len(shape) == t.rank:
                return int(shape[t.shape.index(size)])
        return None

    # -- inside ----------------------------------------------------------------------------------

    def _check_on(self, wanted: Collection[str]) -> None:
        """Refuse rows that would silently have no adapter, or one too many."""
        if wanted and not self.adapted.is_enabled:
            raise GraphError(
                f"{self.adapted.name!r} is disabled, so rows have no adapters",
                facts=[f"they ask for {', '.join(map(repr, wanted))}"],
                hint="served.adapted.enable()",
            )
        for name, other in adapters_of(self.graph).named.items():
            if other.is_merged:
                raise GraphError(
                    f"{name!r} is merged into the weights, so each row would have it, too",
                    hint=f"gw.adapters.unmerge(gw.adapters.of(graph)[{name!r}])",
                )

    def _check_known(self, name: str) -> None:
        if name not in self._sources:
            close = meant(name, self.names)
            hint = f"did you mean {close!r}?" if close else ""
            raise GraphError(f"no adapter is called {name!r}", hint=hint)

    def _source(self, name: str) -> Source:
        found = self._sources.get(name)
        if found is None:  # removed meanwhile
            raise GraphError(f"{name!r} is not served any more")
        return found

    def _stamp(self, name: Any) -> Hashable:
        return self._source(name).stamp()

    def _state(self, name: str) -> tuple[Hashable, Any, Mapping[str, Array]]:
        """Return stamp, method and arrays; of files they are mapped, and not read."""
        source = self._source(name)
        stamp = source.stamp()
        return (stamp, *source.read(self.model))

    def _size(self, name: Any) -> int:
        """Return how many bytes an adapter takes in memory."""
        opened = self._opened[name] = self._state(name)
        _, method, state = opened
        names = {key.rpartition("/")[0] for key in state} & self._places.keys()
        sizes = ((place, method.row_rank(place)) for place in map(self._places.get, names) if place)
        each = (r * (p.n_in + p.n_out) + p.n_out * (method.by_row == "product") for p, r in sizes)
        total: int = 4 * sum(each)
        return total

    def _read(self, name: Any) -> Mapping[str, LowRank]:
        """Return an adapter as slots take it; refuse what does not fit."""
        opened = self._opened.pop(name, None)
        if opened is None or opened[0] != self._stamp(name):
            opened = self._state(name)
        _, method, state = opened
        leaves: dict[str, dict[str, Array]] = {}
        for key, array in state.items():
            place, _, leaf = key.rpartition("/")
            leaves.setdefault(place, {})[leaf] = array
        shared = leaves.pop("", {})
        if not method.by_row:
            raise GraphError(
                f"{name!r} is {type(method).__name__}, and rows cannot differ in that",
                need="a product of thin matrices beside a weight, such as LoRA",
                hint="gw.adapters.to_lora, or gw.adapters.load and one adapter at a time",
            )
        if foreign := sorted(leaves.keys() - self._places.keys()):
            raise GraphError(
                f"{name!r} changes {', '.join(map(repr, foreign[:4]))}, where there is no slot",
                facts=[f"slots are at {', '.join(map(repr, list(self._places)[:6]))} ..."],
                hint="gw.adapters.serve(..., where=...) with these places, too",
            )
        return {
            place: self._part(name, method, self._places[place], {**held, **shared})
            for place, held in leaves.items()
        }

    def _part(self, name: str, method: Adapter, place: Site, p: Mapping[str, Array]) -> LowRank:
        """Return what an adapter does at a place, copied as slots take it."""
        wanted = {n: v.shape for n, v in method.variables(place).items() if not v.is_state}
        if lacking := wanted.keys() - p.keys():
            raise GraphError(
                f"{name!r} has no {', '.join(sorted(lacking))} at {place.name!r}",
                need=", ".join(f"{leaf} {list(shape)}" for leaf, shape in wanted.items()),
            )
        other = [f"{n} is {list(p[n].shape)}" for n, s in wanted.items() if p[n].shape != s]
        if other:
            raise ShapeError(
                f"{name!r} is of another model: {place.name!r} is {list(place.shape)}",
                facts=other,
                need=", ".join(f"{leaf} {list(shape)}" for leaf, shape in wanted.items()),
            )
        try:
            return self._memory.fitted(place.name, method.low_rank(place, p))
        except GraphError as error:
            raise type(error)(f"{name!r}: {error.problem}", hint=error.hint) from None

    def _place(self, name: Any) -> _Placed:
        """Write an adapter into a slot that is free."""
        slot = self._free.pop()
        try:
            with self.memory.holding([name]) as (held,):
                self._memory.write(slot, held)
                multiplies = any(part.multiplies for part in held.values())
        except BaseException:
            self._free.append(slot)
            raise
        return _Placed(slot, multiplies)

    def _gone(self, name: Any, placed: _Placed) -> None:
        self._free.append(placed.slot)
