"""An op's own vjp as flat calls, built once for its specs and placed behind its calls."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ....graph import Constant, Tensor, ancestors
from ....op import Op, redefinitions
from ....shared import Bounded
from ...float64 import Call, Calls, run_calls
from ..vjp import keys_of, vjp_of

Array = np.ndarray[Any, Any]


class Rule:
    """The flat calls of an op's vjp on places of their own, for inputs of certain specs.

    ``xs``, ``ys`` and ``gs`` are the places of inputs, outputs and cotangents, ``targets`` those of
    the inputs' cotangents; 0 stands for none.
    """

    def __init__(
        self, op: Op, xs: Sequence[Array | None], ys: Sequence[Array], training: bool
    ) -> None:
        vjp = vjp_of(op, xs, ys)
        calls = Calls(training, anew=True)
        number: dict[Tensor, int] = {}

        def place(t: Tensor | None, array: Array | None) -> int:
            if t is None:
                return 0
            number[t] = calls.new(array)  # type: ignore[arg-type]
            return number[t]

        self.xs = [place(t, x) for t, x in zip(vjp.xs, xs, strict=True)]
        self.ys = [place(t, y) for t, y in zip(vjp.ys, ys, strict=True)]
        self.gs = [place(t, np.ones(y.shape, y.dtype)) for t, y in zip(vjp.gs, ys, strict=False)]
        self.constants: dict[int, Array] = {}
        found = [t for t in vjp.cotangents.values() if t is not None]
        for node in ancestors(found, stop=set(number)):
            if node.outputs[0] in number:
                continue
            if isinstance(node.op, Constant):
                place(node.outputs[0], node.graph.values.array(node.name))
                continue
            ins = [0 if t is None else number[t] for t in node.inputs]
            outs = calls.open(node.op.for_mode(training), ins, node.name)
            for t, out in zip(node.outputs, outs, strict=True):
                number.setdefault(t, out)
        self.targets = {i: 0 if t is None else number[t] for i, t in vjp.cotangents.items()}
        calls.prune([t for t in self.targets.values() if t])
        self.calls, self.count = calls.calls, len(calls.registers)
        made = {0, *self.xs, *self.ys, *self.gs, *(o for c in self.calls for o in c.outs)}
        read = {i for c in self.calls for i in c.ins} | set(self.targets.values())
        self.constants = {i: calls.registers[i] for i in read - made}
        self.is_fixed = not calls.decisive
        """Whether the calls are the same for inputs of any values."""

    def placed(
        self, held: list[Any], xs: Sequence[int], ys: Sequence[int], active: Container[int]
    ) -> Placed:
        """Return the rule on registers: of inputs and outputs, and new ones for all else.

        It gives the cotangents of inputs in ``active`` registers.
        """
        at = [-1] * self.count
        at[0] = 0
        for mine, theirs in ((self.xs, xs), (self.ys, ys)):
            for m, t in zip(mine, theirs, strict=True):
                if m:
                    at[m] = t
        for m, array in self.constants.items():
            at[m] = len(held)
            held.append(array)
        for m in range(self.count):
            if at[m] < 0:
                at[m] = len(held)
                held.append(None)
        calls = [
            Call(c.forward, tuple([at[i] for i in c.ins]), tuple([at[o] for o in c.outs]), c.label)
            for c in self.calls
        ]
        targets = {i: at[t] for i, t in self.targets.items() if xs[i] in active}
        calls = toward(calls, targets.values())
        return Placed(calls, list(ys), [at[g] for g in self.gs], targets, list(xs))


class Placed:
    """A rule behind the call or node it belongs to: ``calls`` from cotangents to cotangents."""

    __slots__ = ("_only", "calls", "done", "gs", "heads", "targets", "xs")

    def __init__(
        self,
        calls: list[Call],
        heads: list[int],
        gs: list[int],
        targets: dict[int, int],
        xs: list[int],
    ) -> None:
        self.calls, self.heads, self.gs, self.targets, self.xs = calls, heads, gs, targets, xs
        self._only: dict[int, list[Call]] = {}
        self.done: set[int] = set()
        """Inputs whose cotangents are computed, for the cotangents that ``gs`` hold now."""

    def cotangent(self, held: Sequence[Any], i: int) -> Array:
        """Return what the last run gave input ``i``."""
        target = self.targets[i]
        found: Array = held[target] if target else np.zeros(held[self.xs[i]].shape)
        return found

    def pull(self, held: list[Any], i: int, bar: Mapping[int, Array]) -> Array:
        """Return the cotangent of input ``i`` for those of the outputs, where absent ones are 0."""
        for head, slot in zip(self.heads, self.gs, strict=False):
            if slot:
                g = bar.get(head)
                if g is None:
                    g = np.zeros(held[head].shape)
                if held[slot] is not g:
                    held[slot] = g
                    self.done.clear()
        if i not in self.done:
            run_calls(self._toward(i), held)
            self.done.add(i)
        return self.cotangent(held, i)

    def _toward(self, i: int) -> list[Call]:
        """Return the calls that one input's cotangent needs."""
        if i not in self._only:
            self._only[i] = toward(self.calls, [self.targets[i]])
        return self._only[i]


def toward(calls: Sequence[Call], targets: Iterable[int]) -> list[Call]:
    """Return the calls that some registers need."""
    needed, kept = set(targets), []
    for call in reversed(calls):
        if not needed.isdisjoint(call.outs):
            needed.update(call.ins)
            kept.append(call)
    return kept[::-1]


_rules = Bounded[Rule](1024)


def rule_of(op: Op, xs: Sequence[Array | None], ys: Sequence[Array], training: bool) -> Rule:
    """Return an op's rule for arrays of these specs."""
    key = op, redefinitions(), training, *keys_of(op, xs, ys)
    found = _rules.find(key)
    if found is None:
        found = Rule(op, xs, ys, training)
        _rules.keep(key, found)
    return found


def forget() -> None:
    """Forget all rules: ops may have changed."""
    _rules.clear()
