"""Which updates are written over their variables, and in what order the tail of a step runs.

An update may overwrite its variable if whoever reads the old value has done so: the body has run,
and what else reads it in the tail comes before. It may itself read the old value, element by
element; the last of several steps in one plan does not. All such writes are the last thing of a
step, one chain of machine code, so nothing ends a step between two of them.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..graph import Tensor
from ..ops.updates.boundary import Boundary
from ..program.program import Instr, Program
from .fused import Fused
from .ir import overlaid

Pair = tuple[int, int]
"""Positions of an output and of an input."""


@dataclass(frozen=True)
class Overwrite:
    """An update by a kernel: an output of an instruction may lie where the old value lies."""

    variable: Tensor
    old: int
    """Number of the old value."""
    instr: Instr
    ins: int | None
    """Position of the old value among the inputs, if it is read there."""
    outs: int
    """Position of the new value among the outputs."""

    @property
    def new(self) -> int:
        """Return the number of the new value."""
        return self.instr.outs[self.outs]


def split_tail(program: Program, early: Iterable[Tensor]) -> None:
    """Put last what only updates need, and not those results that must come early.

    Each part between boundaries is split as if it were alone; of the last one, the tail comes last.
    """
    parts = _parts(program)
    needed = {program.numbers[t] for t in early}
    in_body = _needed(program.instrs, needed, through=True)
    in_head = _needed(program.instrs, needed, through=False)
    last = max((p for p, first in zip(parts, in_head, strict=True) if not first), default=0)
    keys = [
        (not body and part == last, part, not head)
        for body, head, part in zip(in_body, in_head, parts, strict=True)
    ]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    program.instrs = [program.instrs[i] for i in order]
    program.n_body = sum(not is_last for is_last, *_ in keys)
    keys.sort()
    program.cuts = [i for i in range(1, len(keys)) if keys[i] != keys[i - 1]]


def _parts(program: Program) -> list[int]:
    """Return the part that each instruction is in: the last boundary that it depends on."""
    part: dict[int | None, int] = {}
    found = []
    for instr in program.instrs:
        before = max((part.get(i, 0) for i in instr.ins), default=0)
        found.append(instr.op.number if isinstance(instr.op, Boundary) else before)
        part.update(dict.fromkeys(instr.outs, found[-1]))
    return found


def _needed(instrs: Sequence[Instr], values: Iterable[int], *, through: bool) -> list[bool]:
    """Tell which instructions values depend on, ``through`` boundaries or up to those."""
    wanted: set[int | None] = set(values)
    found = []
    for instr in reversed(instrs):
        found.append(not wanted.isdisjoint(instr.outs))
        if found[-1] and (through or not isinstance(instr.op, Boundary)):
            wanted.update(instr.ins)
    return found[::-1]


def overwrites(
    program: Program,
    roots: Sequence[int],
    updates: Mapping[Tensor, Tensor],
    natives: Callable[[Instr], Sequence[Pair]] = lambda instr: (),
) -> list[Overwrite]:
    """Return the updates that may be in place; their instructions become the end of the program.

    ``updates`` maps variables to new values. An update qualifies if a kernel of the tail makes its
    value and reads the old one there element by element or not at all, and nothing later does.
    ``natives`` gives the outputs that other machine code may write over inputs, in pairs.
    """
    n_body = len(program.instrs) if program.n_body is None else program.n_body
    tail = program.instrs[n_body:]
    maker = {o: instr for instr in tail for o in instr.outs}
    held = {t: number for number, t in program.sources.items()}
    values = [program.numbers.get(value) for value in updates.values()]
    counts = collections.Counter(values)
    found = []
    for (variable, _), number in zip(updates.items(), values, strict=True):
        instr = None if number is None else maker.get(number)
        if number is None or instr is None or counts[number] > 1 or variable not in held:
            continue
        old, y = held[variable], instr.outs.index(number)
        reads = [i for i, x in enumerate(instr.ins) if x is not None and roots[x] == old]
        x = reads[0] if reads else None
        if isinstance(instr.op, Fused):
            fits = _fits(instr, x, y, old, program)
        else:
            is_whole = x is not None and instr.ins[x] == old
            is_alike = is_whole and program.specs[number] == program.specs[old]
            fits = is_alike and (y, x) in natives(instr)
        if len(reads) <= 1 and fits:
            found.append(Overwrite(variable, old, instr, x, y))
    found = _last(tail, found, roots)
    last = {id(o.instr) for o in found}
    ordered = [i for i in tail if id(i) not in last] + [i for i in tail if id(i) in last]
    program.instrs = [*program.instrs[:n_body], *ordered]
    return _in_place(program, found)


def _in_place(program: Program, found: Sequence[Overwrite]) -> list[Overwrite]:
    """Let the kernels know what they may overwrite; returns the overwrites by the new ones."""
    made: dict[int, Instr] = {}
    groups: dict[int, list[Overwrite]] = {}
    for o in found:
        if isinstance(o.instr.op, Fused):
            groups.setdefault(id(o.instr), []).append(o)
    for key, group in groups.items():
        instr = group[0].instr
        op: Any = instr.op
        pairs = {op.kernel.n_inputs + o.outs: o.ins for o in group if o.ins is not None}
        others = ((y, x) for y, x in op.kernel.in_place if y not in pairs)
        kernel = overlaid(op.kernel, (*pairs.items(), *others))
        made[key] = instr.changed(op=Fused(kernel, op.shape, op.outs, op.names, op.sites))
    program.instrs = [made.get(id(instr), instr) for instr in program.instrs]
    return [
        Overwrite(o.variable, o.old, made.get(id(o.instr), o.instr), o.ins, o.outs) for o in found
    ]


def _fits(instr: Instr, x: int | None, y: int, old: int, program: Program) -> bool:
    """Tell whether an output of a kernel may lie where the old value does, which may be input x."""
    op = instr.op
    if not isinstance(op, Fused) or program.specs[instr.outs[y]] != program.specs[old]:
        return False
    kernel, at = op.kernel, op.kernel.n_inputs + y
    if x is not None and (instr.ins[x] != old or kernel.operands[x] != kernel.operands[at]):
        return False  # a view, turned or reversed, is not read where it is overwritten
    if any(operand.named for operand in kernel.operands):
        return False  # a wrong index is told when the kernel has run
    return all(s.mode == "set" for s in kernel.stores if s.operand == at)


def _last(tail: Sequence[Instr], found: list[Overwrite], roots: Sequence[int]) -> list[Overwrite]:
    """Return those of instructions that do nothing else, and that can come last."""
    while True:
        last = {id(o.instr) for o in found}
        early = {x for i in tail if id(i) not in last for x in i.ins if x is not None}
        order: dict[int, int] = {}
        read: dict[int, int] = {}
        for place, instr in enumerate(i for i in tail if id(i) in last):
            order[id(instr)] = place
            read.update((roots[x], place) for x in instr.ins if x is not None)
        kept = [
            o
            for o in found
            if read.get(o.old, -1) <= order[id(o.instr)] and early.isdisjoint(o.instr.outs)
        ]
        counts = collections.Counter(id(o.instr) for o in kept)
        kept = [o for o in kept if counts[id(o.instr)] == len(o.instr.outs)]
        if len(kept) == len(found):
            return kept
        found = kept
