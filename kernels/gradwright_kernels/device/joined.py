"""Which updates are one launch: those that do the same, and of which none touches another's memory.

They come last in a program, and write over variables alone, so that they may be put in another
order as long as each reads what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gradwright.fuse.fused import Fused
from gradwright.fuse.overwrite import Overwrite
from gradwright.program.program import Instr, Program

from ..fused.several import Several, even, flat, several
from .cuda import Cuda, Function


@dataclass(eq=False)
class Joined:
    """Steps of a program, one after the other, that are one launch."""

    steps: range
    made: Several
    function: Function
    others: list[int] = field(default_factory=list)


def join(
    program: Program, over: Sequence[Overwrite], roots: Sequence[int], cuda: Cuda
) -> list[Joined]:
    """Put updates that can be one launch next to each other, and return these launches."""
    last = {id(o.instr): o.instr for o in over}
    first = len(program.instrs) - len(last)
    tail, earlier = program.instrs[first:], program.instrs[:first]
    names = {id(i): _kind(i, program) for i in tail}
    runs = _runs(tail, over, roots, lambda i: names[id(i)])
    program.instrs = [*earlier, *(i for run in runs for i in run)]
    found, at = [], first
    for run in runs:
        steps = range(at, at + len(run))
        at = steps.stop
        op, kernel = run[0].op, flat(run[0].op) if isinstance(run[0].op, Fused) else None
        if len(run) > 1 and isinstance(op, Fused) and kernel is not None:
            sizes = [int(np.prod(i.op.shape, dtype=np.int64)) for i in run]  # type: ignore[attr-defined]
            made = several(kernel, sizes, op.names)
            found.append(Joined(steps, made, cuda.load(made.call)))
    return found


def _kind(instr: Instr, program: Program) -> Hashable:
    """Return what an update does, the same for those that may be one launch."""
    op = instr.op
    kernel = flat(op) if isinstance(op, Fused) and op.shape else None
    size = int(np.prod(op.shape, dtype=np.int64)) if isinstance(op, Fused) else 0
    if kernel is None or not size:
        return id(instr)
    return kernel, even(size)


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
