"""From program to program: groups of instructions become kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ..graph import Node
from ..program.declined import DeclinedError
from ..program.program import Instr, Program
from ..program.turns import TURNS
from ..spec.rounding import rounded
from .builder import Axes, Builder, Scalar, Scatter, Table, Term, working
from .functions import EXP, FUNCTIONS
from .fused import Fused
from .groups import Group, form_groups, in_order
from .ir import Kernel
from .overlay import overlay
from .recompute import leaving, recompute
from .rules import rule_of
from .split import split
from .steps import Flow, Step

PLAIN = frozenset({0.0, 0.5, 1.0, 2.0, 3.0, 6.0, float("inf")})
"""Constants that are compiled in; others are read, for many depend on sizes."""
LARGE = 1 << 18
"""Elements from which a cheap op alone is no faster than in numpy, whose call costs 1 µs."""
MAX_KERNELS = 2048
"""How many kernels are remembered."""
COMPILED = 3_000
"""What all different kernels of a program may cost, in additions, of which LLVM compiles some 1,000
a second; steps of the engine's benchmark take up to 560."""


def fuse(
    program: Program,
    apart: Sequence[Instr] = (),
    replaced: Collection[str] = frozenset(),
    follow: Callable[[Program], None] | None = None,
    *,
    all_of_it: bool = False,
    singly: bool = False,
) -> Program:
    """Return a program whose groups of instructions are kernels; ``program`` stays as it is.

    ``apart`` are kernels that came of this program before: what they compute stays as it is.
    ``replaced`` are ops that run as somebody else has said: they stay as they are, too. ``follow``
    may join kernels to what makes their inputs. ``all_of_it``: there is no numpy that would compute
    what is cheap alone, or takes long to compile. ``singly`` makes a kernel of each op.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> plan = gw.Session(g).plan(gw.nn.softmax(gw.tanh(x * 2.0) + 1.0), {"x": (4, 3)})
    >>> [instr.op for instr in fuse(plan.program).instrs]
    [fused(mul tanh add softmax)]
    """
    work = split(program, replaced)
    declined = _within(apart, work.instrs)
    alone = set(range(len(work.instrs))) if singly else set[int]()
    while True:
        admitted = [
            i not in declined and instr.op.name not in replaced
            for i, instr in enumerate(work.instrs)
        ]
        groups, flow = form_groups(work, admitted, alone)
        recompute(groups, flow)
        fusion = _Fusion(flow, all_of_it=all_of_it)
        for group in groups:
            fusion.add(group)
        dear = set() if fusion.declined or all_of_it else fusion.dear()
        if not fusion.declined and not dear:
            break
        declined |= fusion.declined | (dear & alone)
        alone |= dear
    units = [(i, instr) for i, instr in enumerate(work.instrs) if i not in fusion.taken]
    units = sorted(units + fusion.units, key=lambda unit: unit[0])
    n_body = len(work.instrs) if work.n_body is None else work.n_body
    body, tail = [u for u in units if u[0] < n_body], [u for u in units if u[0] >= n_body]
    last = _alive(in_order(tail), work, [])
    first = _alive(in_order(body), work, [i for instr in last for i in instr.ins])
    work.instrs = first + last
    work.n_body = None if work.n_body is None else len(first)
    work.cuts = []
    if follow is not None:
        follow(work)
    overlay(work)
    return work


def _within(kernels: Sequence[Instr], instrs: Sequence[Instr]) -> set[int]:
    """Return the places of the instructions that kernels stand for, repeated ones included."""
    makers = {o: i for i, instr in enumerate(instrs) for o in instr.outs}
    found: set[int] = set()
    for kernel in kernels:
        waiting = list(kernel.outs)
        while waiting:
            i = makers.get(waiting.pop())
            if i is not None and i not in found:
                found.add(i)
                waiting += [x for x in instrs[i].ins if x is not None and x not in kernel.ins]
    return found


def _alive(instrs: list[Instr], program: Program, read_later: list[int | None]) -> list[Instr]:
    """Return the instructions that are needed: views that kernels look through may not be."""
    needed = {program.numbers[t] for t in program.outputs}
    needed.update(i for i in read_later if i is not None)
    kept = []
    for instr in reversed(instrs):
        if not needed.isdisjoint(instr.outs):
            needed.update(i for i in instr.ins if i is not None)
            kept.append(instr)
    return kept[::-1]


class _Fusion:
    """Makes instructions of groups."""

    def __init__(self, flow: Flow, *, all_of_it: bool) -> None:
        self.flow, self.program, self._all_of_it = flow, flow.program, all_of_it
        self.units: list[tuple[int, Instr]] = []
        """The new instructions, each with the place of the first that it stands for."""
        self.taken: set[int] = set()
        """The instructions that they stand for, or that nobody needs now."""
        self.declined: set[int] = set()
        """Those that a rule did not take after all."""
        self.uses: dict[Kernel, list[Group]] = {}
        """The groups that each kernel computes."""
        self.scalars = {
            (a.dtype, a.tobytes()): v for v, a in self.program.constants.items() if not a.ndim
        }

    def add(self, group: Group) -> None:
        """Turn a group into an instruction, unless it gains nothing."""
        TURNS.pause()
        program, flow = self.program, self.flow
        steps = sorted(group.steps, key=lambda step: step.index)
        indices = [step.index for step in steps]
        outs = leaving(group, flow)
        if not outs:  # its readers repeat it
            self.taken.update(indices)
            return
        key, order = _signature(program, group, steps, outs)
        found = _kernels.get(key)
        if found is None:
            if len(_kernels) >= MAX_KERNELS:
                _kernels.clear()
            found = _kernels[key] = _built(program, group, steps, outs, order)
        if isinstance(found, int):
            self.declined.add(indices[found])
            return
        kernel, sources = found
        if len(steps) == 1 and not self._all_of_it and not _pays_alone(kernel, group):
            return
        numbers = list(order)
        ins = tuple(self._scalar(s) if isinstance(s, Scalar) else numbers[s] for s in sources)
        names = tuple(step.instr.op.name for step in steps)
        specs = [program.specs[v].with_shape(program.specs[v].shape) for v in outs]
        last = steps[-1].instr
        origins = tuple(dict.fromkeys((last.origin, *(n for s in steps for n in s.instr.origins))))
        sites = _sites(kernel, steps, [*ins, *outs], origins)
        made = Instr(
            Fused(kernel, group.space, specs, names, sites), ins, tuple(outs),
            last.origin, last.path, origins=origins, recompute=last.recompute,
        )  # fmt: skip
        self.units.append((min(flow.producer[v] for v in outs), made))
        self.taken.update(indices)
        self.uses.setdefault(kernel, []).append(group)

    def dear(self) -> set[int]:
        """Return the steps of the kernels that would take too long to compile, all together.

        What is kept, for half of what is allowed, serves the most elements for its price. In a long
        program where no two groups are alike, the others run step by step, each step's kernel
        being that of many.
        """
        prices = {kernel: kernel.cost for kernel in self.uses}
        if sum(prices.values()) <= COMPILED:
            return set()

        def worth(kernel: Kernel) -> float:
            groups = self.uses[kernel]
            return sum(len(g.steps) * math.prod(g.space) for g in groups) / prices[kernel]

        left, dear = COMPILED // 2, set[int]()
        for kernel in sorted(self.uses, key=worth, reverse=True):
            left -= prices[kernel]
            if left < 0:
                dear.update(step.index for group in self.uses[kernel] for step in group.steps)
        return dear

    def _scalar(self, source: Scalar) -> int:
        """Return the value that holds a number, a new one if the program lacks it."""
        array = rounded(source.number, source.dtype)
        key = array.dtype, array.tobytes()
        if key not in self.scalars:
            self.scalars[key] = self.program.constant(array)
        return self.scalars[key]


# -- the kernel of a group ------------------------------------------------------------------------

_kernels: dict[Any, tuple[Kernel, list[int | Scalar]] | int] = {}
"""What groups have become: layers of one kind, and plans for other sizes, share their kernels."""


def _signature(
    program: Program, group: Group, steps: list[Step], outs: list[int]
) -> tuple[Any, dict[int, int]]:
    """Return all that a kernel depends on, with values numbered as they come, and the numbers."""
    order: dict[int, int] = {}
    parts: list[Any] = [len(group.space), group.n_columns]
    for step in steps:
        reads: list[Any] = []
        for read in step.reads:
            if read is None:
                reads.append(None)
                continue
            value, axes = read
            if value not in order:
                order[value] = len(order)
                number = _uniform(program, value)
                parts.append((program.specs[value].dtype, type(number), repr(number)))
            reads.append((order[value], axes))
        place = step.place
        size = place.columns if place.n_columns else None
        parts.append((step.instr.op, tuple(reads), size, place.sums, len(step.space)))
        for value, axes in step.writes:
            order[value] = len(order)
            parts.append((program.specs[value].dtype, axes, value in step.late))
    parts.append(tuple(order[v] for v in outs))
    return tuple(parts), order


def _built(
    program: Program,
    group: Group,
    steps: list[Step],
    outs: list[int],
    order: dict[int, int],
) -> tuple[Kernel, list[int | Scalar]] | int:
    """Return the kernel of a group and what it reads, or the step whose rule declines."""
    rank = len(group.space)
    builder = Builder(rank, group.n_columns or _free_columns(group))
    terms: dict[int, Term | Scatter] = {}
    modes: dict[int, str] = {}
    for at, step in enumerate(steps):
        args = [
            None if read is None else _argument(builder, program, terms, *read)
            for read in step.reads
        ]
        builder.has_one_column = step.has_one_column
        try:
            rule = rule_of(step.instr.op)
            assert rule is not None, "a step is an op that has one"
            found = rule.build(step.instr.op, step.place, *args)
        except DeclinedError:
            return at
        made = found if isinstance(found, tuple) else (found,)
        for (value, _), term in zip(step.writes, made, strict=True):
            # Who reads it here reads what is stored, or what would be: plans agree to the bit.
            dtype = program.specs[value].dtype
            terms[value] = term if isinstance(term, Scatter) else builder.rounded(term, dtype)
            if value in step.late:
                modes[value] = "sum" if len(step.space) == rank else "sum_rows"
    stores = [(terms[v], group.made[v], modes.get(v, "set"), program.specs[v].dtype) for v in outs]
    kernel, sources = builder.kernel(stores)
    return kernel, [s if isinstance(s, Scalar) else order[s] for s in sources]


def _sites(
    kernel: Kernel,
    steps: Sequence[Step],
    values: Sequence[int],
    origins: Sequence[Node],
) -> dict[int, int]:
    """Return for each operand of which indices name places which of the origins does so."""
    found: dict[int, int] = {}
    for at, (operand, value) in enumerate(zip(kernel.operands, values, strict=True)):
        if not operand.named:
            continue
        using = {
            step.instr.ins: step.instr.origin
            for step in steps
            for v, axes in (*filter(None, step.reads), *step.writes)
            if v == value and min(axes, default=0) < 0
        }
        before = sum(values[i] == value for i in found)  # operands come in the order of steps
        found[at] = origins.index([*using.values()][min(before, len(using) - 1)])
    return found


def _free_columns(group: Group) -> int:
    """Return how many axes are columns where no step says so: along them, rows stand still."""
    rank = len(group.space)
    prefixes = [
        len(axes)
        for places in (*group.reads.values(), set(group.made.values()))
        for axes in places
        if 0 < len(axes) < rank and axes == tuple(range(len(axes)))
    ]
    return rank - max(prefixes, default=0)


def _uniform(program: Program, value: int) -> Any:
    """Return the number that all elements of a constant are, None for other values."""
    array = program.constants.get(value)
    if array is None or array.size == 0 or (array.size > 1 and any(array.strides)):
        return None
    return array.flat[0].item()


def _argument(
    builder: Builder, program: Program, terms: dict[int, Term | Scatter], value: int, axes: Axes
) -> Term | Scatter | Table:
    """Return what a step reads: what another one has made, an input, or places of one."""
    if min(axes, default=0) < 0:
        return Table(builder, value, axes, program.specs[value].dtype)
    return terms.get(value) or _load(builder, program, value, axes)


def _load(builder: Builder, program: Program, value: int, axes: Axes) -> Term:
    """Return an input; one that is a single number throughout is a constant, or a scalar."""
    number, dtype = _uniform(program, value), program.specs[value].dtype
    if number is None:
        return builder.load(value, axes, dtype)
    dtype = working(dtype)
    if dtype.kind != "f" or abs(number) in PLAIN or number != number:
        return builder.const(number, dtype)
    return builder.scalar(number, dtype)


def _pays_alone(kernel: Kernel, group: Group) -> bool:
    """Tell whether one op is worth a kernel: numpy does cheap ones as fast once they are large.

    That is, ufuncs: others make a new array in each run.
    """
    size = int(np.prod(group.space))
    is_ufunc = group.steps[0].instr.op.ufunc is not None
    costly = any(
        value.op == "reduce" or (value.op in FUNCTIONS and FUNCTIONS[value.op].cost >= EXP)
        for value in kernel.values
    )
    return costly or size <= LARGE or len(kernel.outputs) > 1 or not is_ufunc
