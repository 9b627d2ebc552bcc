"""How the loops of a kernel become programs: a tile of rows and columns each.

    rows      the outer loops that no sum tells apart; a program runs through blocks of them in turns
              where it adds up over them
    columns   a whole row where something happens once a row, in registers or, where it is wide, in
              chunks; else a block of them
    groups    the other outer loops, one turn of each a program

What several programs have for one place goes aside, to memory where each has a place of its own, and
a second launch adds it up in order. So sums have the same bits on every GPU: the number of programs
is a constant, not the number of its processors.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from gradwright.fuse.functions import EXP, FUNCTIONS
from gradwright.fuse.ir import Kernel, Store
from gradwright.fuse.layout import Loops, Pattern, has_border

THREADS = 128
MOST_WARPS = 32
PER_THREAD = 16
"""Elements of a tile that a thread has at most: four loads of 16 bytes, of float32."""
REGISTERS = 65_536
"""Of a block, on every GPU from sm_80 on."""
OTHERS = 40
"""Registers that a thread takes for addresses, masks and temporary numbers."""
PROGRAMS = 528
"""Programs that add up over rows: four on each processor of the largest GPUs of today."""
SQUARE = 32
"""Columns of a tile where operands are walked in different orders: a line of 128 bytes each way."""


@dataclass(frozen=True)
class Form:
    """How the text of a kernel goes through its loops."""

    rows: tuple[int, ...] = ()
    """The outer loops that the rows of a tile run through; the others are groups."""
    is_chunked: bool = False
    """Whether a program goes through its columns by chunks."""
    is_split: bool = False
    """Whether blocks of columns are programs of their own."""
    is_summed: bool = False
    """Whether a program goes through several blocks of rows, adding up."""
    aside: tuple[int, ...] = ()
    """The stores, by number, whose results go aside."""


@dataclass(frozen=True)
class Tile:
    """The sizes that go with a form."""

    rows: int
    columns: int
    warps: int
    parts: int
    """Programs that share the rows of a group."""
    blocks: int
    """Programs that share the columns."""


def is_sum(store: Store) -> bool:
    """Tell whether a store adds up over what its operand does not move along."""
    return store.mode in ("sum", "sum_rows") and not store.places


def crosses(kernel: Kernel, pattern: Pattern) -> list[Store]:
    """Return the sums that several rows add to."""
    return [s for s in kernel.stores if is_sum(s) and not all(pattern.accesses[s.operand].outer)]


def tiled(kernel: Kernel, loops: Loops) -> tuple[Form, Tile]:
    """Return the form and the tile of a kernel for its loops."""
    pattern, outer, columns = loops.pattern, loops.outer, loops.columns
    sums = crosses(kernel, pattern)
    rows = tuple(
        loop
        for loop in range(len(outer))
        if not any(pattern.accesses[s.operand].outer[loop] for s in sums)
    )
    n_rows = math.prod(outer[loop] for loop in rows)
    groups = math.prod(outer) // max(n_rows, 1) if n_rows else 1
    groups = math.prod(n for loop, n in enumerate(outer) if loop not in rows)
    taken = registers(kernel)
    per_thread = max(2, min(PER_THREAD, _power_below((255 - OTHERS) / taken)))
    elements, warps = THREADS * per_thread, THREADS // 32
    whole = _power_above(columns)
    is_split = is_chunked = False
    if has_border(kernel):
        fitting = [w for w in (4, 8, 16, 32) if _fits(whole, w, taken)]
        is_chunked = not fitting
        block, warps = (elements, warps) if is_chunked else (whole, fitting[0])
    else:
        block = min(whole, SQUARE if _is_turned(loops) else elements)
        is_split = columns > block
    if sums and is_chunked:
        rows = ()
    tall = max(1, min(elements // block, _power_above(n_rows))) if rows else 1
    if warps == THREADS // 32:  # a small tile needs fewer
        warps = max(1, min(warps, tall * block // 32))
    turns = -(-n_rows // tall) if rows else 1
    groups = math.prod(n for loop, n in enumerate(outer) if loop not in rows)
    blocks = -(-columns // block) if is_split else 1
    is_summed = bool(sums) and not is_chunked
    parts = max(1, turns)
    if is_summed:
        parts = max(1, min(turns, PROGRAMS // max(1, groups * blocks)))
    form = Form(rows, is_chunked, is_split, is_summed)
    programs = groups * parts * blocks
    aside = tuple(
        n for n, s in enumerate(kernel.stores) if _goes_aside(kernel, loops, form, n, parts, programs)
    )
    return (
        Form(rows, is_chunked, is_split, is_summed, aside),
        Tile(tall, block, warps, parts, blocks),
    )


def _goes_aside(
    kernel: Kernel, loops: Loops, form: Form, number: int, parts: int, programs: int
) -> bool:
    """Tell whether several programs have something for one place, or one reads what another writes."""
    store = kernel.stores[number]
    access = loops.pattern.accesses[store.operand]
    still = any(not m and n > 1 for m, n in zip(access.outer, loops.outer, strict=True))
    in_blocks = form.is_split and access.column == "zero"
    if is_sum(store):
        groups = (k for k in range(len(loops.outer)) if k not in form.rows)
        apart = any(not access.outer[k] and loops.outer[k] > 1 for k in groups)
        crossing = not all(access.outer[k] for k in form.rows)
        return apart or in_blocks or (crossing and parts > 1)
    overwritten = dict(kernel.in_place)
    return store.operand in overwritten and programs > 1 and (still or in_blocks)


def registers(kernel: Kernel) -> int:
    """Return how many registers an element takes: what is needed later, at most, of all values."""
    last: dict[int, int] = {}
    for n, value in enumerate(kernel.values):
        last.update(dict.fromkeys(value.args, n))
    last.update((n, len(kernel.values)) for s in kernel.stores for n in (s.value, *s.places))
    most, live = 1, 0
    series = any(v.op in FUNCTIONS and FUNCTIONS[v.op].cost >= EXP for v in kernel.values)
    dying: dict[int, int] = {}
    for n, value in enumerate(kernel.values):
        size = max(1, value.dtype.itemsize // 4)
        live += size
        dying[last.get(n, n)] = dying.get(last.get(n, n), 0) + size
        most = max(most, live)
        live -= dying.pop(n, 0)
    wide = any(v.dtype.itemsize == 8 for v in kernel.values)
    return most + (6 if series else 2) * (1 + wide)


def _fits(block: int, warps: int, taken: int) -> bool:
    """Tell whether a row of a block fits into the registers of so many warps."""
    each = -(-block // (32 * warps))
    room = min(255, REGISTERS // (32 * warps)) - OTHERS // (2 if warps == MOST_WARPS else 1)
    return each <= PER_THREAD and each * taken <= room


def _is_turned(loops: Loops) -> bool:
    """Tell whether an operand lies along the innermost outer loop, not along the columns."""
    if not loops.outer:
        return False
    return any(a.column == "strided" and a.outer[-1] for a in loops.pattern.accesses)


@functools.cache
def _power_above(n: int) -> int:
    return 1 << max(0, (n - 1).bit_length())


def _power_below(x: float) -> int:
    return 1 << max(0, int(x).bit_length() - 1)
