"""What is cheaper to compute twice than to store: 1 + tanh x, where tanh x is stored anyway."""

from __future__ import annotations

from .functions import FUNCTIONS, SLOW
from .groups import MAX_MEMBERS, Group
from .rules_elements import SAME
from .steps import Flow, Step

MAX_CHAIN = 3
"""How many steps are repeated for one value."""
CHEAP = frozenset(op for op, name in SAME.items() if FUNCTIONS[name].cost <= SLOW) | {
    "cast", "clip", "relu", "where",
}  # fmt: skip


def recompute(groups: list[Group], flow: Flow) -> None:
    """Let groups repeat cheap steps of another one whose result they would read from memory.

    What is repeated reads one large value, which is stored in any case, or comes from outside.
    """
    owner = {step.index: group for group in groups for step in group.steps}
    for group in groups:
        stored = dict.fromkeys(leaving(group, flow))
        for step in sorted(group.steps, key=lambda s: -s.index):
            value = step.writes[0][0]
            if value not in stored or value in flow.kept or not _is_cheap(step, group):
                continue
            readers = {owner.get(i) for i in flow.readers[value]} - {group}
            if any(r is None or not _takes(r, group, value) for r in readers):
                continue
            del stored[value]
            chain = _chain(step, group, stored, flow)
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


def _is_cheap(step: Step, group: Group) -> bool:
    """Tell whether a step is one cheap function over the whole space of its group."""
    return step.instr.op.name in CHEAP and step.space == group.space


def _takes(reader: Group, group: Group, value: int) -> bool:
    """Tell whether a group can make a value that it reads."""
    full = tuple(range(len(group.space)))
    room = len(reader.steps) + MAX_CHAIN <= MAX_MEMBERS
    return room and reader.space == group.space and reader.reads[value] == {full}


def _chain(step: Step, group: Group, stored: dict[int, None], flow: Flow) -> list[Step] | None:
    """Return the steps from a stored value to what ``step`` makes, None if there are too many."""
    makers = {value: s for s in group.steps for value, _ in s.writes}
    rank, chain, specs = len(group.space), [step], flow.program.specs
    while len(chain) <= MAX_CHAIN:
        reads = {read for read in chain[0].reads if read is not None}
        large = [value for value, axes in reads if len(axes) == rank]
        small = [value for value, axes in reads if len(axes) < rank]
        if len(large) != 1 or any(v in makers and v not in stored for v in small):
            return None
        (source,) = large
        if source in stored:
            return chain
        maker = makers.get(source)
        if maker is None:
            wider = specs[source].dtype.itemsize > specs[step.writes[0][0]].dtype.itemsize
            return None if wider else chain  # it may live longer for this
        if not _is_cheap(maker, group):
            return None
        chain.insert(0, maker)
    return None


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
