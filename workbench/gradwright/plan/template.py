"""Templates: what the plans of one request share over all shapes, so that a new shape is cheap.

The first shape is compiled plainly. For the second the request is flattened once more, with the
graph's symbolic sizes left in; every further shape fills them in and begins at the rewrites. Where
two shapes in a row are rewritten to the same instructions, these are kept, too, and the next shape
only fills in sizes, computes the constants that depend on them, and is laid out.

Nothing is taken on trust: the op of each kind of instruction infers its specs anew, what a rewrite
left out or put in the place of another must have the same shape again, and sizes of 0 and 1, which
broadcast, are compiled plainly. Whatever does not fit is compiled plainly, which explains errors.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from types import MappingProxyType
from typing import Any

import numpy as np

from ..device import Device
from ..graph import Constant, Node, Source, Tensor
from ..lowering import find_launch, lowering_revision
from ..op import Op, infer_specs, registry_revision, run_forward
from ..rewrite import Instr, Program, Recipe, rewrite
from ..rewrite.schedule import schedule
from ..spec import Dim, TensorSpec, content_of, known_spec
from .cache import Bounded
from .options import DEFAULTS, PlanOptions
from .plan import Plan

Array = np.ndarray[Any, Any]
Sizes = Mapping[str, int]
Known = dict[Tensor, TensorSpec]
Filled = tuple[Program, int, Sequence[Tensor], Known]
"""A part after its rewrites, where it ends, the tensors met there, and the specs known then."""
TRIES = 3
"""How often in a row sizes may not fit before a request is always compiled plainly."""
KNOWN = 8
"""How many different lists of instructions are kept for one request."""


class Templates:
    """Makes plans, and keeps what those of one request have in common; threads may share it.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.tanh(g.placeholder("x", ("B", 4))).sum()
    >>> templates, device = Templates(), gw.device.open_device("cpu")
    >>> plans = [
    ...     templates.plan([y], {g["x"]: TensorSpec((n, 4))}, device, training=False)
    ...     for n in range(2, 7)
    ... ]
    >>> [plan.memory().arena for plan in plans]
    [64, 64, 64, 128, 128]
    >>> plans[0].shapes.counts
    {'plain': 1, 'flat': 2, 'filled': 2}
    """

    def __init__(self, most: int = 64) -> None:
        self._requests, self._lock = Bounded[Plan](most), Lock()

    def clear(self) -> None:
        """Forget all requests."""
        self._requests.clear()

    def plan(
        self,
        targets: Sequence[Tensor],
        feeds: Mapping[Tensor, TensorSpec],
        device: Device,
        *,
        training: bool,
        options: PlanOptions = DEFAULTS,
        sizes: Sizes = MappingProxyType({}),
        **more: Any,
    ) -> Plan:
        """Return a plan; the arguments are those of :class:`Plan`."""
        key = (
            tuple(targets), tuple((t, s.dtype) for t, s in feeds.items()), device.name, training,
            options, _revisions([*targets, *more.get("updates", ())]), tuple(sorted(sizes)),
            *_hashable(more),
        )  # fmt: skip
        if options.verify or any(s.by_reference for s in feeds.values()):
            return Plan(
                targets, feeds, device, training=training, options=options, sizes=sizes, **more
            )
        with self._lock:
            held = self._requests.find(key)
        if held is not None:
            return held.again(feeds, sizes, device)
        plan = Plan(
            targets, feeds, device, training=training, options=options, sizes=sizes,
            shapes=Shapes(), **more,
        )  # fmt: skip
        with self._lock:
            self._requests.keep(key, plan.bare())
        return plan


class UnfitError(Exception):
    """These sizes, or this request, cannot be made from the template."""


class SpecialError(UnfitError):
    """A size is 0 or 1: it may broadcast, and rewrites may see that."""


Made = tuple[str, Program, "_Sized"]


class Shapes:
    """What the plans of one request share: for each part, by where it begins, a template."""

    def __init__(self) -> None:
        self._parts: dict[int, _Template] = {}
        self.counts = {"plain": 0, "flat": 0, "filled": 0}
        """How many parts were compiled plainly, from flat programs, or from known instructions."""

    def fill(self, plan: Plan, start: int, known: Known, sizes: Sizes) -> Filled | None:
        """Return the program of a part after its rewrites, with where it ends and what is known."""
        template = self._parts.get(start)
        if template is None or template.fails >= TRIES:
            return None
        try:
            how, program, at = template.program(plan, start, known, sizes)
        except Exception:  # the plain way says what is wrong, if anything is
            return None
        self.counts[how] += 1
        if template.end < len(plan.order):
            known = {**known, **at.known()}
        return program, template.end, template.dynamic, known

    def learn(self, start: int, end: int, dynamic: Sequence[Tensor], by_value: bool) -> None:
        """Remember how a part came out that was compiled plainly."""
        self.counts["plain"] += 1
        if start not in self._parts and not by_value:
            self._parts[start] = _Template(end, tuple(dynamic))


class _Template:
    """One part of a request: its flat program, and the instructions that shapes have in common."""

    def __init__(self, end: int, dynamic: tuple[Tensor, ...]) -> None:
        self.end, self.dynamic = end, dynamic
        self.fails = 0
        """How often in a row sizes did not fit."""
        self._flat: _Flat | None = None
        self._known: list[_Rewritten] = []
        self._last: tuple[Sizes, Program] | None = None

    def program(self, plan: Plan, start: int, known: Known, sizes: Sizes) -> Made:
        """Return how the program for some sizes was made, after and before its rewrites."""
        try:
            if self._flat is None:
                self._flat = _Flat(plan, start, self.end, self.dynamic, known, sizes)
            at = _Sized(self._flat, sizes)
        except SpecialError:
            raise
        except Exception:
            self.fails += 1
            raise
        self.fails = 0
        for rewritten in self._known:
            filled = rewritten.at(at)
            if filled is not None:
                return "filled", filled, at
        program = at.program()
        rewrite(program, plan.options.skip)
        schedule(program)
        self._learn(at, program)
        return "flat", program, at

    def _learn(self, at: _Sized, program: Program) -> None:
        """Keep the instructions if the shape before was rewritten to the same ones."""
        kept = dataclasses.replace(  # what follows goes on to change the program
            program,
            specs=list(program.specs),
            instrs=list(program.instrs),
            constants=dict(program.constants),
        )
        if self._last is not None and len(self._known) < KNOWN:
            sizes, before = self._last
            with contextlib.suppress(UnfitError):
                self._known.insert(0, _Rewritten(at, kept, _Sized(at.flat, sizes), before))
        self._last = at.sizes, kept


class _Symbolic(Program):
    """A program in which sizes may be symbols; stand-ins are made when they are known."""

    sizes: Sizes = MappingProxyType({})
    """What is known before a run; other symbols are those that only values decide."""

    def shape_stand_in(self, spec: TensorSpec) -> int:
        return self.new_value(TensorSpec(spec.shape, spec.dtype))

    def is_sized(self, spec: TensorSpec) -> bool:
        return all(s in self.sizes for d in spec.shape for s in _symbols(d))


class _Flat:
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

        def is_lowered(op: Op, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> bool:
            given = [None if s is None else s.substitute(sizes) for s in ins]
            return find_launch(op, device, given, [s.substitute(sizes) for s in outs]) is not None

        program = self.symbolic = _Symbolic(is_lowered, plan.training)
        program.sizes = sizes
        for node in plan.order[start:end]:
            if isinstance(node.op, Constant) and node.outputs[0] not in known:
                array = node.graph.values.array(node.name)
                program.numbers[node.outputs[0]] = program.constant(array)
            elif not isinstance(node.op, Source) and not all(t in known for t in node.outputs):
                self._emit(node, plan.training, known)
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

    def _emit(self, node: Node, training: bool, known: Known) -> None:
        program = self.symbolic
        op = node.op.for_mode(training)
        ins = [None if t is None else self._number(t) for t in node.inputs]
        for i in op.needs_values:
            spec = program.specs[at] if i < len(ins) and (at := ins[i]) is not None else None
            if spec is not None and not _is_known(spec):
                raise UnfitError
        made = program.emit(op, ins, [t.spec for t in node.outputs], node, node.name)
        for t, value in zip(node.outputs, made, strict=True):
            if t not in known:
                program.numbers[t] = value

    def _kind(self, spec: TensorSpec) -> int:
        if spec.by_reference:
            raise UnfitError
        key = spec.shape, spec.dtype, spec.key()[2] if _is_known(spec) else None
        return self.distinct.setdefault(key, len(self.distinct))


class _Sized:
    """A flat request at certain sizes: concrete specs, and ops whose attributes are settled."""

    def __init__(self, flat: _Flat, sizes: Sizes) -> None:
        self.flat, self.sizes = flat, dict(sizes)
        program = flat.symbolic
        shapes: dict[Any, Any] = {}
        found = []
        for shape, dtype, value in flat.distinct:
            if shape not in shapes:
                shapes[shape] = tuple(_sized(d, sizes) for d in shape)
            known = None if value is None else np.array(value, np.int64).reshape(shapes[shape])
            found.append(TensorSpec(shapes[shape], dtype, known))
        self.specs = [found[kind] for kind in flat.kinds]
        self._ops: dict[Op, Op] = {}
        self._made: dict[int, Array] = {}
        for n in flat.checked:
            instr = program.instrs[n]
            ins = [None if i is None else self.specs[i] for i in instr.ins]
            inferred = infer_specs(self.op(n), ins)
            if not all(map(_agree, inferred, (self.specs[o] for o in instr.outs))):
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
        """Return the program before rewrites."""
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
        return Program(**fields)


class _Rewritten:
    """The instructions that two shapes were both rewritten to."""

    def __init__(self, at: _Sized, now: Program, earlier: _Sized, before: Program) -> None:
        flat = at.flat
        self._flat, self._program = flat, now
        same = (
            len(now.instrs) == len(before.instrs)
            and now.numbers == before.numbers
            and now.sources == before.sources
            and set(now.constants) == set(before.constants)
            and len(now.specs) == len(before.specs)
        )
        if not same:
            raise UnfitError
        self._pinned = {s: n for s, n in at.sizes.items() if earlier.sizes.get(s) == n}
        self._equal: dict[tuple[int, int], None] = {}
        """Values that must have one spec, for a rewrite took one for the other."""
        self._sized: list[tuple[int, Op]] = []
        """Instructions with sizes among their attributes, and these as symbols."""
        self._inferred: list[int] = []
        """Instructions that a rewrite made."""
        for place, (a, b) in enumerate(zip(now.instrs, before.instrs, strict=True)):
            if a.ins != b.ins or a.outs != b.outs or a.path != b.path:
                raise UnfitError
            n = flat.maker.get(a.outs[0])
            if n is not None and a.op == at.op(n) and b.op == earlier.op(n):
                given = flat.symbolic.instrs[n]
                if not flat.settled[n]:
                    self._sized.append((place, given.op))
                for old, new in zip((*given.ins, *given.outs), (*a.ins, *a.outs), strict=False):
                    self._must_equal(old, new)
            else:
                self._inferred.append(place)
                if a.op != b.op:
                    self._sized.append((place, _fitted(a.op, b.op, at, earlier)))
        for t in now.outputs:
            self._must_equal(flat.symbolic.numbers[t], now.numbers[t])
        self._recipes = now.recipes
        self._computed: list[int] = []
        for number, array in now.constants.items():
            if number in flat.symbolic.constants:
                continue
            if number >= len(flat.kinds) and number not in now.recipes:
                self._must_be(array, before.constants[number])
            else:
                self._computed.append(number)
                self._must_be(at.constant(number, now.recipes), array)
                self._must_be(earlier.constant(number, now.recipes), before.constants[number])

    @staticmethod
    def _must_be(array: Array, other: Array) -> None:
        same = array.dtype == other.dtype and array.shape == other.shape
        if not same or content_of(array) != content_of(other):
            raise UnfitError

    def _must_equal(self, old: int | None, new: int | None) -> None:
        if old is None or new is None:
            if old is not new:
                raise UnfitError
        elif old != new:
            kinds = self._flat.kinds
            if new >= len(kinds) or kinds[old] != kinds[new]:
                self._equal[old, new] = None

    def at(self, sized: _Sized) -> Program | None:
        """Return the program at other sizes, or None if these are not what it was learned for."""
        if any(sized.sizes.get(s) != n for s, n in self._pinned.items()):
            return None
        held = self._program
        specs = [*sized.specs, *held.specs[len(sized.specs) :]]
        constants = dict(held.constants)
        for number in self._computed:
            constants[number] = sized.constant(number, self._recipes)
            specs[number] = known_spec(constants[number])
        instrs = list(held.instrs)
        for place, op in self._sized:
            i = held.instrs[place]
            instrs[place] = Instr(
                sized.bound(op), i.ins, i.outs, i.origin, i.path,
                origins=i.origins, recompute=i.recompute,
            )  # fmt: skip
        for place in self._inferred:
            i = instrs[place]
            found = infer_specs(i.op, [None if x is None else specs[x] for x in i.ins])
            for o, spec in zip(i.outs, found, strict=False):
                if o < len(sized.specs) and spec != specs[o]:
                    return None
                specs[o] = spec
        if any(specs[old] != specs[new] for old, new in self._equal):
            return None
        return dataclasses.replace(
            held,
            specs=specs,
            instrs=instrs,
            constants=constants,
            sources=dict(held.sources),
            numbers=dict(held.numbers),
            outputs=list(held.outputs),
        )


def _revisions(tensors: Iterable[Tensor]) -> tuple[int, ...]:
    """Return what changes when a graph is edited, or an op or a lowering defined anew."""
    return *[t.graph.revision for t in tensors][:1], registry_revision(), lowering_revision()


def _hashable(more: Mapping[str, Any]) -> list[Any]:
    return [(k, tuple(v.items()) if isinstance(v, Mapping) else v) for k, v in more.items()]


def _fitted(now: Op, before: Op, at: _Sized, earlier: _Sized) -> Op:
    """Return the op whose attributes are these at two shapes: sizes, or products of neighbours."""
    meanings: dict[tuple[Any, Any], set[int | Dim]] = {}
    for shape, *_ in at.flat.distinct:
        for start in range(len(shape)):
            product: int | Dim = 1
            for d in shape[start:]:
                product = product * d
                if isinstance(product, Dim):
                    pair = _sized(product, at.sizes), _sized(product, earlier.sizes)
                    meanings.setdefault(pair, set()).add(product)

    def meant(a: Any, b: Any) -> Any:
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(map(meant, a, b))
        if a == b:
            return a
        found = meanings.get((a, b), set())
        if len(found) != 1:
            raise UnfitError
        return found.pop()

    if type(now) is not type(before):
        raise UnfitError
    other = before.attributes()
    return now.replace(**{k: meant(v, other[k]) for k, v in now.attributes().items()})


def _symbols(d: int | Dim) -> frozenset[str]:
    return d.symbols if isinstance(d, Dim) else frozenset()


def _sized(d: int | Dim, sizes: Sizes) -> int | Dim:
    """Return a size, unless a value decides it; those of 0 and 1 behave unlike others."""
    if not isinstance(d, Dim):
        return d
    found = d.substitute(sizes)
    if isinstance(found, int) and found < 2:
        raise SpecialError
    return found


def _agree(a: TensorSpec, b: TensorSpec) -> bool:
    """Tell whether two specs are one, up to the names of sizes that only values decide."""
    return (
        a.dtype == b.dtype
        and len(a.shape) == len(b.shape)
        and all(
            d == e or (isinstance(d, Dim) and isinstance(e, Dim))
            for d, e in zip(a.shape, b.shape, strict=True)
        )
    )


def _is_known(spec: TensorSpec) -> bool:
    """Tell whether the value of a spec is known, without any symbol."""
    return spec.value is not None and not any(isinstance(d, Dim) for d in np.ravel(spec.value))
