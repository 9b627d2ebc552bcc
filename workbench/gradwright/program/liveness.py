"""Liveness: when each value of a program is made and last read, and what may be written over."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from .memory import Inside, Interval, Layout, lay_out
from .program import Program
from .turns import TURNS


class Lifetimes:
    """For each buffer of a program the step that makes it, and the last one that reads it.

    A value that may be a view of another lives in that one's buffer, its root. What leaves the
    program lives to the end.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (2, 3))
    >>> plan = gw.Session(g).plan(gw.exp(gw.tanh(x)).sum(), {"x": (2, 3)})
    >>> lives = Lifetimes(plan.program)
    >>> [(lives.born[o], lives.dies[o]) for i in plan.program.instrs for o in i.outs]
    [(0, 1), (1, 2), (2, 3)]
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.roots = list(range(len(program.specs)))
        """For each value the one whose buffer it may be a view of."""
        self.born: dict[int, int] = {}
        """Step that makes a value."""
        self.dies: dict[int, int] = {}
        """Last step that needs a root; the number of steps where it leaves."""
        roots, dies = self.roots, self.dies
        for step, instr in enumerate(program.instrs):
            TURNS.pause()
            if instr.op.views and instr.ins[0] is not None:
                for o in instr.outs:
                    roots[o] = roots[instr.ins[0]]
            for i in instr.ins:
                if i is not None:
                    dies[roots[i]] = step
            for o in instr.outs:
                self.born[o] = dies[roots[o]] = step
        self.leaving = {program.numbers[t] for t in program.outputs}
        """Values that leave; their roots and they are never shared."""
        self.leaving |= {roots[i] for i in self.leaving}
        for i in self.leaving:
            dies[i] = len(program.instrs)

    def filled(self, within: Inside) -> dict[int, tuple[int, int]]:
        """Return for values that others lie within the first and the last step that needs them."""
        found: dict[int, tuple[int, int]] = {}
        for part, (home, _) in within.items():
            first, last = found.get(home, (self.born[home], self.dies[home]))
            found[home] = min(first, self.born[part]), max(last, self.dies[part])
        return found


def place(
    lives: Lifetimes,
    fixed: Sequence[bool],
    overwrites: Mapping[int, Sequence[tuple[int, int]]],
    elsewhere: Collection[int] | None = None,
    within: Inside = MappingProxyType({}),
) -> tuple[Layout, dict[int, int]]:
    """Lay out the outputs of the ``fixed`` steps, those that write into given buffers.

    ``overwrites`` holds for a step pairs of an output and an input that it may be written over.
    That happens where the input dies there and no other input lies in its buffer. Values that lie
    ``elsewhere``, by default those that leave, are left out. Those ``within`` others have their
    place there, which is theirs from when the first of them is made.

    Returns the layout, and for each value that is written over another that other one.
    """
    program, roots, dies = lives.program, lives.roots, lives.dies
    filled = lives.filled(within)
    if within:
        roots = [within.get(r, (r, 0))[0] for r in roots]
        dies = dies | {home: last for home, (_, last) in filled.items()}
    holder: dict[int, int] = {}
    over: dict[int, int] = {}
    spans: dict[int, tuple[int, int, int]] = {}  # holder -> (bytes, start, end)
    unshared = 0
    absent = lives.leaving if elsewhere is None else elsewhere
    for step, instr in enumerate(program.instrs):
        TURNS.pause()
        if not fixed[step]:
            continue
        for place, o in enumerate(instr.outs):
            spec = program.specs[o]
            if o in absent or o in within or spec.by_reference:
                continue
            holder[o] = o
            unshared += spec.nbytes
            for output, position in overwrites.get(step, ()):
                x = instr.ins[position]
                if output != place or x is None or x not in holder or dies[x] != step:
                    continue
                if not _lies_elsewhere(instr.ins, x, roots):
                    over[o], holder[o] = x, holder[x]
                    break
            start = spans[holder[o]][1] if o in over else filled.get(o, (step, 0))[0]
            spans[holder[o]] = spec.nbytes, start, dies[o]
    layout = lay_out([Interval(value, *span) for value, span in spans.items()])
    offsets = {o: layout.offsets[h] for o, h in holder.items()}
    offsets |= {part: offsets[home] + at for part, (home, at) in within.items()}
    return Layout(offsets, layout.nbytes, unshared, within), over


def _lies_elsewhere(ins: Sequence[int | None], x: int, roots: Sequence[int]) -> bool:
    """Tell whether another value among the inputs is a part of ``x``, in another order."""
    return any(i is not None and i != x and roots[i] == x for i in ins)
