"""Rows of tables that a step names: numbered, summed, taken and put back by machine code.

What writes it is imported for graphs that have such rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...program.lowering import lowering
from ...spec import TensorSpec
from ..call import Call, Native
from .common import Specs

SLOW = 1 << 22
"""Bytes of a table from which on numpy, which copies it, takes more than a ms."""


@lowering("sum_rows")
@lowering("take_rows")
@lowering("put_rows")
def _rows(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Read and write what is named, a table where it lies if that may be."""

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        from ..llvm.irregular.rows import BINDS

        return BINDS[op.name](xs, ys)

    if op.name != "put_rows":
        return Native(bind)
    return Native(bind, in_place=((0, 0),), slow=outs[0].nbytes >= SLOW)
