"""Rows of tables that a step names: numbered, summed, taken and put back by machine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...program.lowering import lowering
from ...spec import TensorSpec
from ..call import Native
from ..llvm.rows import bind_put, bind_sum, bind_take
from .common import Specs

SLOW = 1 << 22
"""Bytes of a table from which on numpy, which copies it, takes more than a ms."""


@lowering("sum_rows")
def _sum(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Add up in the order in which rows are named, 64 at a time where one is named often."""
    return Native(bind_sum)


@lowering("take_rows")
def _take(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Read what is named."""
    return Native(bind_take)


@lowering("put_rows")
def _put(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Write what is named, where the table lies if it may."""
    return Native(bind_put, in_place=((0, 0),), slow=outs[0].nbytes >= SLOW)
