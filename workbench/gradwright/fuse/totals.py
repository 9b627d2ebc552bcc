"""Totals: where many rows add to one place, a float64 stands beside each float32 sum.

Added up in float32 alone, a million numbers lose four digits. So rows add to the operand itself
for `BLOCK` turns of a loop at most; then the block goes to its total, and the operand starts at 0:

    for rows in blocks of 64:    y += row, for each row of the block
                                 total += y,  y = 0
    y = total

What a row has one number for goes to its total at once. Totals stand in scratch memory, one after
the other, each dense over the loops that its operand moves in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .ir import Kernel, Store
from .layout import Access, Loops, Pattern

BLOCK = 64
"""Numbers added up in float32 one by one, which lose about as much as numpy's pairwise sums."""


@dataclass(frozen=True)
class Total:
    """A sum that has totals: its store, and the outer loops in which its operand moves or not."""

    store: Store
    access: Access

    @property
    def moving(self) -> list[int]:
        """Return the outer loops along which there are several totals."""
        return [loop for loop, moves in enumerate(self.access.outer) if moves]

    @property
    def still(self) -> list[int]:
        """Return the outer loops whose turns add to one place."""
        return [loop for loop, moves in enumerate(self.access.outer) if not moves]

    @property
    def is_row(self) -> bool:
        """Tell whether each row adds to all columns of an operand."""
        return self.access.column != "zero"

    @property
    def own_access(self) -> Access:
        """Return how the totals are walked."""
        return Access("unit" if self.is_row else "zero", self.access.outer)

    def n_bytes(self, loops: Loops) -> int:
        """Return what the totals take; nothing where one block holds all rows."""
        if self.is_row and math.prod(loops.outer[loop] for loop in self.still) <= BLOCK:
            return 0
        sizes = [loops.outer[loop] for loop in self.moving]
        return 8 * math.prod(sizes) * (loops.columns if self.is_row else 1)


def totals(kernel: Kernel, pattern: Pattern) -> list[Total]:
    """Return the sums of a kernel that have totals; one that never moves is a variable instead."""
    found = [
        Total(store, pattern.accesses[store.operand])
        for store in kernel.stores
        if store.mode != "set" and not store.places
        if kernel.values[store.value].dtype == np.float32
    ]
    return [t for t in found if t.still and (t.is_row or t.moving)]
