"""Which updates are written over their variables, and in what order the tail of a step runs.

An update may overwrite its variable if whoever reads the old value has done so: the body has run,
and what else reads it in the tail comes before. All such writes are the last thing of a step, one
chain of machine code, so nothing ends a step between two of them.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..fuse.fused import Fused
from ..graph import Tensor
from ..rewrite import Instr, Program


@dataclass(frozen=True)
class Overwrite:
    """An update by a kernel: output ``out`` of an instruction may lie where its input lies."""

    variable: Tensor
    instr: Instr
    ins: int
    """Position of the old value among the inputs."""
    outs: int
    """Position of the new value among the outputs."""

    @property
    def old(self) -> int:
        """Return the number of the old value."""
        number = self.instr.ins[self.ins]
        assert number is not None
        return number

    @property
    def new(self) -> int:
        """Return the number of the new value."""
        return self.instr.outs[self.outs]


def split_tail(program: Program, early: Iterable[Tensor]) -> None:
    """Put last what only updates need, and not those results that must come early."""
    needed = {program.numbers[t] for t in early}
    body: list[Instr] = []
    tail: list[Instr] = []
    for instr in reversed(program.instrs):
        if needed.isdisjoint(instr.outs):
            tail.append(instr)
        else:
            body.append(instr)
            needed.update(i for i in instr.ins if i is not None)
    program.instrs = [*reversed(body), *reversed(tail)]
    program.n_body = len(body)


def overwrites(
    program: Program, roots: Sequence[int], updates: Mapping[Tensor, Tensor]
) -> list[Overwrite]:
    """Return the updates that may be in place; their instructions become the end of the program.

    ``updates`` maps variables to new values. An update qualifies if a kernel of the tail makes its
    value and reads the old one there, element by element, and nothing later does.
    """
    n_body = len(program.instrs) if program.n_body is None else program.n_body
    tail = program.instrs[n_body:]
    maker = {o: instr for instr in tail for o in instr.outs}
    held = {t: number for number, t in program.sources.items()}
    values = [program.numbers.get(value) for value in updates.values()]
    found = []
    for (variable, _), number in zip(updates.items(), values, strict=True):
        instr = None if number is None else maker.get(number)
        if number is None or instr is None or values.count(number) > 1 or variable not in held:
            continue
        reads = [i for i, x in enumerate(instr.ins) if x is not None and roots[x] == held[variable]]
        if len(reads) == 1 and _is_elementwise(instr, reads[0], instr.outs.index(number), program):
            found.append(Overwrite(variable, instr, reads[0], instr.outs.index(number)))
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
        groups.setdefault(id(o.instr), []).append(o)
    for key, group in groups.items():
        instr = group[0].instr
        op: Any = instr.op
        pairs = tuple((op.kernel.n_inputs + o.outs, o.ins) for o in group)
        kernel = dataclasses.replace(op.kernel, in_place=pairs)
        fused = Fused(kernel, op.shape, op.outs, op.names)
        made[key] = Instr(
            fused, instr.ins, instr.outs, instr.origin, instr.path, origins=instr.origins
        )
    program.instrs = [made.get(id(instr), instr) for instr in program.instrs]
    return [dataclasses.replace(o, instr=made[id(o.instr)]) for o in found]


def _is_elementwise(instr: Instr, x: int, y: int, program: Program) -> bool:
    """Tell whether an output of a kernel may lie where an input lies."""
    op = instr.op
    if not isinstance(op, Fused):
        return False
    kernel, old, new = op.kernel, instr.ins[x], instr.outs[y]
    assert old is not None
    return (
        program.specs[old] == program.specs[new]
        and kernel.operands[x] == kernel.operands[kernel.n_inputs + y]
        and all(s.mode == "set" for s in kernel.stores if s.operand == kernel.n_inputs + y)
    )


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
            if read[roots[o.old]] == order[id(o.instr)] and early.isdisjoint(o.instr.outs)
        ]
        counts = collections.Counter(id(o.instr) for o in kept)
        kept = [o for o in kept if counts[id(o.instr)] == len(o.instr.outs)]
        if len(kept) == len(found):
            return kept
        found = kept
