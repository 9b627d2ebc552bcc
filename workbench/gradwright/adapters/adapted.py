"""Adapted: an adapter in a graph, which can be looked at, switched, weighed, loaded and removed.

Adding one is an atomic edit. The output of each layer is wrapped: its tensor stays what the user
holds, and is from then on what the adapter makes of the base's output, which is ``reference``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import GraphError, ShapeError
from ..graph import Tensor, clone, coerce
from .built import Built
from .chain import adapters_of
from .settings import check_number
from .site import Place
from .trained import Trained, trained

Array = np.ndarray[Any, Any]


class Adapted(Built):
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

    def __repr__(self) -> str:
        state = "" if self.is_enabled else ", disabled"
        return f"<Adapted {self.name!r}: {self.adapter!r} at {len(self.places)} places{state}>"

    # -- what there is ---------------------------------------------------------------------------

    @property
    def parameters(self) -> list[Tensor]:
        """Its variables that are trained."""
        return [t for t in (*self.own, *self.thawed) if t.trainable]

    def reference(self, outputs: Sequence[Tensor] | Tensor, *, scope: str = "reference") -> Any:
        """Return what outputs are without it: a copy that shares all weights.

        No adapter that is added later stands in it.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = g.placeholder("x", (None, 1)) @ g.variable("w", (1, 1), init=1.0)
        >>> adapted = gw.adapters.add(g, gw.adapters.LoRA(r=1, init=False), where="w")
        >>> without = adapted.reference(y)
        >>> g.output({"x": [[2.0]]}, without)[without.name].tolist()
        [[2.0]]
        """
        known, held = adapters_of(self.graph), set(self.graph.all_nodes)
        with self.disabled():
            copies = clone(outputs, scope=scope)
        known.references |= {n for n in self.graph.all_nodes if n not in held and not n.derived}
        return copies

    @property
    def trainable(self) -> Trained:
        """What is trained, place by place, as a table and as data."""
        named = {**self.variables, **({"all places": self.shared} if self.shared else {})}
        known = adapters_of(self.graph)
        others = [one for one in known.named.values() if not one.is_enabled and one is not self]
        off = {t for one in others for t in one.own}
        return trained(self.graph, named, self.places, off, known.nodes())

    def numbers(self, place: Place) -> dict[str, Array]:
        """Return the values of its variables at a place, and of those that all places read."""
        leaves = {**self.variables[place.name], **self.shared}
        return {leaf: self.graph.values[t.name] for leaf, t in leaves.items()}

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
        own = {f"{p}/{leaf}": t for p, held in self.variables.items() for leaf, t in held.items()}
        kept = {key: t for key, t in (own | self.shared).items() if t not in self._passing}
        return kept | {t.name: t for t in self.thawed}

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
        self._check_there()
        if on:
            self._check_apart()
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
        check_number("weight", value)
        self._check_apart()
        if not self.adapter.is_weighable:
            name = type(self.adapter).__name__
            raise GraphError(f"{name} counts whole or not at all", hint="adapted.disable()")
        for one in (self, *self.followers):
            if one._weight is None:
                with one._edit() as edit:
                    stood = one._unbuild(edit)
                    with one.graph._at_top(), one.graph.scope(one.name):
                        one._weight = one.graph.variable("weight", (), init=1.0, trainable=False)
                    one._build(edit, stood)
            one.graph.values[one._weight.name] = value

    def compact(self) -> None:
        """Leave out for good what training has switched off, as AdaLoRA does: ranks shrink.

        Optimizers begin anew with what is left.
        """
        self._check_there()
        made = self.adapter.compacted(self)
        if made is not None:
            with self._edit() as edit:
                stood = self._unbuild(edit)
                self._undeclare(edit)
                self.adapter, values = made
                self._declare(values)
                self._build(edit, stood)

    # -- merging ---------------------------------------------------------------------------------

    @property
    def is_merged(self) -> bool:
        """Whether the weights hold it, as ``gw.adapters.merge`` wrote it there."""
        return bool(self.originals)

    def merge_into(self, values: Mapping[str, Array]) -> None:
        """Put values in the place of weights, which are kept, and switch it off."""
        self.originals = self._swapped(values)
        self.disable()

    def unmerge(self) -> None:
        """Give the weights back, and switch it on."""
        self._check_known(self.originals)
        self._give_back(self.originals)
        self.originals = {}
        self.enable()

    def _check_known(self, before: Mapping[str, Array]) -> None:
        if self.is_loaded and before:
            names = ", ".join(map(repr, list(before)[:3]))
            raise GraphError(
                f"what {names} was before {self.name!r} came is not in the archive that was read",
                hint="the model itself, and gw.adapters.load",
            )

    def _check_there(self) -> None:
        if adapters_of(self.graph).named.get(self.name) is not self:
            raise GraphError(f"{self.name!r} is no adapter of the graph any more")

    def _check_apart(self) -> None:
        self._check_there()
        if self.is_merged:
            raise GraphError(
                f"{self.name!r} is merged into the weights", hint="gw.adapters.unmerge(adapted)"
            )

    def remove(self, *, merged: bool = False) -> None:
        """Take it out of the graph, which is then what it was; weights are trained as before.

        ``merged=True`` leaves in the weights what has been merged into them. Raises GraphError
        where weights would have to be given back that another adapter has changed since.
        """
        self._check_there()
        known = adapters_of(self.graph)
        if not merged:
            self._check_known(self.replaced)
            self._check_last(self.replaced)
        if self.is_merged and not merged:
            self.unmerge()
            self._check_last(self.replaced)
        with self._edit() as edit:
            self._unbuild(edit)
            self._undeclare(edit)
            del known.named[self.name]
            known.active.discard(self.name)
            if self._weight is not None:
                edit.remove(self._weight)
        if not merged:
            self._give_back(self.replaced)
            known.swapped = [(one, n) for one, n in known.swapped if one is not self]
        kept = {t for other in known.named.values() for t in other.thawed}
        for t in self.thawed:
            if t not in kept:
                self.graph.set_trainable(t, False)
        known.thaw(self.graph)
        for one in self.followers:
            one.remove()
        if self.unfollow is not None:
            self.unfollow()
