"""Schedule: the order in which a program runs, chosen so that few values are alive at once."""

from __future__ import annotations

import heapq

from ..ops.core.identity import AddN
from ..program.program import Program


def schedule(program: Program) -> int:
    """Run instructions in the order in which their nodes were made, as far as inputs allow.

    Forward nodes are made first to last and those of the gradient last to first, each weight's
    beside its activation's. In the order of a walk from the outputs, all cotangents would be made
    before the first gradient of a weight: twice the activations would be alive. Parts of a long
    sum run as soon as their terms are there, so that these go: thousands where a net is unrolled.
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
    serials = _serials(program)
    ready = [(serials[n], n) for n in range(len(instrs)) if not missing[n]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, n = heapq.heappop(ready)
        order.append(n)
        for reader in readers[n]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (serials[reader], reader))
    program.instrs = [instrs[n] for n in order]
    return sum(n != k for k, n in enumerate(order))


def _serials(program: Program) -> list[int]:
    """Return when the node of each instruction was made; of part of a sum, its last term's."""
    instrs = program.instrs
    found = [instr.origin.serial for instr in instrs]
    maker = {o: n for n, instr in enumerate(instrs) for o in instr.outs}
    for instr in instrs:
        first = instr.ins[0] if isinstance(instr.op, AddN) else None
        before = None if first is None else maker.get(first)
        if before is None or not isinstance(instrs[before].op, AddN):
            continue
        if instrs[before].origin is instr.origin:
            terms = [found[maker[i]] for i in instrs[before].ins if i in maker]
            found[before] = max(terms, default=found[before])
    return found
