"""Loops over calls of machine code: the same few calls for each image of a batch.

Calls of one image stand in a table; before each turn the addresses that move are written anew. So a
batch of a thousand images needs no longer table than one, and its scratch memory stays in cache.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..call import Call

HEAD = 5
"""Entries of a block before what moves: turns, calls, the table of calls, moves, their targets."""
SOURCE = """
define void @k(ptr %block) {
entry:
  %turns = load i64, ptr %block
  %at.calls = getelementptr i64, ptr %block, i64 1
  %calls = load i64, ptr %at.calls
  %at.table = getelementptr i64, ptr %block, i64 2
  %table = load ptr, ptr %at.table
  %at.moves = getelementptr i64, ptr %block, i64 3
  %moves = load i64, ptr %at.moves
  %at.targets = getelementptr i64, ptr %block, i64 4
  %targets = load ptr, ptr %at.targets
  %bases = getelementptr i64, ptr %block, i64 5
  br label %turn
turn:
  %i = phi i64 [ 0, %entry ], [ %i1, %turned ]
  %some = icmp slt i64 %i, %turns
  br i1 %some, label %moving, label %end
moving:
  %m = phi i64 [ 0, %turn ], [ %m1, %move ]
  %moved = icmp slt i64 %m, %moves
  br i1 %moved, label %move, label %calling
move:
  %at.base = getelementptr i64, ptr %bases, i64 %m
  %base = load i64, ptr %at.base
  %at.target = getelementptr [2 x i64], ptr %targets, i64 %m
  %target = load ptr, ptr %at.target
  %at.step = getelementptr i64, ptr %at.target, i64 1
  %step = load i64, ptr %at.step
  %way = mul i64 %i, %step
  %place = add i64 %base, %way
  store i64 %place, ptr %target
  %m1 = add i64 %m, 1
  br label %moving
calling:
  %c = phi i64 [ 0, %moving ], [ %c1, %call ]
  %called = icmp slt i64 %c, %calls
  br i1 %called, label %call, label %turned
call:
  %at.function = getelementptr [2 x ptr], ptr %table, i64 %c
  %function = load ptr, ptr %at.function
  %at.own = getelementptr ptr, ptr %at.function, i64 1
  %own = load ptr, ptr %at.own
  call void %function(ptr %own)
  %c1 = add i64 %c, 1
  br label %calling
turned:
  %i1 = add i64 %i, 1
  br label %turn
end:
  ret void
}
"""


@dataclass(frozen=True)
class Turn:
    """A call of each turn; ``steps`` say by how many bytes its operands move from turn to turn.

    The operands of its slots are numbered as those of the whole.
    """

    call: Call
    steps: dict[int, int]


def split(units: range, parts: int, grain: int = 1) -> list[range]:
    """Return at most so many parts of a range, all but the last of them multiples of a grain.

    >>> split(range(10), 4), split(range(10), 4, 4)
    ([range(0, 2), range(2, 5), range(5, 7), range(7, 10)], [range(0, 4), range(4, 10)])
    """
    ends = [len(units) * i // parts // grain * grain for i in range(parts)]
    return [units[a:b] for a, b in itertools.pairwise([*ends, len(units)]) if a < b]


def repeated(n: int, turns: Sequence[Turn]) -> Call:
    """Return the call that makes the calls of ``turns`` n times.

    >>> from gradwright.cpu.llvm.bind import bind_copy
    >>> from gradwright.cpu.llvm.compiler import available
    >>> x, y = np.ones((2, 3)), np.empty((2, 3))
    >>> calls = bind_copy(x[0], y[0]) if available() else None
    >>> calls is None or len(repeated(2, [Turn(calls[0], {0: 24, 1: 24})]).slots) == 2
    True
    """
    blocks = [turn.call.block.copy() for turn in turns]
    table = [
        entry for t, b in zip(turns, blocks, strict=True) for entry in (t.call.address, _at(b))
    ]
    bases: list[int] = []
    targets: list[int] = []
    slots: list[tuple[int, int]] = []
    for turn, block in zip(turns, blocks, strict=True):
        for slot, operand in turn.call.slots:
            slots.append((HEAD + len(bases), operand))
            bases.append(int(block[slot]))
            targets += [_at(block) + 8 * slot, turn.steps[operand]]
    tables = np.array(table, np.int64), np.array(targets, np.int64)
    head = [n, len(turns), _at(tables[0]), len(bases), _at(tables[1])]
    held = blocks, tables, [turn.call.held for turn in turns]
    return Call(_driver(), np.array([*head, *bases], np.int64), slots, held)


def sequence(calls: Sequence[Call]) -> Call:
    """Return the call that makes several calls, one after the other."""
    return repeated(1, [Turn(c, dict.fromkeys((n for _, n in c.slots), 0)) for c in calls])


def looped(n: int, first: Sequence[Call], second: Sequence[Call]) -> Call:
    """Return the call of n turns, of which these are the first two.

    What differs between them is addresses, which move on by as much from turn to turn.
    """
    turns: list[Turn] = []
    operands: list[int | None] = []
    for one, next_ in zip(first, second, strict=True):
        assert one.address == next_.address, "turns do the same"
        by, known = next_.block - one.block, dict(one.slots)
        moving = sorted({*known, *map(int, np.flatnonzero(by))})
        slots = [(slot, len(operands) + i) for i, slot in enumerate(moving)]
        operands += map(known.get, moving)
        turns.append(Turn(replace(one, slots=slots), {i: int(by[slot]) for slot, i in slots}))
    whole = repeated(n, turns)
    named = [(slot, operands[i]) for slot, i in whole.slots]
    return replace(whole, slots=[(slot, operand) for slot, operand in named if operand is not None])


def _at(x: np.ndarray[Any, Any]) -> int:
    return int(x.ctypes.data)


@functools.cache
def _driver() -> int:
    from .compiler import compile_text  # llvmlite, which no import of ours may load

    return compile_text(SOURCE)
