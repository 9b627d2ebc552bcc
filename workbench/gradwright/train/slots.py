"""Optimizer state: slots and step counts as variables of the derived layer."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import TrainingError
from ..graph import Constant, Graph, Node, Tensor, Values, Variable
from ..graph.edit import discard
from ..spec import TensorSpec
from ..spec.rounding import rounded
from .optim import Optimizer, Slot
from .optim.base import Seen

Array = np.ndarray[Any, Any]
_scopes: weakref.WeakKeyDictionary[Graph, dict[str, weakref.ref[Slots]]]
_scopes = weakref.WeakKeyDictionary()


class Slots:
    """The slots of one trainer's parameters, how often each has been updated, and other state.

    They are variables of the graph, so updates commit them with the parameters, and of its derived
    layer, so summaries and archives leave them out. Each trainer has a scope of its own:
    ``optimizer``, or ``optimizer_1`` where another trainer of the graph is still in use. State is
    found by the parameter's name, so it outlives edits and re-run notebook cells; it is renamed
    with its parameter.

    Other parts of a step, such as sums of gradients or averages of weights, keep their state here
    with ``variable``, under names like ``accumulated/w``.
    """

    def __init__(self, graph: Graph, values: Values) -> None:
        self.graph, self.values = graph, values
        self._counts: dict[str, int] = {}
        self._clocks: dict[Tensor, list[str]] = {}
        self._others: dict[str, TensorSpec] = {}
        """Variables that the present step asked for beside slots and clocks."""
        self._asked: dict[str, TensorSpec] = {}
        """Those that the step asks for that is being built."""
        self._known: dict[Tensor, str] = {}
        """Variables that have state here, and what they are called in its names."""
        self._ends: dict[str, str] = {}
        """Names of other state that end with a variable's, and these ends."""
        taken = _scopes.setdefault(graph, {})
        for n in itertools.count():
            self.scope = f"optimizer_{n}" if n else "optimizer"
            if self.scope not in taken or taken[self.scope]() is None:
                break
        taken[self.scope] = weakref.ref(self)
        self._drop(self._nodes())  # left by a trainer that is gone

    def _nodes(self) -> list[Node]:
        prefix = self.scope + "/"
        return [n for n in self.graph.derived if n.name.startswith(prefix)]

    def _drop(self, nodes: Sequence[Node]) -> None:
        """Remove nodes and their values, from those of the session, too."""
        discard(nodes)
        for node in nodes:
            self.values.discard(node.name)

    def clear_graph(self) -> None:
        """Remove what was built under the scope, but neither state nor numbers that others read."""
        self._asked.clear()
        built = dict.fromkeys(n for n in self._nodes() if not isinstance(n.op, Variable))
        others = [n for n in built if any(user not in built for user in n.outputs[0].uses)]
        discard(n for n in built if n not in others or not isinstance(n.op, Constant))

    def begin(self, movers: Mapping[Tensor, Optimizer]) -> None:
        """Have parameters begin anew whose slots are another optimizer's, or of another shape.

        The count goes with the slots: Adam's correction of moments that begin is that of update 1.
        """
        self._follow()
        misfits = self._misfits(movers)
        self._counts = {name: n for name, n in self.counts().items() if name not in misfits}
        self._clocks = {
            clock: [name for name in names if name not in misfits]
            for clock, names in self._clocks.items()
        }
        self._drop([node for name in misfits for node in self._slot_nodes().get(name, ())])

    def settle(self) -> None:
        """Drop the variables that the step which has been built did not ask for.

        They are not saved either, so what begins anew does so with and without a continuation.
        """
        self._others = dict(self._asked)
        self._drop(
            [
                node
                for node in self._nodes()
                if isinstance(node.op, Variable)
                and not _is_clock(name := self._name_of(node))
                and name not in self._others
                and self._owner(name) is None
            ]
        )

    def empty(self, *prefixes: str) -> None:
        """Set the variables to zeros whose names begin so."""
        names = [f"{self.scope}/{name}" for name in self._others if name.startswith(prefixes)]
        self.values.commit({name: np.zeros_like(self.values.array(name)) for name in names})

    def slots(self, param: Tensor, optimizer: Optimizer) -> list[Tensor]:
        """Return the slots of a parameter, made where it has none yet."""
        found, seen = [], Seen(param, optimizer)
        for name, slot in state_of(param, optimizer).items():
            spec = TensorSpec(slot.shape, slot.dtype)
            init: Any = slot.init
            if init == "parameter":
                init = self.values.array(param.name)
                init = init.view(seen.dtype).reshape(seen.shape) if seen.is_paired else init
            found.append(self._variable(f"{param.name}/{name}", spec, init))
        self._known[param] = param.name
        return found

    def variable(
        self, name: str, spec: TensorSpec, init: float = 0.0, *, of: Tensor | None = None
    ) -> Tensor:
        """Return the state of this name, filled with ``init`` where it is new or of another spec.

        It is kept, and part of ``arrays``, for as long as each step that is built asks for it.
        ``of`` is the variable whose name it ends with, if that is so. Raises TrainingError for a
        name that slots or clocks have.
        """
        if _is_clock(name) or self._owner(name) is not None:
            raise TrainingError(
                f"{name!r} is a name of optimizer state", need='a name such as "accumulated/w"'
            )
        self._others[name] = self._asked[name] = spec
        if of is not None:
            self._known[of] = self._ends[name] = of.name
        return self._variable(name, spec, init)

    def clocks(self, params: Sequence[Tensor]) -> dict[Tensor, Tensor]:
        """Return for each parameter the variable that counts its updates; equal counts share it.

        Sharing keeps the step one scalar for all parameters of a usual run; a parameter that was
        frozen for a while gets its own, since Adam's bias correction depends on it.
        """
        self._counts = self.counts()
        self._known.update((p, p.name) for p in params)
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

    def _follow(self) -> None:
        """Call the state of variables that were renamed by the names that these have now."""
        known = {v: old for v, old in self._known.items() if self.graph.get(v.name) is v}
        self._known = {v: v.name for v in known}
        moved = {old: v.name for v, old in known.items() if v.name != old}
        if not moved:
            return
        nodes = {self._name_of(n): n for n in self._nodes() if isinstance(n.op, Variable)}
        names = {n: new for n in nodes if (new := self._renamed(n, moved)) != n}
        self._drop([nodes[n] for n in {*names.values()} & {*nodes} - {*names}])  # of what is gone
        for name in names:  # out of the way first: two may have changed places
            self.graph.rename(nodes[name].outputs[0], f"{self.scope}/renamed/{name}")
        for name, new in names.items():
            self.graph.rename(nodes[name].outputs[0], f"{self.scope}/{new}")
        self._others = {names.get(n, n): spec for n, spec in self._others.items()}
        self._ends = {names.get(n, n): moved.get(end, end) for n, end in self._ends.items()}
        gone = {*moved.values()} - {*moved}
        counts = {n: count for n, count in self.counts().items() if n not in gone}
        self._counts = {moved.get(n, n): count for n, count in counts.items()}
        self._clocks = {
            clock: [moved.get(n, n) for n in members if n not in gone]
            for clock, members in self._clocks.items()
        }

    def _renamed(self, name: str, moved: Mapping[str, str]) -> str:
        """Return the name of state whose variable has ``moved`` from a name to another."""
        if _is_clock(name):
            return name
        if name not in self._others:
            param, _, slot = name.rpartition("/")
            return f"{moved.get(param, param)}/{slot}"
        end = self._ends.get(name, "")
        return name.removesuffix(end) + moved[end] if end in moved else name

    def _variable(self, name: str, spec: TensorSpec, init: Any = 0.0) -> Tensor:
        full = f"{self.scope}/{name}"
        held = self.graph.get(full)
        if held is not None and held.spec != spec:  # the parameter was replaced by another
            self._drop([held.node])
            held = None
        if held is None:
            array: Array = np.full(spec.shape, rounded(init, spec.dtype))
            with self.graph.deriving(self.scope):
                held = self.graph.variable(name, init=array, trainable=False)
        if held.name not in self.values:  # the session has its own copy of the values
            self.values.commit({held.name: np.full(spec.shape, rounded(init, spec.dtype))})
        return held

    # -- saving ----------------------------------------------------------------------------------

    def arrays(
        self,
        movers: Mapping[Tensor, Optimizer] | None = None,
        prefixes: tuple[str, ...] = ("",),
    ) -> dict[str, Array]:
        """Return all state by name, ``hidden/w/m`` and ``hidden/w/step``; for saving.

        With ``movers``, without that of parameters which the next step has begin anew; of the
        state that is no optimizer's, what has a name with one of the prefixes.
        """
        self._follow()
        misfits = self._misfits(movers or {})
        slots = [
            self._name_of(node)
            for param, nodes in self._slot_nodes().items()
            if param not in misfits
            for node in nodes
        ]
        mine = [name for name in self._others if name.startswith(prefixes)]
        others = [name for name in mine if f"{self.scope}/{name}" in self.values]
        counts = {n: k for n, k in self.counts().items() if self._is_variable(n)}
        return {
            **{name: self.values[f"{self.scope}/{name}"] for name in (*slots, *others)},
            **{f"{n}/step": np.array(k) for n, k in counts.items() if n not in misfits},
        }

    def _slot_nodes(self) -> dict[str, list[Node]]:
        """Return the slots of each variable that is still there, by its name."""
        found: dict[str, list[Node]] = {}
        for node in self._nodes():
            name = self._name_of(node)
            if isinstance(node.op, Variable) and not _is_clock(name) and name not in self._others:
                owner = self._owner(name)
                if owner is not None:
                    found.setdefault(owner.name, []).append(node)
        return found

    def _misfits(self, movers: Mapping[Tensor, Optimizer]) -> set[str]:
        """Return the names of parameters whose slots are not those of their optimizers."""
        held = {
            param: {n.name.rpartition("/")[2]: n.outputs[0].spec for n in nodes}
            for param, nodes in self._slot_nodes().items()
        }
        found = set()
        for param, optimizer in movers.items():
            wanted = {
                k: TensorSpec(s.shape, s.dtype) for k, s in state_of(param, optimizer).items()
            }
            if held.get(param.name, {}) != wanted:
                found.add(param.name)
        return found

    def _name_of(self, node: Node) -> str:
        return node.name.removeprefix(self.scope + "/")

    def _owner(self, name: str) -> Tensor | None:
        """Return the variable of the graph that a slot of this name belongs to."""
        owner = name.rpartition("/")[0]
        return self.graph[owner] if self._is_variable(owner) else None

    def _is_variable(self, name: str) -> bool:
        found = self.graph.get(name)
        return found is not None and found.kind == "variable"

    def load(
        self,
        arrays: Mapping[str, Array],
        optimizer: Callable[[str], Optimizer],
        beside: Mapping[str, TensorSpec] | None = None,
    ) -> None:
        """Take over saved state, all or none; raises TrainingError for what does not fit.

        ``optimizer`` gives that of a parameter, by name.
        Slots fit whether they are there yet or not; of the other state, that which the step that
        was built last has asked for fits, and begins anew where nothing is saved. So does what is
        ``beside`` it: that of a variable which was frozen meanwhile.
        """
        self._follow()
        others = {**(beside or {}), **self._others}
        counts: dict[str, int] = {}
        taken: dict[str, tuple[TensorSpec, Array]] = {}
        for name, value in arrays.items():
            param = None if name in others else self._owner(name)
            slot, array = name.rpartition("/")[2], np.asarray(value)
            if param is not None and slot == "step":
                counts[param.name] = _count(name, array)
                continue
            spec = others.get(name) or self._expected(name, param, slot, optimizer)
            if TensorSpec(array.shape, array.dtype) != spec:
                raise TrainingError(
                    f"saved optimizer state {name!r} is {array.dtype}{list(array.shape)}",
                    need=str(spec),
                )
            taken[name] = spec, array
        self._drop(self._nodes())
        self._counts, self._clocks = counts, {}
        self._others |= {name: others[name] for name in taken if name in others}
        for name, (spec, array) in taken.items():
            self.values.commit({self._variable(name, spec).name: array.copy()})

    def held(self) -> dict[str, Any]:
        """Return what ``put_back`` goes back to, with the values of that moment."""
        self._follow()
        specs = {n.name: n.outputs[0].spec for n in self._nodes() if isinstance(n.op, Variable)}
        return {"specs": specs, "counts": self.counts(), "others": dict(self._others)}

    def put_back(self, held: Mapping[str, Any], values: Mapping[str, Array]) -> None:
        """Have the state that there was, whatever has become of it."""
        self._drop(self._nodes())
        self._counts, self._clocks = held["counts"], {}
        self._others = held["others"]
        for name, spec in held["specs"].items():
            self._variable(name.removeprefix(self.scope + "/"), spec)
            self.values.commit({name: values[name].copy()})

    def _expected(
        self, name: str, param: Tensor | None, slot: str, optimizer: Callable[[str], Optimizer]
    ) -> TensorSpec:
        """Return the spec of the slot of this name."""
        mover = optimizer("" if param is None else param.name)
        known = {} if param is None else state_of(param, mover)
        if slot not in known:
            raise TrainingError(
                f"saved optimizer state {name!r} has no place here",
                need=f"a variable {name.rpartition('/')[0]!r} with a slot {slot!r}",
                facts=[f"slots of {type(mover).__name__}: {', '.join(known) or 'none'}"],
            )
        return TensorSpec(known[slot].shape, known[slot].dtype)


def state_of(param: Tensor, optimizer: Optimizer) -> dict[str, Slot]:
    """Return the slots that an optimizer keeps for a parameter."""
    seen: Any = Seen(param, optimizer)
    return optimizer.state(seen if seen.is_paired else param)


def _count(name: str, array: Array) -> int:
    """Return how often a parameter has been updated."""
    if array.shape or array.dtype.kind not in "iu" or not 0 <= array < 1 << 62:
        raise TrainingError(f"saved optimizer state {name!r} is no count", need="an int >= 0")
    return int(array)


def _is_clock(name: str) -> bool:
    """Return whether a variable of this name counts updates: step, step_1 ..."""
    return name == "step" or (name.startswith("step_") and name[5:].isdigit())
