"""Rows of tables that a step names: numbered, summed, taken and put back by machine code.

What writes it is imported for graphs that have such rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...fuse.rules_updates import kernel_of
from ...program.declined import DeclinedError
from ...program.lowering import lowering
from ...spec import TensorSpec
from ..call import Call, Native
from .common import Specs, floats

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


@lowering("update_rows")
def _update(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Take rows, update and put them, some at a time; others than floats are opened."""
    specs = [s for s in ins if s is not None]
    n, dtype = op.n_tables, outs[0].dtype
    tensors, numbers = [specs[0], specs[2], *specs[3 : 2 + n]], specs[2 + n :]
    if not floats(outs[0]) or any(s.dtype != dtype for s in tensors):
        return None
    try:
        kernel, reads = kernel_of(op.op, dtype, len(tensors), [s.dtype for s in numbers])
    except DeclinedError:
        return None

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        from ..llvm.irregular.rows import bind_update

        return bind_update(kernel, reads, n, xs, ys)

    pairs = ((0, 0), *((k, 2 + k) for k in range(1, n)))
    return Native(bind, in_place=pairs, slow=outs[0].nbytes >= SLOW)
