"""Windows of rows: what several batches add to the rows of a table, behind each other.

The gradient of a window is that of all rows that its batches name. Where these are few, their
number is known, and the optimizer moves no others, each batch writes its rows and their sums behind
those of the batches before it; the update adds up what belongs to one row. Nothing is as large as
the table, and no step reads all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...graph import Tensor
from ...ops.core.choice import Where
from ...ops.core.creation import Arange
from ...ops.core.joining import Concat
from ...ops.core.movement import ExpandDims, cast_to
from ...ops.updates.rows import PutRows, SumRows
from ...spec import TensorSpec, at_least_float32
from ...spec.rows import INT64
from ..slots import Slots
from .rows import Named

WINDOW = "accumulation/"
"""What the names of variables begin with that hold what is known of a window."""
PART = 2
"""A window of rows is at most one of so many parts of its table."""


def keeps_rows(found: Named, batches: int) -> bool:
    """Tell whether the rows of so many batches are known to be few."""
    each, n = found.rows.shape[0], found.table.shape[0]
    if not (isinstance(each, int) and isinstance(n, int)):
        return False
    return batches > 1 and 0 < PART * each * batches <= n


@dataclass(frozen=True)
class Window:
    """The rows of the batches before the last one of a window, and what each adds to them."""

    table: Tensor
    each: int
    """How many rows a batch has."""
    rows: Tensor
    """i64[(batches − 1)·each]: their numbers and one, 0 where there is none."""
    sums: Tensor

    @classmethod
    def of(cls, state: Slots, found: Named, batches: int) -> Window:
        """Return the window of a table, its variables made where they are not there."""
        p, each = found.table, int(found.rows.shape[0])
        n = (batches - 1) * each
        spec = TensorSpec((n, *p.shape[1:]), at_least_float32(p.dtype))
        rows = state.variable(f"{WINDOW}rows/{p.name}", TensorSpec((n,), INT64), of=p)
        sums = state.variable(f"{WINDOW}sums/{p.name}", spec, of=p)
        return cls(p, each, rows, sums)

    def with_batch(self, batch: Named, weight: Tensor, before: Tensor) -> dict[Tensor, Tensor]:
        """Return what the variables become with a batch, of which there were some ``before``."""
        at = before * self.each + Arange(start=self.each)()
        values = self._weighed(batch, weight)
        return {
            self.rows: PutRows()(self.rows, at, batch.rows + 1),
            self.sums: PutRows()(self.sums, at, values),
        }

    def named(self, total: Tensor, batch: Named | None, weight: Tensor) -> Named:
        """Return the mean gradient of a window in rows, with that of a last batch."""
        rows, values = self.rows - 1, self.sums
        if batch is not None:
            rows = Concat(axis=0)(batch.rows, rows)
            values = Concat(axis=0)(self._weighed(batch, weight), values)
        is_there = rows >= 0
        rows = Where()(is_there, rows, rows[:1])  # to which the others add nothing
        inner = tuple(range(1, values.rank))
        wide = ExpandDims(axis=inner)(is_there) if inner else is_there
        found, sums = SumRows()(rows, Where()(wide, values, 0.0), self.table)
        return Named(self.table, found, sums / cast_to(sums.dtype, total))

    def _weighed(self, batch: Named, weight: Tensor) -> Tensor:
        dtype = self.sums.dtype
        found: Tensor = cast_to(dtype, weight) * cast_to(dtype, batch.grad)
        return found
