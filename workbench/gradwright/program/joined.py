"""Joined: parts of a tensor that are made where they belong in it, so that joining copies nothing.

    a = f(x); b = g(x); y = concat(a, b)       y: | a | b |

A part that follows others without a gap lies within the result: it is one piece of memory where all
axes before the joined one are 1, as channels are of a single image. A tensor whose parts already
lie side by side in a longer one, as in a dense block that joins all so far again and again, is a
piece of that one.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import accumulate

from ..ops.core.joining import Concat
from ..spec import normalize_axis
from .memory import ALIGN, Inside
from .program import Instr, Program

LEAST = 1 << 12
"""Bytes from which a part is worth it: to copy fewer takes 0.1 µs."""


def join(program: Program, steps: Collection[int], free: Collection[int]) -> Inside:
    """Return which values lie within others, as ``steps`` join them.

    ``free`` are those that lie wherever they are told to, views of none.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (1, 4, 16, 16))
    >>> y = gw.concat([gw.exp(x), gw.sin(x)], axis=1)
    >>> program = gw.Session(g).plan(y, {"x": x.shape}).program
    >>> join(program, range(3), {i for instr in program.instrs for i in instr.outs})
    {1: (3, 0), 2: (3, 4096)}
    """
    within: dict[int, tuple[int, int]] = {}
    for step in sorted(steps, reverse=True):
        instr = program.instrs[step]
        if not _is_in_pieces(program, instr) or instr.outs[0] not in free:
            continue
        y, ins = instr.outs[0], [i for i in instr.ins if i is not None]
        places = [0, *accumulate(program.specs[i].nbytes for i in ins)]
        home, start = within.get(y, (y, 0))
        known = [within.get(i) for i in ins]
        if home == y and (first := known[0]) is not None:
            lying = [(first[0], first[1] + at) for at in places[:-1]]
            if known == lying:
                within[y] = first
                continue
        for i, at in zip(ins, places, strict=False):
            fits = program.specs[i].nbytes >= LEAST and (start + at) % ALIGN == 0
            if fits and i in free and i not in within:
                within[i] = home, start + at
    return within


def _is_in_pieces(program: Program, instr: Instr) -> bool:
    """Tell whether an instruction joins tensors, each of which is one piece of the result."""
    op, spec = instr.op, program.specs[instr.outs[0]]
    if not isinstance(op, Concat):
        return False
    axis = normalize_axis(op.axis, spec.rank)
    return math.prod(spec.shape[:axis]) == 1 and all(
        i is not None and program.specs[i].dtype == spec.dtype for i in instr.ins
    )
