"""How the loops of a kernel become programs: a tile of rows and columns each.

    rows      the outer loops that no sum tells apart; a program that adds up over them goes through
              several blocks of rows, in turns
    columns   a whole row where something happens once a row, in registers or, where it is too wide
              for them, in chunks; else a block of columns
    groups    the other outer loops, of which a program has one turn

What several programs have for one place goes aside, to memory where each has a place of its own,
and another launch adds it up in order. So a sum has the same bits on every GPU: how many programs
add up is a constant, not the number of its processors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gradwright.errors import LoweringError
from gradwright.fuse.functions import EXP, FUNCTIONS
from gradwright.fuse.ir import Kernel, Store
from gradwright.fuse.layout import Loops, has_border

from ..compile.compiler import REGISTERS_PER_BLOCK

THREADS = 128
"""Of a program whose tile is not as wide as a row has to be."""
PER_THREAD = 16
"""Elements of a tile that a thread has at most: four loads of 16 bytes, of float32."""
WARPS = 4, 8, 16, 32
"""Of programs that hold whole rows."""
MOST_REGISTERS, OTHERS = 255, 40
"""Of a thread, and what it takes for addresses, masks and counting."""
SERIES, WIDE_SERIES = 6, 14
"""Registers that an element takes in a series, and in one that goes through float64."""
WIDE = frozenset({"erfc", "pow", "sin", "cos", "tan"})
"""Series of float32 that do."""
PROGRAMS, TURNS = 528, 8
"""Programs that add up over rows, at most, four for each processor of an H100; turns of each."""
TALL = 64
"""Columns of a tile where there is nothing but sums over rows: so it has more rows to add up."""
SQUARE = 32
"""Columns of a tile where operands lie in different orders: a line of 128 bytes each way."""


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
    is_several: bool = False
    """Whether a table says which arrays a program works on."""


@dataclass(frozen=True)
class Tile:
    """The sizes that go with a form: of a tile, and of programs."""

    rows: int
    columns: int
    warps: int
    groups: int
    turns: int
    """Blocks of rows of a group."""
    parts: int
    """Programs that share them."""
    blocks: int
    """Programs that share the columns."""

    @property
    def programs(self) -> int:
        """Return the number of programs."""
        return self.groups * self.parts * self.blocks


def is_sum(store: Store) -> bool:
    """Tell whether a store adds up over what its operand does not move along."""
    return store.mode in ("sum", "sum_rows")


def tiled(kernel: Kernel, loops: Loops) -> tuple[Form, Tile]:
    """Return the form and the tile of a kernel for its loops.

    Raises LoweringError: what it joins where indices name places has no form here.
    """
    if any(store.places for store in kernel.stores):
        raise LoweringError("a generated kernel joins nothing where indices name places")
    form, tile = _in_tiles(kernel, loops)
    aside = tuple(n for n in range(len(kernel.stores)) if _goes_aside(kernel, loops, form, tile, n))
    return replace(form, aside=aside), tile


def _in_tiles(kernel: Kernel, loops: Loops) -> tuple[Form, Tile]:
    """Return a form whose programs may run in any order."""
    accesses, outer = loops.pattern.accesses, loops.outer
    sums = [accesses[s.operand].outer for s in kernel.stores if is_sum(s)]
    crossing = [moves for moves in sums if not all(moves)]
    taken, whole = registers(kernel), _power(loops.columns)
    each = max(2, min(PER_THREAD, _power_below((MOST_REGISTERS - OTHERS) // taken)))
    elements, warps = THREADS * each, max(1, THREADS // 32)
    block, is_chunked = min(whole, elements), False
    if has_border(kernel):
        fitting = [w for w in WARPS if fits(whole, w, taken)]
        is_chunked = not fitting
        block, warps = (elements, warps) if is_chunked else (whole, fitting[0])
    elif crossing or _is_turned(loops):
        block = min(block, SQUARE if _is_turned(loops) else TALL)
    rows = tuple(k for k in range(len(outer)) if not any(moves[k] for moves in crossing))
    form = Form(
        () if is_chunked else rows,
        is_chunked,
        is_split=not is_chunked and block < whole,
        is_summed=bool(crossing) and not is_chunked,
    )
    n_rows = math.prod(outer[k] for k in form.rows)
    tall = max(1, min(elements // block, _power(n_rows))) if form.rows else 1
    groups = math.prod(n for k, n in enumerate(outer) if k not in form.rows)
    blocks = -(-loops.columns // block) if form.is_split else 1
    turns = max(1, -(-n_rows // tall))
    parts = turns
    if form.is_summed:
        parts = max(1, min(-(-turns // TURNS), PROGRAMS // max(1, groups * blocks)))
    if warps <= THREADS // 32:  # a small tile needs fewer, each thread four neighbours
        warps = max(1, min(warps, tall * block // 128))
    return form, Tile(tall, block, warps, groups, turns, parts, blocks)


def _goes_aside(kernel: Kernel, loops: Loops, form: Form, tile: Tile, number: int) -> bool:
    """Tell whether several programs have parts of one sum, or one reads what another overwrites."""
    store = kernel.stores[number]
    access = loops.pattern.accesses[store.operand]
    still = [k for k, n in enumerate(loops.outer) if n > 1 and not access.outer[k]]
    in_blocks = tile.blocks > 1 and access.column == "zero"
    if is_sum(store):
        in_rows = any(k in form.rows for k in still)
        return in_blocks or (in_rows and tile.parts > 1) or any(k not in form.rows for k in still)
    is_shared = tile.programs > 1 and (in_blocks or bool(still))
    return is_shared and store.operand in dict(kernel.in_place)


def registers(kernel: Kernel) -> int:
    """Return how many registers an element takes: for all values that are needed later, at most."""
    last: dict[int, int] = {}
    for n, value in enumerate(kernel.values):
        last.update(dict.fromkeys(value.args, n))
    last.update({s.value: len(kernel.values) for s in kernel.stores})
    most = live = 0
    dying: dict[int, int] = {}
    for n, value in enumerate(kernel.values):
        size = max(1, value.dtype.itemsize // 4)
        live += size
        most = max(most, live)
        end = last.get(n, n)
        dying[end] = dying.get(end, 0) + size
        live -= dying.pop(n, 0)
    slow = [v for v in kernel.values if v.op in FUNCTIONS and FUNCTIONS[v.op].cost >= EXP]
    wide = any(v.dtype.itemsize == 8 or v.op in WIDE for v in slow)
    return most + (WIDE_SERIES if wide else SERIES if slow else 1)


def fits(block: int, warps: int, taken: int) -> bool:
    """Tell whether a row of a block fits into the registers of so many warps.

    >>> fits(4096, 8, 6), fits(65536, 32, 6)
    (True, False)
    """
    each = -(-block // (32 * warps))
    room = min(MOST_REGISTERS, REGISTERS_PER_BLOCK // (32 * warps)) - OTHERS
    return each <= PER_THREAD and each * taken <= room


def _is_turned(loops: Loops) -> bool:
    """Tell whether an operand lies along the innermost outer loop, not along the columns."""
    accesses = loops.pattern.accesses
    return bool(loops.outer) and any(a.column == "strided" and a.outer[-1] for a in accesses)


def _power(n: int) -> int:
    """Return the power of two from n on."""
    return 1 << max(0, (n - 1).bit_length())


def _power_below(n: int) -> int:
    return 1 << max(0, n.bit_length() - 1)
