"""Which instructions become one kernel.

Instructions are taken in order. One whose only reader comes later waits for it: a mask is computed
where it is used. Each then joins the groups that made its inputs, or that read the same ones, if

- all share one index space: the same sizes, or rows of it, or a scalar;
- what it reads inside lies where it was made, and is known before the whole kernel has run;
- nothing outside lies on a path from the group to itself,
- all are in one section of the program.

What depends on what is known within a section, as bits of its groups. A section longer than LONG
is cut where the fewest values are alive, so that time and memory are linear in the program.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ..ops.updates.boundary import Boundary
from ..program.program import Instr, Program
from ..program.turns import TURNS
from .builder import Axes
from .steps import Flow, Step, find_step

MAX_MEMBERS = 64
MAX_INPUTS = 24
NEAR = 16
"""An instruction waits for a reader this far away, even if its inputs are kept longer for that."""
LONG = 8192
"""Instructions of a section: sets of its groups are numbers of at most 1 kB."""


@dataclass(eq=False, slots=True)
class Group:
    """Steps of one kernel; ``bits`` name it, ``upstream`` names the groups it depends on."""

    space: tuple[int, ...]
    n_columns: int | None
    steps: list[Step]
    made: dict[int, Axes]
    late: set[int]
    reads: dict[int, set[Axes]]
    """Values from outside, and the axes along which they are read."""
    recompute: int
    section: int
    is_alone: bool = False
    """Whether it stays one step, so that many share its kernel."""
    bits: int = 0
    upstream: int = 0
    has_readers: bool = False


def form_groups(
    program: Program, admitted: Sequence[bool], alone: Collection[int] = ()
) -> tuple[list[Group], Flow]:
    """Return the groups of a program, made of instructions that are admitted.

    Those in ``alone`` are groups of one step each.
    """
    flow = Flow(program)
    steps = [find_step(flow, i) if admitted[i] else None for i in range(len(program.instrs))]
    return _Former(flow, steps, alone).run(), flow


def _cuts(flow: Flow) -> list[int]:
    """Return where sections begin: where the program says so, and within long ones."""
    program, n = flow.program, len(flow.program.instrs)
    starts = sorted({0, *program.cuts, program.n_body or 0})
    if max(end - start for start, end in itertools.pairwise([*starts, n])) <= LONG:
        return starts
    change = [0] * (n + 1)
    for value, readers in flow.readers.items():
        made = flow.producer.get(value)
        if made is not None:
            change[made + 1] += 1
            change[max(readers) + 1] -= 1
    alive = list(itertools.accumulate(change))
    sections = itertools.pairwise([*starts, n])
    return [cut for start, end in sections for cut in _within(start, end, alive)]


def _within(start: int, end: int, alive: Sequence[int]) -> Iterator[int]:
    """Yield where parts of a section begin: in the second half of what one may be at most."""
    yield start
    while end - start > LONG:
        places = range(start + LONG // 2, start + LONG + 1)
        start = min(places, key=lambda place: (alive[place], -place))
        yield start


class _Former:
    def __init__(self, flow: Flow, steps: Sequence[Step | None], alone: Collection[int]) -> None:
        self.flow, self.steps, self.alone = flow, steps, alone
        self.cuts = _cuts(flow)
        self.group: dict[int, Group] = {}
        """The group of each value that one has made."""
        self.upstream: dict[int, int] = {}
        """The groups on which values from outside depend."""
        self.waiting: dict[int, Group] = {}
        """Groups that wait for the one reader of a value."""
        self.last_reader: dict[int, Group] = {}
        self.groups: dict[Group, None] = {}
        self.n_groups = 0

    def run(self) -> list[Group]:
        for start, end in itertools.pairwise([*self.cuts, len(self.steps)]):
            for index in range(start, end):
                TURNS.pause()
                step = self.steps[index]
                if step is None:
                    self._pass(self.flow.program.instrs[index])
                else:
                    self._add(step)
            self._end_section()
        return list(self.groups)

    def _end_section(self) -> None:
        """Forget what depends on what: no path leads back into a section."""
        for value in list(self.waiting):
            self._settle(self.waiting.pop(value))
        self.group, self.upstream, self.last_reader, self.n_groups = {}, {}, {}, 0

    def _pass(self, instr: Instr) -> None:
        """Take note of an instruction outside of all groups."""
        if instr.outs[0] in self.flow.views or isinstance(instr.op, Boundary):
            return
        upstream = 0
        for value in {self.flow.source(i) for i in instr.ins if i is not None}:
            if value in self.waiting:
                self._settle(self.waiting.pop(value))
            held = self.group.get(value)
            if held is not None:
                held.has_readers = True
            upstream |= self._before(value)
        for o in instr.outs:
            self.upstream[o] = upstream

    def _before(self, value: int) -> int:
        """Return the groups on which a value depends."""
        group = self.group.get(value)
        return group.bits | group.upstream if group else self.upstream.get(value, 0)

    def _add(self, step: Step) -> None:
        reads: dict[int, set[Axes]] = {}
        for read in step.reads:
            if read is not None:
                reads.setdefault(read[0], set()).add(read[1])
        group = Group(
            step.space, step.n_columns, [step], dict(step.writes), set(step.late), reads,
            step.instr.recompute, self._section(step), step.index in self.alone,
        )  # fmt: skip
        for value in reads:
            held = self.waiting.pop(value, None)
            if held is not None:
                joined = _joined(held, group)
                if joined is None:
                    self._settle(held)
                else:
                    group = joined
        if self._waits(step, group):
            self.waiting[step.writes[0][0]] = group
        else:
            self._settle(group)

    def _section(self, step: Step) -> int:
        return bisect.bisect_right(self.cuts, step.index)

    def _waits(self, step: Step, group: Group) -> bool:
        """Tell whether a group is better computed where its only value is read."""
        value, readers = step.writes[0][0], self.flow.readers.get(step.writes[0][0], [])
        if len(step.writes) > 1 or len(readers) != 1 or value in self.flow.kept or group.late:
            return False
        if group.is_alone:
            return False
        reader = self.steps[readers[0]]
        if reader is None or step.instr.recompute != reader.instr.recompute:
            return False
        if self._section(reader) != group.section:
            return False
        if reader.space != step.space and step.space:
            return False
        return reader.index - step.index <= NEAR or self._keeps_less(value, group, reader.index)

    def _keeps_less(self, value: int, group: Group, until: int) -> bool:
        """Tell whether inputs that a group would keep alive are no larger than what it makes."""
        specs, flow = self.flow.program.specs, self.flow
        dying = (v for v in group.reads if v in flow.producer and max(flow.readers[v]) < until)
        return sum(specs[v].nbytes for v in dying) <= specs[value].nbytes

    def _settle(self, group: Group) -> None:
        """Join a group to those it reads from, or that read the same, and fix its place."""
        rank = len(group.space)
        seen: dict[Group, None] = {}
        for value in list(group.reads):
            held = self.group.get(value)
            if held is not None:
                seen[held] = None
        for value, axes in group.reads.items():
            beside = self.last_reader.get(value)
            if beside is not None and rank and any(len(a) == rank for a in axes):
                seen.setdefault(beside)
        for other in sorted(seen, key=lambda g: -g.bits.bit_length()):
            joined = self._legal(other, group) if other in self.groups else None
            if joined is not None:
                group = joined
        if not group.bits:
            group.bits, self.n_groups = 1 << self.n_groups, self.n_groups + 1
        self.groups[group] = None
        for value in group.made:
            self.group[value] = group
        for value in group.reads:
            group.upstream |= self._before(value)
            held = self.group.get(value)
            if held is not None:
                held.has_readers = True
            self.last_reader[value] = group

    def _legal(self, held: Group, group: Group) -> Group | None:
        """Return two groups as one, if that has no path through the outside to itself."""
        if not held.space and group.space and self._read_beside(held, group):
            return None  # a scalar for several is computed once
        joined = _joined(held, group)
        if joined is None:
            return None
        before = 0
        for value in joined.reads:
            before |= self._before(value)
        if before & joined.bits:
            return None
        known = before | joined.bits
        for part in (held, group):
            if part.has_readers and known & ~(part.bits | part.upstream):
                return None  # those who read it would not know of what it depends on
        joined.upstream = before
        joined.has_readers = held.has_readers or group.has_readers
        for part in (held, group):
            self.groups.pop(part, None)
        return joined

    def _read_beside(self, held: Group, group: Group) -> bool:
        inside = {step.index for step in group.steps}
        return any(
            v in self.flow.kept or not inside.issuperset(self.flow.readers.get(v, ()))
            for v in held.made
        )


def _joined(a: Group, b: Group) -> Group | None:
    """Return two groups as one, or None where their spaces or what passes between them differs."""
    if a.recompute != b.recompute or a.section != b.section or a.is_alone or b.is_alone:
        return None
    if len(a.steps) + len(b.steps) > MAX_MEMBERS:
        return None
    space = _common(a.space, a.n_columns, b.space, b.n_columns)
    if space is None:
        return None
    for maker, reader in ((a, b), (b, a)):
        for value, axes in reader.reads.items():
            if value in maker.made and (value in maker.late or axes != {maker.made[value]}):
                return None
    reads: dict[int, set[Axes]] = {}
    made = {**a.made, **b.made}
    if (space[1] or 0) > 1 and not all(_is_walked(*space, axes) for axes in made.values()):
        return None
    for part in (a, b):
        for value, axes in part.reads.items():
            if value not in made:
                reads[value] = reads.get(value, set()) | axes
    if len(reads) > MAX_INPUTS:
        return None
    return Group(
        *space, a.steps + b.steps, made, a.late | b.late, reads, a.recompute, a.section,
        bits=a.bits | b.bits,
    )  # fmt: skip


def _is_walked(space: tuple[int, ...], columns: int | None, axes: Axes) -> bool:
    """Tell whether what lies along some axes can be walked where all columns are one loop."""
    own = [axis for axis in range(len(space) - (columns or 0), len(space)) if space[axis] != 1]
    return len({axis in axes for axis in own}) < 2


def _common(
    a: tuple[int, ...], a_columns: int | None, b: tuple[int, ...], b_columns: int | None
) -> tuple[tuple[int, ...], int | None] | None:
    """Return the index space that holds two: equal ones, one and its rows, or one and a scalar."""
    if len(a) < len(b):
        a, a_columns, b, b_columns = b, b_columns, a, a_columns
    if not b:
        return a, a_columns
    if a == b:
        if a_columns and b_columns and a_columns != b_columns:
            return None
        return a, a_columns or b_columns
    columns = len(a) - len(b)
    if a[: len(b)] != b or b_columns or a_columns not in (None, columns):
        return None
    return a, columns


def in_order(units: Sequence[tuple[int, Instr]]) -> list[Instr]:
    """Return instructions so that each comes after what it reads, otherwise by their position."""
    producer = {o: n for n, (_, instr) in enumerate(units) for o in instr.outs}
    readers: list[list[int]] = [[] for _ in units]
    missing = [0] * len(units)
    for n, (_, instr) in enumerate(units):
        for maker in {producer[i] for i in instr.ins if i in producer}:
            readers[maker].append(n)
            missing[n] += 1
    ready = [(position, n) for n, (position, _) in enumerate(units) if not missing[n]]
    heapq.heapify(ready)
    out = []
    while ready:
        TURNS.pause()
        _, n = heapq.heappop(ready)
        out.append(units[n][1])
        for reader in readers[n]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (units[reader][0], reader))
    return out
