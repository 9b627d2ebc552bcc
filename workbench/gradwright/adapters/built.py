"""Built: what an adapter is made of in a graph, and the edits that put it there and take it out."""

from __future__ import annotations

import contextlib
import functools
import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..errors import GraphError
from ..graph import Edit, Graph, Node, Tensor, coerce
from ..graph.cells import current_cell
from ..init import Initializer
from ..ops.core.movement import cast_to
from ..spec import TensorSpec, at_least_float32, is_floating
from .adapter import Adapter, Leaf, Leaves, added
from .chain import Adapters, Chain, Link, adapters_of
from .site import Place, Use

if TYPE_CHECKING:
    from .adapted import Adapted

Array = np.ndarray[Any, Any]


class Built:
    """The variables of an adapter, and the nodes that they are read by.

    Variables stay when nodes are built anew, as they are when a weight is set for the first time.
    """

    def __init__(
        self,
        graph: Graph,
        adapter: Adapter,
        name: str,
        places: Sequence[Place],
        dtype: Any,
        seed: int,
    ) -> None:
        self.graph, self.adapter, self.name = graph, adapter, name
        self.places: tuple[Place, ...] = tuple(places)
        self.variables: dict[str, dict[str, Tensor]] = {}
        """By place, its variables by the names that they have in files."""
        self.shared: dict[str, Tensor] = {}
        """Variables that all places read."""
        self.thawed: tuple[Tensor, ...] = ()
        """Variables of the model that are trained, too."""
        self.penalty: Tensor | None = None
        """What trainers add to the loss."""
        self._apart: list[Node] = []
        """Nodes that stand behind no layer."""
        self._common: Leaves = {}
        """What is computed once for all places."""
        self.cell = current_cell()
        self.dtype, self._seed = dtype, seed
        self._weight: Tensor | None = None
        self._passing: frozenset[Tensor] = frozenset()
        """Variables that only serve training."""
        self.replaced: dict[str, Array] = {}
        """What the model's own values were where others took their place; ``remove`` undoes it."""
        self.originals: dict[str, Array] = {}
        """What weights were before it was merged."""
        self.is_loaded = False
        """Whether it came with an archive, which has none of these two."""
        self.model: Any = graph
        """What it was added to: a model, or its graph."""
        self.is_on = False
        """Whether the graph is wired so that it counts."""
        self._following: list[weakref.ref[Adapted]] = []
        self.unfollow: Callable[[], None] | None = None

    @property
    def own(self) -> list[Tensor]:
        """All its variables, those that all places read behind the others."""
        return [t for p in (*self.variables.values(), self.shared) for t in p.values()]

    @property
    def followers(self) -> list[Adapted]:
        """The same adapter in graphs that generate, as long as somebody holds these."""
        return [one for ref in self._following if (one := ref()) is not None]

    def followed_by(self, one: Adapted) -> None:
        """Have the same adapter of another graph switched and weighed with this one."""
        self._following = [*(weakref.ref(other) for other in self.followers), weakref.ref(one)]

    @property
    def nodes_apart(self) -> list[Node]:
        """Its nodes that stand behind no layer."""
        return self._apart

    def put(self, values: Mapping[str, Mapping[str, Array]], bases: Mapping[str, Array]) -> None:
        """Put it into its graph, with first values, and weights that these have replaced."""
        known = adapters_of(self.graph)
        with self._edit() as edit:
            known.named[self.name] = cast("Adapted", self)
            known.active.add(self.name)
            self._declare(values)
            self._build(edit)
        self.replace(bases)
        known.freeze(self.graph)

    def replace(self, values: Mapping[str, Array]) -> None:
        """Put values in the place of the model's own until it is removed, all or nothing."""
        self.replaced = self._swapped(values) | self.replaced

    def _swapped(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Put values in the place of those of variables, all or nothing; returns what they were."""
        held = self.graph.values
        own = {name: held[name].copy() for name in values}
        held.commit({n: _as_held(own[n], a, n) for n, a in values.items()})
        adapters_of(self.graph).swapped += [(self, n) for n in values]
        return own

    def _check_last(self, values: Mapping[str, Array]) -> None:
        """Refuse to give values back where another adapter has put others there since."""
        known = adapters_of(self.graph)
        last = {n: one for one, n in known.swapped}
        for n in values:
            if (other := last.get(n, self)) is not self:
                is_there = known.named.get(other.name) is other
                raise GraphError(
                    f"what {n!r} was before {self.name!r} came would undo {other.name!r}, too",
                    facts=[f"{other.name!r} has changed it since"],
                    hint=f"unmerge or remove {other.name!r} first" if is_there else "",
                )

    def _give_back(self, values: Mapping[str, Array]) -> None:
        """Put back what ``_swapped`` returned; raises GraphError, as ``_check_last`` does."""
        self._check_last(values)
        self.graph.values.commit(values)
        swapped = adapters_of(self.graph).swapped
        for n in values:
            swapped.reverse()
            swapped.remove((self, n))  # the last one
            swapped.reverse()

    @contextlib.contextmanager
    def _edit(self) -> Iterator[Edit]:
        """Edit graph, chains and this, all or nothing."""
        held = dict(vars(self))
        try:
            with adapters_of(self.graph).edit(self.graph) as edit:
                yield edit
        except BaseException:
            vars(self).clear()
            vars(self).update(held)
            raise

    def _declare(self, values: Mapping[str, Mapping[str, Array]]) -> None:
        """Make its variables, with first values where ``values`` has them."""
        seeds = iter(range(self._seed, 1 << 32))
        for place in self.places:
            leaves = self.adapter.variables(place)
            given = values.get(place.name, {})
            self.variables[place.name] = {
                name: self._variable(
                    f"{place.name}/{self.name}", name, leaf, given, next(seeds), place
                )
                for name, leaf in leaves.items()
            }
        shared = self.adapter.shared(self.places)
        self.shared = {
            name: self._variable(self.name, name, leaf, values.get("", {}), next(seeds), None)
            for name, leaf in shared.items()
        }

    def _undeclare(self, edit: Edit) -> None:
        """Remove its variables."""
        edit.remove(*self.own)
        self.variables, self.shared, self._passing = {}, {}, frozenset()

    def _variable(
        self, scope: str, name: str, leaf: Leaf, given: Mapping[str, Array], seed: int, place: Any
    ) -> Tensor:
        dtype = self.dtype if leaf.dtype is None else leaf.dtype
        if dtype is None:
            dtype = at_least_float32(getattr(place or self.places[0], "dtype", np.dtype("float32")))
        init = given.get(name, leaf.init)
        if isinstance(init, Initializer):
            init = _seeded(init, seed)
        with self.graph._at_top(), self.graph.scope(scope):
            trained = leaf.trainable and not leaf.is_state
            t = self.graph.variable(name, leaf.shape, init=init, dtype=dtype, trainable=trained)
        if leaf.is_state:
            self._passing |= {t}
        return t

    def _build(self, edit: Edit, stood: Mapping[Any, int] | None = None) -> None:
        """Put it behind the layers of its places, after the adapters that are there.

        ``stood`` says where in its chains it stood before, if it did.
        """
        known, graph = adapters_of(self.graph), self.graph
        n = len(graph._nodes)
        with graph._at_top(), graph.scope(self.name):
            self._common = self.adapter.common(self.places, self.shared)
        apart = list(graph._nodes.values())[n:]
        places = []
        for place in self.places:
            with graph._at_top(), graph.scope(place.name):
                for i in range(len(place.uses)):
                    place = self._link(edit, known, place, i, stood or {})
                places.append(place)
        self.places = tuple(places)
        known.connect(edit)
        edit.checks.append(functools.partial(self.adapter.check, self.places))
        n = len(graph._nodes)
        with graph._at_top(), graph.scope(self.name):
            self.penalty = self.adapter.penalty(self)
        self._apart = [*apart, *list(graph._nodes.values())[n:]]

    def _link(
        self, edit: Edit, known: Adapters, place: Place, i: int, stood: Mapping[Any, int]
    ) -> Place:
        """Add a link to the chain of one use of a place; returns the place as it is then."""
        use, graph = place.uses[i], self.graph
        handle = use.output
        key = (use.node, use.input) if handle is None else handle
        chain = known.chains.get(key)
        if chain is None:
            if handle is None:
                base = use.weight
            else:
                base = edit.wrap(handle, "base", lambda t: t)
                use = replace(use, node=base.node) if use.node is handle.node else use
                place = replace(place, uses=(*place.uses[:i], use, *place.uses[i + 1 :]))
            chain = known.chains[key] = Chain(base, handle, use)
        at = stood.get(key, len(chain.links))
        before, n = chain.before(at, known.active), len(graph._nodes)
        with graph.scope(self.name):
            after = self._made(place, use, before)
        nodes = list(graph._nodes.values())[n:]
        chain.links.insert(at, Link(self.name, before, after, nodes))
        return place

    def _made(self, place: Place, use: Use, before: Tensor) -> Tensor:
        """Return what it makes of an output, or of a weight."""
        adapter, weight = self.adapter, self._weight
        p = {**self.variables[place.name], **self.shared, **self._common}
        if use.output is None:
            w = before.transpose(*use.order)
            after = cast_to(w.dtype, adapter.changed(place, w, p))
            if weight is not None:
                after = added(w, (after - w) * weight)
            made: Tensor = after.transpose(*map(int, np.argsort(use.order)))
            return made
        x = use.x if use.x is None or not is_floating(use.x.dtype) else _as_first(use.x, p)
        if weight is None:
            return adapter.apply(place, use, x, before, p)
        if adapter.is_additive:
            return added(before, adapter.shift(place, use, x, p) * weight)
        return added(before, (adapter.apply(place, use, x, before, p) - before) * weight)

    def _unbuild(self, edit: Edit) -> dict[Any, int]:
        """Take its nodes out, and what wraps an output that nothing stands behind any more.

        Returns where in its chains it stood.
        """
        known = adapters_of(self.graph)
        was = self.name in known.active
        known.active.discard(self.name)
        known.connect(edit)
        if was:
            known.active.add(self.name)
        moved: dict[Node, Node] = {}
        stood: dict[Any, int] = {}
        gone, self.penalty, self._apart, self._common = self._apart, None, [], {}
        for key, chain in list(known.chains.items()):
            for i, link in enumerate(chain.links):
                if link.adapter == self.name:
                    stood[key] = i
                    gone += link.nodes
                    chain.leave_out(edit, link)
            if not chain.links:
                del known.chains[key]
                if chain.handle is not None:
                    moved[chain.base.node] = chain.handle.node
        for node in sorted([*gone, *known.left], key=lambda node: -node.serial):
            known.left.pop(node, None)
            if any(t.uses for t in node.outputs):
                known.left[node] = None
            elif self.graph.get(node.name) is node.outputs[0]:
                edit.remove(node.outputs[0])
        for inner, outer in moved.items():
            edit.unwrap(outer.outputs[0], inner.outputs[0])
        self.places = tuple(
            replace(p, uses=tuple(replace(u, node=moved.get(u.node, u.node)) for u in p.uses))
            for p in self.places
        )
        return stood


def _seeded(init: Initializer, seed: int) -> Initializer:
    """Return an initializer that draws the same each time, unless it has a seed of its own."""
    if "seed" not in inspect.signature(init.rule).parameters or "seed" in init.settings:
        return init
    return Initializer(init.rule, {**init.settings, "seed": seed})


def _as_first(x: Tensor, p: Leaves) -> Tensor:
    """Return a tensor in the dtype of an adapter's variables."""
    found: Tensor = cast_to(next(iter(p.values())).dtype, x) if p else x
    return found


def _as_held(held: Array, given: Array, name: str) -> Array:
    """Return a copy of an array in the dtype of the one that it takes the place of."""
    return coerce(given, TensorSpec(held.shape, held.dtype), f"weight {name!r}").copy()
