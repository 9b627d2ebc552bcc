"""Which kernels may write over what they read: inputs that nobody reads later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from ..program.program import Instr, Program
from ..program.turns import TURNS
from .fused import Fused
from .ir import overlaid


def overlay(program: Program) -> None:
    """Let the kernels of a program, whose instructions are in order, know what they may overwrite.

    An output may lie where an input of its shape and dtype lay if both move along all axes: of
    others an element is read, or added to, more than once. What is written at places may lie where
    the input lay that it starts as: only these places are touched.
    """
    roots: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, instr in enumerate(program.instrs):
        for i in instr.ins:
            if i is not None:
                last[roots.get(i, i)] = step
        if instr.op.views and instr.ins[0] is not None:
            roots.update(dict.fromkeys(instr.outs, roots.get(instr.ins[0], instr.ins[0])))
    for t in program.outputs:
        number = program.numbers[t]
        last[roots.get(number, number)] = len(program.instrs)
    made: set[int] = set()
    for step, instr in enumerate(program.instrs):
        TURNS.pause()
        if isinstance(instr.op, Fused):
            dying = {i for i in instr.ins if i is not None and i in made and last[i] == step}
            program.instrs[step] = _with_overlay(instr, dying, roots, program)
        if not instr.op.views:
            made.update(instr.outs)


def _with_overlay(
    instr: Instr, dying: Set[int], roots: Mapping[int, int], program: Program
) -> Instr:
    op, specs = instr.op, program.specs
    assert isinstance(op, Fused)
    kernel = op.kernel
    read = [roots.get(i, i) for i in instr.ins if i is not None]
    pairs = [
        (store.operand, store.start)
        for store in kernel.stores
        if store.start is not None
        and (value := instr.ins[store.start]) in dying
        and value is not None
        and read.count(value) == 1
    ]
    scatters = any(store.places for store in kernel.stores)
    if scatters or any(value.op == "reduce" for value in kernel.values):
        return _overlaid(instr, op, pairs)  # rows are read more than once
    free = {
        at: value
        for at, value in enumerate(instr.ins)
        if value is not None
        and value in dying
        and read.count(value) == 1
        and all(kernel.operands[at].moves)
        and not kernel.operands[at].named
    }
    for at, out in enumerate(instr.outs, kernel.n_inputs):
        for i, value in free.items():
            alike = specs[value].shape == specs[out].shape
            if alike and kernel.operands[i] == kernel.operands[at]:
                pairs.append((at, i))
                del free[i]
                break
    return _overlaid(instr, op, pairs)


def _overlaid(instr: Instr, op: Fused, pairs: Sequence[tuple[int, int]]) -> Instr:
    """Return an instruction whose kernel writes outputs over inputs, in pairs."""
    if not pairs:
        return instr
    fused = Fused(overlaid(op.kernel, tuple(pairs)), op.shape, op.outs, op.names, op.sites)
    return instr.changed(op=fused)
