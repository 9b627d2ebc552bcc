"""Editor: a program while rules change it, with an index of who makes and who reads each value."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph import Node
from ..op import Op, infer_specs
from ..program.declined import DeclinedError
from ..program.log import Entry, lines
from ..program.program import Instr, Program, Recipe
from ..spec import TensorSpec, content_of

Array = np.ndarray[Any, Any]
UNIFORM = 4096
"""Constants of at most so many elements are looked at to see whether they hold one number."""
MOST_ORIGINS = 64
"""How many nodes an instruction keeps in mind: a chain of 20,000 sums of numbers becomes one."""


class Editor:
    """What rules see of a program, and change it through.

    Instructions stay in an order in which every value is made before it is read: what a rule makes
    stands where the instruction stood that it replaces. The index is kept up to date with each
    change, so that a change costs what it touches.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.specs, self.constants = program, program.specs, program.constants
        self.queue: collections.deque[Instr] = collections.deque()
        self.entries: list[Entry] = program.log.entries
        self.by_content: dict[Any, int] = {}
        """Small constants by what they hold."""
        self.seen: dict[Any, Instr] = {}
        """Instructions by op, inputs and run."""
        self.folded: dict[Any, list[int]] = {}
        """Constants that rewrites computed, by op and inputs."""
        self._numbers: dict[int, Any] = {}
        self._sized: set[int] = set()
        self._replaced: dict[int, int] = {}
        self._removed: list[Instr] = []
        self._waiting: set[Instr] = set()
        self.leaving = {program.numbers[t] for t in program.outputs}
        dead = self._drop_dead()
        self._slots = [[instr] for instr in program.instrs]
        self._place = {instr: i for i, instr in enumerate(program.instrs)}
        self.pending: list[Instr] = []
        program.instrs = self.pending  # what is emitted from now on
        self.producers: dict[int, Instr] = {}
        self.users: dict[int, dict[Instr, None]] = collections.defaultdict(dict)
        for (instr,) in self._slots:
            self._index(instr)
        self.queue.extend(self._place)
        self._waiting.update(self._place)
        if dead:
            self.entries.append(Entry("dead", lines(dead, self.specs), ()))

    # -- what rules ask --------------------------------------------------------------------------

    def producer(self, value: int | None, name: str = "") -> Instr | None:
        """Return what makes a value: if it has that name, and runs when the reader does."""
        found = None if value is None else self.producers.get(value)
        if found is None or (name and found.op.name != name) or found.recompute != self.tag:
            return None
        return found

    def number(self, value: int | None) -> Any:
        """Return the number that all elements of a constant are, as numpy's scalar, or None.

        What depends on sizes is no number: rules that fire hold for all shapes of a plan.
        """
        if value is None or value not in self.constants or self.is_sized(value):
            return None
        if value not in self._numbers:
            self._numbers[value] = uniform(self.constants[value])
        return self._numbers[value]

    def is_sized(self, value: int) -> bool:
        """Tell whether a constant stands for a shape, or was computed from one."""
        return value in self._sized or is_stand_in(self.constants[value])

    def is_alone(self, value: int) -> bool:
        """Tell whether only one instruction reads a value, and it does not leave the program."""
        return value not in self.leaving and len(self.users[value]) == 1

    def spec(self, value: int | None) -> TensorSpec:
        """Return the spec of a value; a rule that has None in its hands has no match."""
        if value is None:
            raise DeclinedError
        return self.specs[value]

    def make(self, op: Op, *ins: int | None, whole: bool = False) -> int:
        """Add an op in front of what is being replaced; returns its first result.

        ``whole`` declines composites that the device does not run in one piece.
        """
        return self.make_all(op, *ins, whole=whole)[0]

    def make_all(self, op: Op, *ins: int | None, whole: bool = False) -> tuple[int, ...]:
        """Add an op as ``make`` does; returns all its results."""
        op = op.for_mode(self.program.training)
        given = [None if i is None else self.specs[i] for i in ins]
        outs = infer_specs(op, given)
        if whole and op.is_composite() and not self.program.is_lowered(op, given, outs):
            raise DeclinedError
        return self.program.emit(op, ins, outs, self.root.origin, self.root.path)

    def constant(self, array: Array, recipe: Recipe | None = None, *, sized: bool = False) -> int:
        """Return the number of a constant; small ones of equal content are one value.

        ``sized`` ones are not: at other sizes they differ.
        """
        is_small = array.nbytes <= 64 and array.dtype.kind not in "OT" and not sized
        key = array.dtype, array.shape, content_of(array) if is_small else None
        found = self.by_content.get(key) if is_small else None
        if found is None or found not in self.constants:
            found = self.program.constant(array)
            if is_small:
                self.by_content[key] = found
            if sized:
                self._sized.add(found)
            if recipe is not None:
                self.program.recipes[found] = recipe
        return found

    # -- changes ---------------------------------------------------------------------------------

    def begin(self, root: Instr) -> None:
        """Look at an instruction: what is made from now on is meant to replace it."""
        self.root, self.tag = root, root.recompute
        self.pending.clear()

    def replace(self, rule: str, values: Sequence[int], *, checked: bool = True) -> bool:
        """Let all readers of the instruction's results read other values; returns whether it fits.

        What nobody reads then goes. New values must have the specs of the old ones.
        """
        root, specs = self.root, self.specs
        pairs = list(zip(root.outs, values, strict=False))
        rest = root.outs[len(values) :]
        if any(o in self.leaving or self.users[o] for o in rest):
            return False
        if checked and any(specs[o] != specs[v] for o, v in pairs):
            return False
        before = lines((root,), specs)
        made = list(self.pending)
        slot = self._slots[self._place[root]]
        at = slot.index(root)
        slot[at:at] = made
        for instr in made:
            self._place[instr] = self._place[root]
            self._index(instr)
        for old, new in pairs:
            self._redirect(old, new)
        self._removed.clear()
        self._remove(root)
        for instr in reversed(made):
            if instr in self._place and self._is_unused(instr):
                self._remove(instr)
        kept = [instr for instr in made if instr in self._place]
        taken = [instr for instr in self._removed if instr not in made and instr is not root]
        for instr in kept:
            instr.origins, instr.recompute = _joint(root, taken), root.recompute
        before += lines(reversed(taken), specs)
        self.entries.append(Entry(rule, before, lines(kept, specs), tuple(values)))
        for instr in reversed(kept):
            self.enqueue(instr, first=True)
        return True

    def merge_constant(self, number: int, other: int) -> None:
        """Let readers of a constant read an equal one."""
        self._redirect(number, other)

    def replace_op(self, rule: str, op: Op, n_outs: int) -> None:
        """Let the instruction run another op with fewer results."""
        root, before = self.root, lines((self.root,), self.specs)
        for o in root.outs[n_outs:]:
            del self.producers[o]
        root.op, root.outs = op, root.outs[:n_outs]
        self.entries.append(Entry(rule, before, lines((root,), self.specs)))
        self.enqueue(root)

    def take_first(self, a: Instr, b: Instr) -> tuple[Instr, Instr]:
        """Return two instructions in the order in which they run."""
        i, j = self._place[a], self._place[b]
        if i == j:
            slot = self._slots[i]
            i, j = slot.index(a), slot.index(b)
        return (a, b) if i < j else (b, a)

    def is_there(self, instr: Instr) -> bool:
        """Tell whether an instruction is still part of the program."""
        return instr in self._place

    def enqueue(self, instr: Instr, *, first: bool = False) -> None:
        """Have an instruction looked at again."""
        if instr not in self._waiting:
            self._waiting.add(instr)
            (self.queue.appendleft if first else self.queue.append)(instr)

    def next(self) -> Instr | None:
        """Return the next instruction to look at."""
        while self.queue:
            instr = self.queue.popleft()
            self._waiting.discard(instr)
            if instr in self._place:
                return instr
        return None

    def finish(self) -> None:
        """Write the program back."""
        program = self.program
        program.instrs = [instr for slot in self._slots for instr in slot]
        for t, i in program.numbers.items():
            if i in self._replaced:
                program.numbers[t] = self._final(i)
        needed = self.leaving.union(
            i for instr in program.instrs for i in instr.ins if i is not None
        )
        program.constants = {k: a for k, a in program.constants.items() if k in needed}
        program.sources = {k: t for k, t in program.sources.items() if k in needed}

    # -- the index -------------------------------------------------------------------------------

    def _drop_dead(self) -> list[Instr]:
        """Drop what no output needs; dead code always goes: shapes need no computing."""
        needed, kept, dead = set(self.leaving), [], []
        for instr in reversed(self.program.instrs):
            if needed.isdisjoint(instr.outs):
                dead.append(instr)
            else:
                needed.update(i for i in instr.ins if i is not None)
                kept.append(instr)
        self.program.instrs = kept[::-1]
        return dead[::-1]

    def _index(self, instr: Instr) -> None:
        for o in instr.outs:
            self.producers[o] = instr
        for i in instr.ins:
            if i is not None:
                self.users[i][instr] = None

    def _redirect(self, old: int, new: int) -> None:
        if old in self.leaving:
            self.leaving.discard(old)
            self.leaving.add(new)
        readers = self.users.pop(old, {})
        for reader in readers:
            reader.ins = tuple([new if i == old else i for i in reader.ins])
            self.users[new][reader] = None
            self.enqueue(reader)
        self._replaced[old] = new

    def _final(self, value: int) -> int:
        while value in self._replaced:
            value = self._replaced[value]
        return value

    def _is_unused(self, instr: Instr) -> bool:
        return not any(o in self.leaving or self.users[o] for o in instr.outs)

    def _remove(self, instr: Instr) -> None:
        """Take out an instruction, and what only it read."""
        stack = [instr]
        while stack:
            gone = stack.pop()
            self._slots[self._place.pop(gone)].remove(gone)
            self._removed.append(gone)
            for o in gone.outs:
                del self.producers[o]
            for i in set(gone.ins):
                if i is None:
                    continue
                readers = self.users[i]
                del readers[gone]
                maker = self.producers.get(i)
                if maker is None or readers or i in self.leaving:
                    continue
                if self._is_unused(maker):
                    stack.append(maker)
                else:
                    self.enqueue(maker)  # it may do with fewer results


def is_stand_in(array: Array) -> bool:
    """Tell whether an array takes one element of memory for any shape, which is all it is for."""
    return array.ndim > 0 and not any(array.strides)


def _joint(root: Instr, taken: Sequence[Instr]) -> tuple[Node, ...]:
    """Return whose work is done now; what serves a gradient does not come to serve the user."""
    nodes = (n for instr in (root, *taken) for n in instr.origins)
    origins = dict.fromkeys(itertools.islice(nodes, MOST_ORIGINS))
    if all(n.derived for n in root.origins):
        return tuple(n for n in origins if n.derived)
    return tuple(origins)


def uniform(array: Array) -> Any:
    """Return the number that all elements of an array are, or None."""
    if array.dtype.kind not in "biufcV" or not array.size:
        return None
    if any(array.strides) and array.size > UNIFORM:
        return None
    first = array.flat[0]
    if array.ndim and any(array.strides) and array.size > 1:
        same = content_of(array) == content_of(np.full(array.shape, first, array.dtype))
        return first if same else None
    return first
