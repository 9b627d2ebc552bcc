"""Stand-ins: what gradients differentiate where a rule has a stabler op for what is written.

The value of log(Σ exp x) is that of logsumexp(x), by a rule; the slopes of the log, the sum and the
exponential would overflow one by one. So the gradient is taken of the same op that the rule makes,
matched on the nodes of the graph: value and gradient are stable together, whoever else reads what
is in between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import GradwrightError
from ..gradient import STAND_INS
from ..graph import Node, Tensor
from ..op import Op, infer_specs, run_forward
from ..spec import TensorSpec, is_half
from .editor import UNIFORM, uniform
from .terms import INNER, Binds, Call, Term

Array = np.ndarray[Any, Any]
MOST = 8
"""Bound on the stand-ins that one node gets one after the other."""


@dataclass(frozen=True)
class Form:
    """A formula and its stabler form, on graphs."""

    name: str
    before: Call
    after: Term
    when: Callable[[Any, Binds], bool] | None

    def fits(self, makers: Collection[str]) -> bool:
        """Tell whether the makers of inputs are those that the formula asks for."""
        asked = (a.kinds() for a in self.before.args)
        return all(not k or not k.isdisjoint(makers) for k in asked)


FORMS: dict[str, list[Form]] = {}
"""The forms by the name of their last op."""


@dataclass(frozen=True, eq=False)
class Step:
    """An op that makes a value from others: a node's, or one that stands for it."""

    op: Op
    ins: tuple[int | None, ...]
    outs: tuple[int, ...]
    bypassed: frozenset[Tensor] = frozenset()
    """Tensors that no cotangent reaches if this is differentiated."""


class Nodes:
    """Nodes of a graph as terms see them: values are numbers, made by steps."""

    def __init__(self) -> None:
        self.specs: list[TensorSpec] = []
        self.numbers: dict[Tensor, int] = {}
        self.tensors: dict[int, Tensor] = {}
        self.steps: dict[int, Step] = {}
        self.arrays: dict[int, Array] = {}
        self.root: Step
        self.graph: Any = None

    # -- what terms ask ---------------------------------------------------------------------------

    def producer(self, value: int | None, name: str = "") -> Step | None:
        """Return what makes a value, or stands for that, if it has that name."""
        found = None if value is None else self.steps.get(value)
        return None if found is None or (name and found.op.name != name) else found

    def number(self, value: int | None) -> Any:
        """Return the number that all elements of a constant are, or None."""
        if value is None:
            return None
        t = self.tensors.get(value)
        if t is not None and t.kind == "constant" and t.spec.is_concrete and t.spec.size <= UNIFORM:
            return uniform(t.graph.values.array(t.name))
        return None

    def spec(self, value: int | None) -> TensorSpec:
        """Return the spec of a value."""
        assert value is not None
        return self.specs[value]

    def make(self, op: Op, *ins: int | None, whole: bool = False) -> int:
        """Return the value of an op that stands for a node."""
        (spec,) = infer_specs(op, [None if i is None else self.specs[i] for i in ins])
        value = self._new(spec)
        self.steps[value] = Step(op, ins, (value,))
        return value

    def constant(self, array: Array) -> int:
        """Return the value of a constant."""
        value = self._new(TensorSpec(array.shape, array.dtype))
        self.arrays[value] = array
        return value

    # -- from tensors and back --------------------------------------------------------------------

    def number_of(self, t: Tensor) -> int:
        """Return the value that a tensor is."""
        if t not in self.numbers:
            value = self.numbers[t] = self._new(t.spec)
            self.tensors[value] = t
        return self.numbers[t]

    def tensor(self, value: int) -> Tensor:
        """Return the tensor that a value is, built if it is not there."""
        if value not in self.tensors:
            if value in self.arrays:
                self.tensors[value] = self.graph.constant(self.arrays[value])
            else:
                step = self.steps[value]
                made = step.op(*(None if i is None else self.tensor(i) for i in step.ins))
                self.tensors[value] = made
        return self.tensors[value]

    def _new(self, spec: TensorSpec) -> int:
        self.specs.append(spec)
        return len(self.specs) - 1


def values(order: Sequence[Node], skip: Collection[str]) -> Mapping[Tensor, Stable]:
    """Return how the stable values of nodes are computed, which come inputs first.

    Halves are not among them: each of their steps is rounded, and meant to be.
    """
    at = Nodes()
    found = _found(at, order, (), skip)
    return {t: Stable(at, step) for t, step in found.items() if not is_half(t.dtype)}


def find(order: Sequence[Node], kept: Collection[Tensor]) -> Mapping[Tensor, Callable[[], Tensor]]:
    """Return what builds the tensors that stand for those of nodes, which come inputs first.

    No cotangent passes ``kept`` by.
    """
    at = Nodes()
    return {t: _builder(at, step) for t, step in _found(at, order, kept, ()).items()}


def _found(
    at: Nodes, order: Sequence[Node], kept: Collection[Tensor], skip: Collection[str]
) -> dict[Tensor, Step]:
    found: dict[Tensor, Step] = {}
    for node in order:
        if len(node.outputs) != 1 or node.kind != "array":
            continue
        y = node.outputs[0]
        if not y.spec.differentiable:
            continue
        at.graph = y.graph
        ins = tuple([None if t is None else at.number_of(t) for t in node.inputs])
        value = at.number_of(y)
        at.steps[value] = step = Step(node.op, ins, (value,))
        for _ in range(MOST):
            made = _stand_in(at, step, y.spec, kept, skip)
            if made is None:
                break
            at.steps[value] = found[y] = step = made
    return found


def _builder(at: Nodes, step: Step) -> Callable[[], Tensor]:
    return lambda: at.tensor(step.outs[0])


def _stand_in(
    at: Nodes, step: Step, spec: TensorSpec, kept: Collection[Tensor], skip: Collection[str]
) -> Step | None:
    """Return the step that stands for one, by the first form that fits."""
    forms = FORMS.get(step.op.name)
    if not forms:
        return None
    makers = {_maker(at, i) for i in step.ins if i is not None}
    for form in forms:
        if form.name in skip or not form.fits(makers):
            continue
        at.root = step
        for binds in form.before.match_instr(at, step, {}):
            bypassed = step.bypassed.union(*(_passed(at, s) for s in binds[INNER][1:]))
            if not bypassed.isdisjoint(kept) or (form.when and not form.when(at, binds)):
                continue
            try:
                value = form.after.build(at, binds)  # type: ignore[arg-type]
            except GradwrightError:  # what it would make is refused, so it does not fit
                continue
            made = at.steps.get(value)
            if made is not None and at.specs[value] == spec:
                return Step(made.op, made.ins, made.outs, bypassed)
    return None


def _maker(at: Nodes, value: int) -> str:
    step = at.steps.get(value)
    if step is not None:
        return step.op.name
    return "constant" if at.number(value) is not None else ""


def _passed(at: Nodes, step: Step) -> frozenset[Tensor]:
    own = [at.tensors[o] for o in step.outs if o in at.tensors]
    return step.bypassed.union(own)


@dataclass(frozen=True, eq=False)
class Stable:
    """A value by the op that stands for its node's."""

    at: Nodes
    step: Step

    def compute(self, known: Mapping[Tensor, Array], training: bool) -> Array:
        """Return it, from the values of tensors that are known."""
        at, found = self.at, dict(self.at.arrays)

        def value(number: int) -> Array:
            t = at.tensors.get(number)
            if t is not None:
                return known[t]
            if number not in found:
                found[number] = made(at.steps[number])
            return found[number]

        def made(step: Step) -> Array:
            xs = [None if i is None else value(i) for i in step.ins]
            (y,) = run_forward(step.op.for_mode(training), xs)
            return np.asarray(y)

        return made(self.step)


STAND_INS.append(find)
