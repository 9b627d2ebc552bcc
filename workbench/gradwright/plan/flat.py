"""Flat: a part of a request before its rewrites, with symbolic sizes, and at certain sizes."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph import Constant, Node, Source, Tensor
from ..op import Op, infer_specs, run_forward
from ..program.lowering import find_launch
from ..program.program import Instr, Program, Recipe
from ..spec import Dim, TensorSpec

if TYPE_CHECKING:
    from .plan import Plan

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]
Known = dict[Tensor, TensorSpec]


class UnfitError(Exception):
    """These sizes, or this request, cannot be made from the template."""


class SpecialError(UnfitError):
    """A size is 0 or 1: it may broadcast, and rewrites may see that."""


class Symbolic(Program):
    """A program in which sizes may be symbols; stand-ins are made when they are known."""

    sizes: Sizes = MappingProxyType({})
    """What is known before a run; other symbols are those that only values decide."""

    def shape_stand_in(self, spec: TensorSpec) -> int:
        """Return a value for what is a constant once the sizes are known."""
        return self.new_value(TensorSpec(spec.shape, spec.dtype))

    def is_sized(self, spec: TensorSpec) -> bool:
        """Tell whether no size depends on values."""
        return all(s in self.sizes for d in spec.shape for s in symbols(d))


class Flat:
    """A request flattened with symbolic sizes: the values and instructions before rewrites."""

    def __init__(
        self,
        plan: Plan,
        start: int,
        end: int,
        dynamic: Sequence[Tensor],
        known: Known,
        sizes: Sizes,
    ) -> None:
        device = plan.device.name
        self._nodes: list[Node] = []
        """Those of the part that compute, and its constants."""

        def is_lowered(op: Op, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> bool:
            given = [None if s is None else s.substitute(sizes) for s in ins]
            return find_launch(op, device, given, [s.substitute(sizes) for s in outs]) is not None

        self._is_lowered = is_lowered
        program = self.symbolic = Symbolic(is_lowered, plan.training)
        program.sizes = sizes
        for node in plan.order[start:end]:
            if isinstance(node.op, Constant) and node.outputs[0] not in known:
                array = node.graph.values.array(node.name)
                program.numbers[node.outputs[0]] = program.constant(array)
                self._nodes.append(node)
            elif not isinstance(node.op, Source) and not all(t in known for t in node.outputs):
                self._emit(node, plan.training, known)
                self._nodes.append(node)
        numbers = program.numbers
        program.outputs = [
            t
            for t in plan.leaving(start, end, dynamic)
            if t in numbers and program.sources.get(numbers[t]) is not t
        ]
        made = {o for instr in program.instrs for o in instr.outs}
        self.stand_ins = [
            i
            for i in range(len(program.specs))
            if i not in made and i not in program.sources and i not in program.constants
        ]
        self.settled = [not instr.op.symbols() for instr in program.instrs]
        """Whether an instruction is the same for all sizes."""
        self.maker = {o: n for n, instr in enumerate(program.instrs) for o in instr.outs}
        self.distinct: dict[Any, int] = {}
        """Specs that are the same for all sizes, once each."""
        self.kinds = [self._kind(s) for s in program.specs]
        classes: dict[Any, int] = {}
        self.checked = [
            n
            for n, instr in enumerate(program.instrs)
            if classes.setdefault(
                (
                    instr.op.key(),
                    tuple(None if i is None else self.kinds[i] for i in instr.ins),
                    tuple(self.kinds[o] for o in instr.outs),
                ),
                n,
            )
            == n
        ]
        """One instruction of each kind; what infers there infers for all of its kind."""
        met = {o for t in dynamic for o in program.instrs[self.maker[numbers[t]]].outs}
        for i, spec in enumerate(program.specs):
            if not program.is_sized(spec) and i not in met:
                raise UnfitError

    def _number(self, t: Tensor) -> int:
        program = self.symbolic
        if t not in program.numbers:
            program.numbers[t] = program.new_value(t.spec)
            program.sources[program.numbers[t]] = t
        return program.numbers[t]

    def opened(self, at: Sized) -> Program:
        """Return the instructions of the nodes, opened at certain sizes, with the same numbers."""
        known, symbolic = at.known(), self.symbolic
        program = Program(self._is_lowered, symbolic.training)
        numbers: dict[Tensor, int] = {}

        def number(t: Tensor) -> int:
            if t not in numbers:
                numbers[t] = program.new_value(known[t])
            return numbers[t]

        for node in self._nodes:
            if isinstance(node.op, Constant):
                numbers[node.outputs[0]] = program.new_value(known[node.outputs[0]])
                continue
            op = node.op.for_mode(symbolic.training).bind(at.sizes)
            ins = [None if t is None else number(t) for t in node.inputs]
            made = program.emit(op, ins, [known[t] for t in node.outputs], node, node.name)
            numbers.update(zip(node.outputs, made, strict=True))
        return program

    def _emit(self, node: Node, training: bool, known: Known) -> None:
        program = self.symbolic
        op = node.op.for_mode(training)
        ins = [None if t is None else self._number(t) for t in node.inputs]
        for i in op.needs_values:
            spec = program.specs[at] if i < len(ins) and (at := ins[i]) is not None else None
            if spec is not None and not is_known(spec):
                raise UnfitError
        made = program.emit(op, ins, [t.spec for t in node.outputs], node, node.name)
        for t, value in zip(node.outputs, made, strict=True):
            if t not in known:
                program.numbers[t] = value

    def _kind(self, spec: TensorSpec) -> int:
        if spec.by_reference:
            raise UnfitError
        key = spec.shape, spec.dtype, spec.key()[2] if is_known(spec) else None
        return self.distinct.setdefault(key, len(self.distinct))


class Sized:
    """A flat request at certain sizes: concrete specs, and ops whose attributes are settled."""

    def __init__(self, flat: Flat, sizes: Sizes) -> None:
        self.flat, self.sizes = flat, dict(sizes)
        program = flat.symbolic
        if not program.sizes.keys() <= sizes.keys():  # a size of max(0, T - 3) = 0 tells no T
            raise UnfitError
        shapes: dict[Any, Any] = {}
        found = []
        for shape, dtype, value in flat.distinct:
            if shape not in shapes:
                shapes[shape] = tuple(sized(d, sizes) for d in shape)
            known = None if value is None else np.array(value, np.int64).reshape(shapes[shape])
            found.append(TensorSpec(shapes[shape], dtype, known))
        self.specs = [found[kind] for kind in flat.kinds]
        self._ops: dict[Op, Op] = {}
        self._made: dict[int, Array] = {}
        for n in flat.checked:
            instr = program.instrs[n]
            ins = [None if i is None else self.specs[i] for i in instr.ins]
            inferred = infer_specs(self.op(n), ins)
            if not all(map(agree, inferred, (self.specs[o] for o in instr.outs))):
                raise UnfitError

    def known(self) -> Known:
        """Return the specs of all tensors that are computed."""
        return {t: self.specs[i] for t, i in self.flat.symbolic.numbers.items()}

    def op(self, n: int) -> Op:
        """Return the op of an instruction."""
        op = self.flat.symbolic.instrs[n].op
        return op if self.flat.settled[n] else self.bound(op)

    def bound(self, op: Op) -> Op:
        """Return an op with sizes in its attributes."""
        found = self._ops.get(op)
        if found is None:
            found = self._ops[op] = op.bind(self.sizes)
        return found

    def constant(self, number: int, recipes: Mapping[int, Recipe] = MappingProxyType({})) -> Array:
        """Return a stand-in, or what is computed from constants alone, by a recipe or by its op."""
        flat = self.flat
        if number in flat.symbolic.constants:
            return flat.symbolic.constants[number]
        if number in self._made:
            return self._made[number]
        n, recipe = flat.maker.get(number), recipes.get(number)
        if recipe is None and n is not None:
            instr = flat.symbolic.instrs[n]
            recipe = Recipe(instr.op, instr.ins, instr.outs.index(number), number)
        if recipe is None:
            if number in flat.symbolic.sources or number >= len(self.specs):
                raise UnfitError
            shape: Any = self.specs[number].shape
            found = np.broadcast_to(np.zeros((), self.specs[number].dtype), shape)
        else:
            xs = [None if i is None else self.constant(i, recipes) for i in recipe.ins]
            what = recipe.what
            if isinstance(what, Op):
                n = flat.maker.get(-1 if recipe.made is None else recipe.made)
                op = what if n is None else self.op(n)
                with np.errstate(all="ignore"):
                    found = run_forward(op, xs, training=flat.symbolic.training)[recipe.index]
            else:
                found = what(*xs)
        self._made[number] = found
        return found

    def program(self) -> Program:
        """Return the program before rewrites.

        It is compared with what the nodes give at these sizes: an op that opens may ask whether two
        sizes are equal, which nobody knows of symbols.
        """
        flat = self.flat.symbolic
        constants = dict(flat.constants)
        constants.update((i, self.constant(i)) for i in self.flat.stand_ins)
        instrs = [
            Instr(self.op(n), i.ins, i.outs, i.origin, i.path) for n, i in enumerate(flat.instrs)
        ]
        fields = {f.name: getattr(flat, f.name) for f in dataclasses.fields(Program)}
        fields |= {"specs": list(self.specs), "instrs": instrs, "constants": constants}
        fields |= {name: copy.copy(fields[name]) for name in ("sources", "numbers", "outputs")}
        del fields["log"]
        program = Program(**fields)
        if _wiring(program) != _wiring(self.flat.opened(self)):
            raise UnfitError
        return program


def _wiring(program: Program) -> list[tuple[Any, ...]]:
    return [(i.op.key(), i.ins, i.outs) for i in program.instrs]


def symbols(d: int | Dim) -> frozenset[str]:
    """Return the names of the sizes that a dimension is made of."""
    return d.symbols if isinstance(d, Dim) else frozenset()


def sized(d: int | Dim, sizes: Sizes) -> int | Dim:
    """Return a size, unless a value decides it; those of 0 and 1 behave unlike others."""
    if not isinstance(d, Dim):
        return d
    found = d.substitute(sizes)
    if isinstance(found, int) and found < 2:
        raise SpecialError
    return found


def agree(a: TensorSpec, b: TensorSpec) -> bool:
    """Tell whether two specs are one, up to the names of sizes that only values decide."""
    return (
        a.dtype == b.dtype
        and len(a.shape) == len(b.shape)
        and all(
            d == e or (isinstance(d, Dim) and isinstance(e, Dim))
            for d, e in zip(a.shape, b.shape, strict=True)
        )
    )


def is_known(spec: TensorSpec) -> bool:
    """Tell whether the value of a spec is known, without any symbol."""
    return spec.value is not None and not any(isinstance(d, Dim) for d in np.ravel(spec.value))
