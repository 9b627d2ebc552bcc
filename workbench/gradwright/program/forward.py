"""Steps that are an op's own ``forward``: its results are checked, and are nobody else's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import GradwrightError
from ..graph import Node
from ..graph.build import failed, miscounted, misshapen
from ..op import run_forward
from .lowering import Returning
from .program import Instr, Program

Array = np.ndarray[Any, Any]


class ServedError(Exception):
    """An error of one node among those that a step serves."""

    def __init__(self, error: Exception, node: Node) -> None:
        super().__init__(str(error))
        self.error, self.node = error, node


def results(
    program: Program, instr: Instr, returning: Returning | None, xs: Sequence[Any]
) -> Sequence[Array]:
    """Return the outputs of an instruction, as its specs say."""
    ys = returning.run(xs) if returning else run_forward(instr.op, xs, training=program.training)
    if len(ys) != len(instr.outs):
        raise miscounted(len(ys), len(instr.outs))
    for o, y in zip(instr.outs, ys, strict=True):
        spec = program.specs[o]
        if y.dtype != spec.dtype or (spec.is_concrete and y.shape != spec.shape):
            raise misshapen(y, spec)
    return ys


def apart(ys: Sequence[Array], xs: Sequence[Array | None]) -> list[Array]:
    """Return results with copies of those that are an input, or a view of one."""
    return [y.copy() if _is_part_of(y, xs) else y for y in ys]


def explained(error: Exception, program: Program, step: int) -> Exception:
    """Return an error that names the node of a step; MemoryError and our own are themselves."""
    if isinstance(error, MemoryError):
        return error
    if isinstance(error, ServedError):
        node = error.node
        specs = [None if t is None else t.spec for t in node.inputs]
        return failed(error.error, node, node.op, specs, node.name)
    instr = program.instrs[step]
    if isinstance(error, GradwrightError):
        if instr.origin.site is not None:
            error.of(instr.origin)
        if error.where:
            return error.inside(instr.path)
        return error.met_at(instr.op.name, instr.path, instr.origin.where)
    specs = [None if i is None else program.specs[i] for i in instr.ins]
    return failed(error, instr.origin, instr.op, specs, instr.path)


def _is_part_of(y: Array, xs: Sequence[Array | None]) -> bool:
    """Tell whether an op that declares no views returned an input, or a view of one."""
    if y.base is None:
        return any(y is x for x in xs)
    return any(x is not None and np.may_share_memory(y, x) for x in xs)
