"""What a row does in which order: passes over its columns, split where a reduction is needed.

Softmax is three passes: the maximum, the sum of the exponentials, the quotients. What several
passes need is computed again where that is cheap, else kept: in the output that holds it anyhow,
or in a row of scratch memory.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from .functions import EXP, FUNCTIONS
from .ir import Kernel, Level, Store
from .layout import Loops, Pattern, has_border
from .totals import totals

KEEP = EXP
"""From this cost on a value is kept for later passes: a store and a load, and room in the cache."""


@dataclass(frozen=True)
class Schedule:
    """When each value of a kernel is computed, under one pattern.

    ``levels[v]`` says how often. ``ready[v]`` is the pass that computes an element at the earliest,
    or before which a row's value is there. Pass p computes what ``reduces[p]`` (values),
    ``sums[p]`` (adding up a row) and ``stores[p]`` need; ``kept[v]`` is the output from which
    passes after ``first[v]`` load a value, or None for scratch. ``seldom[p]`` are reductions that
    only rows in need have: they get a loop of their own, which keeps nothing. What is scattered
    comes last, a pass for all that goes to the same places.
    """

    levels: tuple[Level, ...]
    ready: tuple[int, ...]
    reduces: tuple[tuple[int, ...], ...]
    seldom: tuple[tuple[int, ...], ...]
    sums: tuple[tuple[Store, ...], ...]
    stores: tuple[tuple[Store, ...], ...]
    first: dict[int, int]
    kept: dict[int, int | None]

    @property
    def in_scratch(self) -> list[int]:
        """Return the values that have a row of scratch memory, in order."""
        return [value for value, place in self.kept.items() if place is None]


def scratch_bytes(kernel: Kernel, loops: Loops) -> int:
    """Return how much scratch memory a kernel needs: 8 bytes a kept element, and its totals."""
    kept = 8 * loops.columns * len(schedule(kernel, loops.pattern).in_scratch)
    return kept + sum(total.n_bytes(loops) for total in totals(kernel, loops.pattern))


@functools.lru_cache(maxsize=1024)
def schedule(kernel: Kernel, pattern: Pattern) -> Schedule:
    """Return the passes of a kernel whose operands are walked as the pattern says."""
    values = kernel.values
    levels = _levels(kernel, pattern)
    ready = _ready(kernel)
    walks = [access.column != "zero" for access in pattern.accesses]
    reduces = [number for number, value in enumerate(values) if value.op == "reduce"]
    plain = [store for store in kernel.stores if not store.places]
    stores = [store for store in plain if walks[store.operand]]
    sums = [s for s in plain if s.mode == "sum" and not walks[s.operand]]
    scattered: dict[tuple[int, ...], tuple[Store, ...]] = {}
    for s in kernel.stores:
        if s.places and not s.by_row:
            scattered[s.places] = (*scattered.get(s.places, ()), s)
    last = max(
        [ready[r] - 1 for r in reduces] + [ready[s.value] for s in [*stores, *sums]],
        default=-1,
    )
    overwritten = {output for output, _ in kernel.in_place}
    end = last + len(scattered) + bool(scattered)
    """The pass until which an overwritten input may be read."""
    passes = range(end + 1)
    places = {last + 1 + i: found for i, found in enumerate(scattered.values())}

    def of_pass(p: int, is_seldom: bool) -> tuple[int, ...]:
        found = (r for r in reduces if (len(values[r].args) > 1) == is_seldom)
        return tuple(r for r in found if ready[r] - 1 == p)

    plan = Schedule(
        levels,
        ready,
        tuple(of_pass(p, False) for p in passes),
        tuple(of_pass(p, True) for p in passes),
        tuple(tuple(s for s in sums if ready[s.value] == p) for p in passes),
        tuple(
            places.get(p, ())
            + tuple(s for s in stores if (end if s.operand in overwritten else ready[s.value]) == p)
            for p in passes
        ),
        first={},
        kept={},
    )
    for p in passes:
        _keep(kernel, plan, p)
    return plan


def _levels(kernel: Kernel, pattern: Pattern) -> tuple[Level, ...]:
    """Return the level of each value: as the kernel says, or where axes merge, as walked."""
    if has_border(kernel):
        return tuple(value.level for value in kernel.values)
    levels: list[Level] = []
    for value in kernel.values:
        level = max((levels[a] for a in value.args), default=Level.SCALAR)
        if value.op == "load":
            access = pattern.accesses[value.extra]
            level = max(level, Level.ROW) if any(access.outer) else level
            level = level if access.column == "zero" else Level.ELEMENT
        levels.append(level)
    return tuple(levels)


def _ready(kernel: Kernel) -> tuple[int, ...]:
    ready: list[int] = []
    for value in kernel.values:
        after = max((ready[a] for a in value.args), default=0)
        ready.append(after + 1 if value.op == "reduce" else after)
    return tuple(ready)


def roots(kernel: Kernel, plan: Schedule, p: int, *, is_seldom: bool = False) -> list[int]:
    """Return the values that pass p is there for, or its loop for rows in need."""
    if is_seldom:
        return [kernel.values[r].args[0] for r in plan.seldom[p]]
    reduced = [kernel.values[r].args[0] for r in plan.reduces[p]]
    stores = (*plan.sums[p], *plan.stores[p])
    return reduced + [n for store in stores for n in (store.value, *store.places)]


def _keep(kernel: Kernel, plan: Schedule, p: int) -> None:
    """Decide for each value of earlier passes that pass p needs whether it is kept."""
    seen: set[int] = set()
    todo = roots(kernel, plan, p)
    while todo:
        number = todo.pop()
        if number in seen or plan.levels[number] < Level.ELEMENT:
            continue
        seen.add(number)
        if plan.first.setdefault(number, p) < p:
            if number in plan.kept:
                continue
            if _cost(kernel, plan, number) >= KEEP:
                plan.kept[number] = next(
                    (
                        s.operand
                        for s in plan.stores[plan.first[number]]
                        if s.value == number
                        and s.mode == "set"
                        and kernel.operands[s.operand].dtype == kernel.values[number].dtype
                    ),
                    None,
                )
                continue
        todo.extend(kernel.values[number].args)


def _cost(kernel: Kernel, plan: Schedule, number: int) -> int:
    """Return what it costs to compute a value again, in additions."""
    seen: set[int] = set()
    todo, cost = [number], 0
    while todo:
        at = todo.pop()
        if at in seen or plan.levels[at] < Level.ELEMENT:
            continue
        seen.add(at)
        value = kernel.values[at]
        cost += FUNCTIONS[value.op].cost if value.op in FUNCTIONS and at not in plan.kept else 1
        todo.extend(() if at in plan.kept else value.args)
    return cost
