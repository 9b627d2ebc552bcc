"""Which updates are one launch: those that do the same, and of which none touches another's memory.

They come last in a program, and write over variables alone, so that they may be put in another
order as long as each reads what it did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwright.fuse.fused import Fused
from gradwright.fuse.overwrite import Overwrite
from gradwright.program.program import Instr, Program

from ..fused.several import Several, even, flat, several
from .cuda import Cuda, Function

Array = np.ndarray[Any, Any]


@dataclass(eq=False)
class Joined:
    """Steps of a program, one after the other, that are one launch."""

    steps: range
    made: Several
    function: Function


def join(
    program: Program,
    over: Sequence[Overwrite],
    roots: Sequence[int],
    cuda: Cuda,
    ghost: Callable[[int], Array],
) -> list[Joined]:
    """Put updates that can be one launch next to each other, and return these launches.

    ``ghost`` gives arrays that lie as values do: those of one launch lie dense.
    """
    last = {id(o.instr): o.instr for o in over}
    first = len(program.instrs) - len(last)
    tail, earlier = program.instrs[first:], program.instrs[:first]
    names = {id(i): _kind(i, ghost) for i in tail}
    runs = _runs(tail, over, roots, lambda i: names[id(i)])
    program.instrs = [*earlier, *(i for run in runs for i in run)]
    found, at = [], first
    for run in runs:
        steps = range(at, at + len(run))
        at = steps.stop
        op = run[0].op
        kernel = flat(op) if len(run) > 1 and isinstance(op, Fused) else None
        if isinstance(op, Fused) and kernel is not None:
            made = several(kernel, [_size(i) for i in run], op.names)
            found.append(Joined(steps, made, cuda.load(made.call)))
    return found


def _kind(instr: Instr, ghost: Callable[[int], Array]) -> Hashable:
    """Return what an update does, the same for those that may be one launch."""
    kernel = flat(instr.op) if isinstance(instr.op, Fused) else None
    values = [n for n in (*instr.ins, *instr.outs) if n is not None]
    if kernel is None or not _size(instr):
        return id(instr)
    for operand, array in zip(kernel.operands, map(ghost, values), strict=True):
        if array.ctypes.data % 16 or (operand.moves[0] and not array.flags.c_contiguous):
            return id(instr)
    return kernel, even(_size(instr))


def _size(instr: Instr) -> int:
    op: Any = instr.op
    return math.prod(op.shape)


def _runs(
    tail: Sequence[Instr],
    over: Sequence[Overwrite],
    roots: Sequence[int],
    kind: Callable[[Instr], Hashable],
) -> list[list[Instr]]:
    """Return updates in runs of one kind, each after what must come before it."""
    old: dict[int, set[int]] = {id(i): set() for i in tail}
    for o in over:
        old[id(o.instr)].add(roots[o.old])
    reads = {id(i): {roots[x] for x in i.ins if x is not None} for i in tail}
    before: dict[int, set[int]] = {}
    for n, i in enumerate(tail):
        before[id(i)] = {
            id(j)
            for j in tail[:n]
            if not reads[id(i)].isdisjoint(j.outs) or not reads[id(j)].isdisjoint(old[id(i)])
        }
    left, done, runs = list(tail), set[int](), list[list[Instr]]()
    while left:
        ready: dict[Hashable, list[Instr]] = {}
        for i in left:
            if before[id(i)] <= done:
                ready.setdefault(kind(i), []).append(i)
        run = max(ready.values(), key=len)
        runs.append(run)
        done.update(map(id, run))
        left = [i for i in left if id(i) not in done]
    return runs
