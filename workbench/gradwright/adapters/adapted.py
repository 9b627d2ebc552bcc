"""Adapted: an adapter in a graph, which can be looked at, switched, weighed, loaded and removed.

Adding one is an atomic edit. The output of each layer is wrapped: its tensor stays what the user
holds, and is from then on what the adapter makes of the base's output, which is ``reference``.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import GraphError, ShapeError
from ..graph import Edit, Graph, Node, Tensor, clone, coerce
from ..graph.cells import current_cell
from ..init import Initializer
from ..ops.core.movement import cast_to
from ..spec import at_least_float32, is_floating
from .adapter import Adapter, Leaf, Leaves, added
from .chain import Adapters, Chain, Link, adapters_of
from .site import Place, Use
from .trained import Trained, trained

Array = np.ndarray[Any, Any]


class Adapted:
    """An adapter of a graph; ``gw.adapters.add`` makes one.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 3)) @ g.variable("w", (3, 2), init=1.0)
    >>> adapted = gw.adapters.add(g, gw.adapters.LoRA(r=1), where="w")
    >>> print(adapted.trainable)
    5 of 11 numbers are trained: 45.4545%
    place  variables             trained  bytes  of its weight
    w      lora_A 1x3, lora_B 2x1  5        20 B   83.33%
    >>> adapted.remove()
    >>> [t.name for t in g.trainable]
    ['w']
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
        self.cell = current_cell()
        self.dtype, self._seed = dtype, seed
        self._weight: Tensor | None = None
        self.replaced: dict[str, Array] = {}
        """What the model's own values were where others took their place; ``remove`` undoes it."""
        self.model: Any = graph
        """What it was added to: a model, or its graph."""
        self.followers: list[Adapted] = []
        """The same adapter in graphs that generate."""
        self.unfollow: Callable[[], None] | None = None

    def __repr__(self) -> str:
        state = "" if self.is_enabled else ", disabled"
        return f"<Adapted {self.name!r}: {self.adapter!r} at {len(self.places)} places{state}>"

    # -- what there is ---------------------------------------------------------------------------

    @property
    def parameters(self) -> list[Tensor]:
        """Its variables that are trained."""
        every = [t for leaves in self.variables.values() for t in leaves.values()]
        return [t for t in (*every, *self.shared.values(), *self.thawed) if t.trainable]

    @property
    def base_of(self) -> dict[Tensor, Tensor]:
        """By the output of each of its layers, what that is without any adapter."""
        held = adapters_of(self.graph).chains.values()
        return {
            c.handle: c.base
            for c in held
            if c.handle is not None and any(link.adapter == self.name for link in c.links)
        }

    def reference(self, outputs: Sequence[Tensor] | Tensor, *, scope: str = "reference") -> Any:
        """Return what outputs are without any adapter: a copy that shares all weights.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = g.placeholder("x", (None, 1)) @ g.variable("w", (1, 1), init=1.0)
        >>> adapted = gw.adapters.add(g, gw.adapters.LoRA(r=1, init=False), where="w")
        >>> g.output({"x": [[2.0]]}, adapted.reference(y))["w/base"].tolist()
        [[2.0]]
        """
        return clone(outputs, self.base_of, scope=scope)

    @property
    def trainable(self) -> Trained:
        """What is trained, place by place, as a table and as data."""
        named = {**self.variables, **({"all places": self.shared} if self.shared else {})}
        return trained(self.graph, named, self.places)

    # -- state -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """Return its arrays: ``{place}/{leaf}``, and those of the model that it trains."""
        return {key: self.graph.values[t.name].copy() for key, t in self._keys().items()}

    def load_state(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Take over what ``state`` returned, all or nothing; plans stay, so this is a hot swap.

        Raises GraphError for missing and left over names, of which ``strict=False`` takes what it
        knows, and ShapeError for arrays of another shape.
        """
        keys = self._keys()
        missing, more = sorted(keys.keys() - state.keys()), sorted(state.keys() - keys.keys())
        if strict and (missing or more):
            raise GraphError(
                f"the state is not that of {self.name!r}",
                facts=[
                    *(f"missing: {k}" for k in missing[:8]),
                    *(f"left over: {k}" for k in more[:8]),
                ],
            )
        new = {}
        for key, t in keys.items():
            if key in state:
                given = np.asarray(state[key])
                if given.shape != tuple(t.shape):
                    raise ShapeError(
                        f"{key} is {list(given.shape)}", need=f"{list(t.shape)}, as {t.name!r}"
                    )
                new[t.name] = coerce(given, t.spec, f"variable {t.name!r}").copy()
        self.graph.values.commit(new)

    def _keys(self) -> dict[str, Tensor]:
        return {
            **{f"{p}/{leaf}": t for p, held in self.variables.items() for leaf, t in held.items()},
            **self.shared,
            **{t.name: t for t in self.thawed},
        }

    def replace(self, values: Mapping[str, Array]) -> None:
        """Put values in the place of the model's own until it is removed, all or nothing."""
        own = {name: self.graph.values[name] for name in values if name not in self.replaced}
        specs = {name: self.graph[name].spec for name in values}
        new = {n: coerce(a, specs[n], f"weight {n!r}").copy() for n, a in values.items()}
        self.graph.values.commit(new)
        self.replaced |= own

    # -- switches --------------------------------------------------------------------------------

    def enable(self) -> None:
        """Compute the model with it again."""
        self._switch(True)

    def disable(self) -> None:
        """Compute the model without it: to the bit what it was, and as fast."""
        self._switch(False)

    @contextlib.contextmanager
    def disabled(self) -> Iterator[None]:
        """Disable it inside a ``with`` block."""
        before = self.is_enabled
        self.disable()
        try:
            yield
        finally:
            self._switch(before)

    @property
    def is_enabled(self) -> bool:
        """Whether the model is computed with it."""
        return self.name in adapters_of(self.graph).active

    def _switch(self, on: bool) -> None:
        for one in (self, *self.followers):
            if one.is_enabled != on:
                with one._edit() as edit:
                    known = adapters_of(one.graph)
                    (known.active.add if on else known.active.discard)(one.name)
                    known.connect(edit)

    @property
    def is_weighed(self) -> bool:
        """Whether ``weight`` has been set."""
        return self._weight is not None

    @property
    def weight(self) -> float:
        """How much of it counts: 1, until it is set; what it adds is multiplied by this.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = g.placeholder("x", (None, 1)) @ g.variable("w", (1, 1), init=1.0)
        >>> adapted = gw.adapters.add(g, gw.adapters.LoRA(r=1, alpha=1), where="w")
        >>> adapted.load_state({"w/lora_A": [[1.0]], "w/lora_B": [[4.0]]})
        >>> adapted.weight = 0.5
        >>> g.output({"x": [[1.0]]}, y)["matmul"].tolist()
        [[3.0]]
        """
        return 1.0 if self._weight is None else float(self.graph.values[self._weight.name])

    @weight.setter
    def weight(self, value: float) -> None:
        if not math.isfinite(value):
            raise GraphError(f"a weight of {value!r} makes no sense", need="a finite number")
        for one in (self, *self.followers):
            if one._weight is None:
                with one._edit() as edit:
                    one._unbuild(edit)
                    with one.graph._at_top(), one.graph.scope(one.name):
                        one._weight = one.graph.variable("weight", (), init=1.0, trainable=False)
                    one._build(edit)
            one.graph.values[one._weight.name] = value

    def remove(self) -> None:
        """Take it out of the graph, which is then what it was; weights are trained as before."""
        known = adapters_of(self.graph)
        if known.named.get(self.name) is not self:
            raise GraphError(f"{self.name!r} is no adapter of the graph any more")
        with self._edit() as edit:
            self._unbuild(edit)
            del known.named[self.name]
            known.active.discard(self.name)
            own = [t for leaves in self.variables.values() for t in leaves.values()]
            scalars = [] if self._weight is None else [self._weight]
            edit.remove(*own, *self.shared.values(), *scalars)
        self.graph.values.commit(self.replaced)
        kept = {t for other in known.named.values() for t in other.thawed}
        for t in self.thawed:
            if t not in kept:
                self.graph.set_trainable(t, False)
        known.thaw(self.graph)
        for one in self.followers:
            one.remove()
        if self.unfollow is not None:
            self.unfollow()

    # -- edits -----------------------------------------------------------------------------------

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

    def _variable(
        self, scope: str, name: str, leaf: Leaf, given: Mapping[str, Array], seed: int, place: Any
    ) -> Tensor:
        dtype = self.dtype
        if dtype is None:
            dtype = at_least_float32(getattr(place or self.places[0], "dtype", np.dtype("float32")))
        init = given.get(name, leaf.init)
        if isinstance(init, Initializer):
            init = _seeded(init, seed)
        with self.graph._at_top(), self.graph.scope(scope):
            return self.graph.variable(
                name, leaf.shape, init=init, dtype=dtype, trainable=leaf.trainable
            )

    def _build(self, edit: Edit) -> None:
        """Put it behind the layers of its places, after the adapters that are there."""
        known, graph = adapters_of(self.graph), self.graph
        places = []
        for place in self.places:
            with graph._at_top(), graph.scope(place.name):
                uses = tuple(self._link(edit, known, place, use) for use in place.uses)
                places.append(replace(place, uses=uses))
        self.places = tuple(places)
        known.connect(edit)

    def _link(self, edit: Edit, known: Adapters, place: Place, use: Use) -> Use:
        """Add a link to the chain of one use; returns the use as it is then."""
        handle, graph = use.output, self.graph
        key = (use.node, use.input) if handle is None else handle
        chain = known.chains.get(key)
        if chain is None:
            if handle is None:
                base = use.weight
            else:
                base = edit.wrap(handle, "base", lambda t: t)
                use = replace(use, node=base.node) if use.node is handle.node else use
            chain = known.chains[key] = Chain(base, handle, use)
        before, n = chain.last, len(graph._nodes)
        with graph.scope(self.name):
            after = self._made(place, use, before)
        nodes = list(graph._nodes.values())[n:]
        chain.links.append(Link(self.name, before, after, nodes))
        return use

    def _made(self, place: Place, use: Use, before: Tensor) -> Tensor:
        """Return what it makes of an output, or of a weight."""
        adapter, weight = self.adapter, self._weight
        p = {**self.variables[place.name], **self.shared}
        if use.output is None:
            w = before.transpose(*use.order)
            after = cast_to(w.dtype, adapter.changed(place, w, p))
            if weight is not None:
                after = added(w, (after - w) * weight)
            back: Tensor = after.transpose(*map(int, np.argsort(use.order)))
            return back
        x = use.x if use.x is None or not is_floating(use.x.dtype) else _as_first(use.x, p)
        if weight is None:
            return adapter.apply(place, use, x, before, p)
        if adapter.is_additive:
            return added(before, adapter.shift(place, use, x, p) * weight)
        return added(before, (adapter.apply(place, use, x, before, p) - before) * weight)

    def _unbuild(self, edit: Edit) -> None:
        """Take its nodes out, and what wraps an output that nothing stands behind any more."""
        known = adapters_of(self.graph)
        was = self.is_enabled
        known.active.discard(self.name)
        known.connect(edit)
        if was:
            known.active.add(self.name)
        moved: dict[Node, Node] = {}
        gone: list[Node] = []
        for key, chain in list(known.chains.items()):
            gone += [n for link in chain.links if link.adapter == self.name for n in link.nodes]
            chain.links = [link for link in chain.links if link.adapter != self.name]
            if not chain.links:
                del known.chains[key]
                if chain.handle is not None:
                    moved[chain.base.node] = chain.handle.node
        for node in reversed(gone):
            if not any(t.uses for t in node.outputs):  # constants are shared
                edit.remove(node.outputs[0])
        for inner, outer in moved.items():
            edit.unwrap(outer.outputs[0], inner.outputs[0])
        self.places = tuple(
            replace(p, uses=tuple(replace(u, node=moved.get(u.node, u.node)) for u in p.uses))
            for p in self.places
        )


def _seeded(init: Initializer, seed: int) -> Initializer:
    """Return an initializer that draws the same each time, unless it has a seed of its own."""
    if "seed" not in inspect.signature(init.rule).parameters or "seed" in init.settings:
        return init
    return Initializer(init.rule, {**init.settings, "seed": seed})


def _as_first(x: Tensor, p: Leaves) -> Tensor:
    """Return a tensor in the dtype of an adapter's variables."""
    found: Tensor = cast_to(next(iter(p.values())).dtype, x) if p else x
    return found
