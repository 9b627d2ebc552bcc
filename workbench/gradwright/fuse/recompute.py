"""What is cheaper to compute twice than to store: 1 + tanh x, where tanh x is stored anyway."""

from __future__ import annotations

from ..program.turns import TURNS
from .builder import Axes
from .functions import EXP, FUNCTIONS, SLOW
from .groups import MAX_MEMBERS, Group
from .steps import Flow, Step

MAX_CHAIN = 3
"""How many steps are repeated for one value."""
CHEAP = frozenset({"cast", "clip", "relu", "where"})
"""What is repeated beside the ops that are one function that is."""
TAKES = frozenset({"gather"})
"""What is repeated where it reads a table smaller than what it makes."""
CACHED = 1 << 20
"""Bytes that stay in the cache of a core until they are read again."""


def recompute(groups: list[Group], flow: Flow) -> None:
    """Let groups repeat cheap steps of another one whose result they would read from memory.

    What is repeated reads what its readers read anyhow, and at most one large value beside, which
    is stored in any case or comes from outside.
    """
    owner = {step.index: group for group in groups for step in group.steps}
    for group in groups:
        TURNS.pause()
        if group.is_alone:
            continue
        stored = dict.fromkeys(leaving(group, flow))
        for step in sorted(group.steps, key=lambda s: s.index):
            value = step.writes[0][0]
            if value not in stored or value in flow.kept or not _is_cheap(step, group, flow):
                continue
            readers = {owner.get(i) for i in flow.readers[value]} - {group}
            known: set[int] | None = None
            for r in readers:
                if r is None or not _takes(r, group, value):
                    break
                read = {v for v, axes in r.reads.items() if axes == {_full(group)}}
                known = read if known is None else known & read
            else:
                del stored[value]
                chain = _chain(step, group, stored, flow, known or set())
                if chain is None:
                    stored[value] = None
                    continue
                for reader in readers:
                    assert reader is not None
                    _repeat(chain, reader, flow)


def leaving(group: Group, flow: Flow) -> list[int]:
    """Return the values that a group stores, in order."""
    inside = {step.index for step in group.steps}
    return [
        value
        for step in sorted(group.steps, key=lambda s: s.index)
        for value, _ in step.writes
        if value not in flow.repeated
        and (value in flow.kept or not inside.issuperset(flow.readers.get(value, ())))
    ]


def _full(group: Group) -> Axes:
    return tuple(range(len(group.space)))


def _is_cheap(step: Step, group: Group, flow: Flow) -> bool:
    """Tell whether a step is one function over the whole space of its group that costs little.

    A series takes as long as 3 bytes of memory, but 20 of the cache: it is repeated where results
    are too large for that.
    """
    op = step.instr.op
    specs, made = flow.program.specs, step.writes[0][0]
    if op.name in TAKES:
        table = step.reads[0]
        is_small = table is not None and specs[table[0]].nbytes < specs[made].nbytes
        return is_small and step.space == group.space
    if step.space != group.space or not op.element:
        return step.space == group.space and op.name in CHEAP
    is_large = specs[made].nbytes > CACHED
    return FUNCTIONS[op.element].cost <= (EXP if is_large else SLOW)


def _takes(reader: Group, group: Group, value: int) -> bool:
    """Tell whether a group can make a value that it reads."""
    room = len(reader.steps) + MAX_CHAIN <= MAX_MEMBERS and not reader.is_alone
    return room and reader.space == group.space and reader.reads[value] == {_full(group)}


def _chain(
    step: Step, group: Group, stored: dict[int, None], flow: Flow, known: set[int]
) -> list[Step] | None:
    """Return the steps from values that are there to what ``step`` makes.

    None if there are too many, or if they need more than ``known`` values and a single other one.
    """
    makers = {value: s for s in group.steps for value, _ in s.writes}
    rank, specs = len(group.space), flow.program.specs
    width = specs[step.writes[0][0]].dtype.itemsize
    chain, todo, beside = [step], [step], set[int]()
    while todo:
        reads = {read for read in todo.pop().reads if read is not None}
        for value, axes in reads:
            if value in known and value not in makers:
                continue
            if len(axes) < rank:
                if value in makers and value not in stored:
                    return None
                continue
            maker = makers.get(value)
            if value in stored or maker is None:
                if maker is None and specs[value].dtype.itemsize > width:
                    return None  # it may live longer for this
                beside.add(value)
            elif not _is_cheap(maker, group, flow):
                return None
            elif maker not in chain:
                chain.append(maker)
                todo.append(maker)
    fits = len(chain) <= MAX_CHAIN and len(beside - known) <= 1
    return sorted(chain, key=lambda s: s.index) if fits else None


def _repeat(chain: list[Step], reader: Group, flow: Flow) -> None:
    """Make a group compute the steps of a chain itself."""
    for step in chain:
        (value, axes), made = step.writes[0], reader.made
        reader.reads.pop(value, None)
        if value in made:
            continue
        reader.steps.append(step)
        made[value] = axes
        flow.repeated.add(value)
        for read in step.reads:
            if read is not None and read[0] not in made:
                reader.reads.setdefault(read[0], set()).add(read[1])
                flow.kept.add(read[0])
