"""Optimizer state: slots and step counts as variables of the derived layer."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import TrainingError
from ..graph import Graph, Tensor, Values, Variable
from ..graph.edit import discard
from ..spec import TensorSpec, at_least_float32
from .optim import Optimizer

Array = np.ndarray[Any, Any]
_scopes: weakref.WeakKeyDictionary[Graph, dict[str, weakref.ref[OptimizerState]]]
_scopes = weakref.WeakKeyDictionary()


class OptimizerState:
    """The slots of one trainer's parameters, and how often each has been updated.

    They are variables of the graph, so updates commit them with the parameters, and of its derived
    layer, so summaries and archives leave them out. Each trainer has a scope of its own:
    ``optimizer``, or ``optimizer_1`` where another trainer of the graph is still in use. State is
    found by the parameter's name, so it outlives edits and re-run notebook cells.
    """

    def __init__(self, graph: Graph, values: Values) -> None:
        self.graph, self.values = graph, values
        self._counts: dict[str, int] = {}
        self._clocks: dict[Tensor, list[str]] = {}
        taken = _scopes.setdefault(graph, {})
        for n in itertools.count():
            self.scope = f"optimizer_{n}" if n else "optimizer"
            if self.scope not in taken or taken[self.scope]() is None:
                break
        taken[self.scope] = weakref.ref(self)
        discard(self._nodes())  # left by a trainer that is gone

    def _nodes(self) -> list[Any]:
        prefix = self.scope + "/"
        return [n for n in self.graph.derived if n.name.startswith(prefix)]

    def clear_graph(self) -> None:
        """Remove what was built under the scope, but not the state."""
        discard([n for n in self._nodes() if not isinstance(n.op, Variable)])

    def slots(self, param: Tensor, optimizer: Optimizer) -> list[Tensor]:
        """Return the slots of a parameter, made of zeros where it has none yet."""
        wide = at_least_float32(param.dtype)
        spec = TensorSpec(param.shape, wide)
        return [self._variable(f"{param.name}/{name}", spec) for name in optimizer.slots]

    def clocks(self, params: Sequence[Tensor]) -> dict[Tensor, Tensor]:
        """Return for each parameter the variable that counts its updates; equal counts share it.

        Sharing keeps the step one scalar for all parameters of a usual run; a parameter that was
        frozen for a while gets its own, since Adam's bias correction depends on it.
        """
        self._counts = self.counts()
        groups: dict[int, list[Tensor]] = {}
        for p in params:
            groups.setdefault(self._counts.get(p.name, 0), []).append(p)
        self._clocks, found = {}, {}
        for i, (count, members) in enumerate(groups.items()):
            name = f"step_{i}" if i else "step"
            clock = self._variable(name, TensorSpec((), "int64"))
            self.values.commit({clock.name: np.array(count)})
            self._clocks[clock] = [p.name for p in members]
            found.update(dict.fromkeys(members, clock))
        return found

    def counts(self) -> dict[str, int]:
        """Return how often each parameter has been updated."""
        now = dict(self._counts)
        for clock, names in self._clocks.items():
            now.update(dict.fromkeys(names, int(self.values.array(clock.name))))
        return now

    def _variable(self, name: str, spec: TensorSpec) -> Tensor:
        full = f"{self.scope}/{name}"
        held = self.graph.get(full)
        if held is not None and held.spec != spec:  # the parameter was replaced by another
            discard([held.node])
            held = None
        if held is None:
            shape: Any = spec.shape
            with self.graph.deriving(self.scope):
                held = self.graph.variable(name, shape, dtype=spec.dtype, trainable=False)
        if held.name not in self.values:  # the session has its own copy of the values
            self.values.commit({held.name: np.zeros(held.shape, held.dtype)})
        return held

    # -- saving ----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, Array]:
        """Return all state by name, ``hidden/w/m`` and ``hidden/w/step``; for saving."""
        steps = {f"{n}/step": np.array(k) for n, k in self.counts().items() if n in self.graph}
        return {**{name: self.values[full] for name, full in self._slot_names()}, **steps}

    def _slot_names(self) -> Iterator[tuple[str, str]]:
        for node in self._nodes():
            name = node.name.removeprefix(self.scope + "/")
            owner = self.graph.get(name.rpartition("/")[0])  # None for step counters
            if isinstance(node.op, Variable) and owner is not None and owner.kind == "variable":
                yield name, node.name

    def load(self, arrays: Mapping[str, Array], optimizer: Optimizer) -> None:
        """Take over saved state, all or none; raises TrainingError for what does not fit."""
        counts: dict[str, int] = {}
        slots: dict[str, tuple[TensorSpec, Array]] = {}
        for name, value in arrays.items():
            owner, _, slot = name.rpartition("/")
            param, array = self.graph.get(owner), np.asarray(value)
            known = slot in (*optimizer.slots, "step")
            if param is None or param.kind != "variable" or not known:
                raise TrainingError(
                    f"saved optimizer state {name!r} has no place here",
                    need=f"a variable {owner!r} with a slot {slot!r}",
                    facts=[f"slots of {type(optimizer).__name__}: {', '.join(optimizer.slots)}"],
                )
            if slot == "step":
                counts[owner] = int(array)
                continue
            wide = at_least_float32(param.dtype)
            spec = TensorSpec(param.shape, wide)
            if TensorSpec(array.shape, array.dtype) != spec:
                raise TrainingError(
                    f"saved optimizer state {name!r} is {array.dtype}{list(array.shape)}",
                    need=str(spec),
                )
            slots[name] = spec, array
        discard(self._nodes())
        self._counts, self._clocks = counts, {}
        for name, (spec, array) in slots.items():
            self.values.commit({self._variable(name, spec).name: array.copy()})
