"""Schedule: the order in which a program runs, chosen so that few values are alive at once."""

from __future__ import annotations

import heapq

from ..program.program import Program


def schedule(program: Program) -> int:
    """Run instructions in the order in which their nodes were made, as far as inputs allow.

    Forward nodes are made first to last and those of the gradient last to first, each weight's
    beside its activation's. In the order of a walk from the outputs, all cotangents would be made
    before the first gradient of a weight: twice the activations would be alive.
    Returns how many instructions changed their place.
    """
    instrs = program.instrs
    maker = {o: n for n, instr in enumerate(instrs) for o in instr.outs}
    readers: list[list[int]] = [[] for _ in instrs]
    missing = [0] * len(instrs)
    for n, instr in enumerate(instrs):
        for made in {maker[i] for i in instr.ins if i in maker}:
            readers[made].append(n)
            missing[n] += 1
    ready = [(instr.origin.serial, n) for n, instr in enumerate(instrs) if not missing[n]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, n = heapq.heappop(ready)
        order.append(n)
        for reader in readers[n]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (instrs[reader].origin.serial, reader))
    program.instrs = [instrs[n] for n in order]
    return sum(n != k for k, n in enumerate(order))
