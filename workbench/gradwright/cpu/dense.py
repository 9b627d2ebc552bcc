"""Copies of what views cannot be, as calls of machine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..fuse.dense import in_order
from ..program.program import Instr, Program
from .call import Call, Native, numbered
from .llvm.bind import bind_copy


def launch_of(program: Program, instr: Instr) -> Native | None:
    """Return how an op that keeps its elements in order copies them; None if it moves them."""
    op: Any = instr.op
    assert instr.ins[0] is not None
    x = program.specs[instr.ins[0]]
    shape: Any = x.shape
    if program.specs[instr.outs[0]].dtype != x.dtype:  # its parts, not its elements
        return None
    rest = [None if i is None else program.constants[i] for i in instr.ins[1:]]
    if not in_order(op.viewing, x, rest):
        return None

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        ys[0].reshape(shape)[...] = xs[0]

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        return numbered(bind_copy(xs[0], ys[0].reshape(shape)), (0, len(xs)))

    return Native(bind, launch)
