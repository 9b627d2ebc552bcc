"""Products with rows in blocks of ggml formats, and rows of such tables, as machine code.

What writes it is imported for graphs that have such blocks: no other first run pays its 17 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...program.lowering import lowering
from ...spec import TensorSpec
from ..call import Call, Native, numbered
from .common import Specs

SLOW = 1 << 20
"""Bytes of a weight from which on numpy, which makes floats of them, takes more than 10 ms."""
Bind = Callable[[Sequence[Any], Sequence[Any]], Sequence[Call] | None]


def _native(name: str, x: TensorSpec | None, w: TensorSpec | None, bind: Bind) -> Native | None:
    """Return a product of float32 with blocks of a format; None where there are no kernels."""
    from ..llvm.packed import is_known

    if x is None or w is None or x.dtype != np.dtype("float32") or not is_known(name):
        return None
    return Native(bind, slow=w.is_concrete and w.nbytes >= SLOW)


@lowering("ggml_matmul")
def _product(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Read blocks as they lie in a file; kinds without kernels become floats block by block."""
    from ..llvm.packed import bind_product

    as_bytes = op.activations == "int8"

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        return bind_product(op.format, xs[0], xs[1], ys[0], as_bytes=as_bytes)

    return _native(op.format, ins[0], ins[1], bind)


@lowering("ggml_grouped_matmul")
def _grouped(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Read the matrices of groups that have rows."""
    from ..llvm.packed import bind_grouped

    as_bytes = op.activations == "int8"

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        rows, weight, sizes = xs
        return bind_grouped(op.format, rows, weight, sizes, ys[0], as_bytes=as_bytes)

    return _native(op.format, ins[0], ins[1], bind)


@lowering("nf4_matmul")
def _normal(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Look codes up in registers for one row of x, or have rows be floats for a moment."""
    return _of_nf4(op, ins[0], ins[1], ins[2], range(4), back=False)


def _of_nf4(
    op: Any,
    x: TensorSpec | None,
    w: TensorSpec | None,
    absmax: TensorSpec | None,
    operands: Sequence[int],
    *,
    back: bool,
) -> Native | None:
    """Return a product with a weight packed as NF4; ``operands`` are x, w, absmax and y."""
    from ..llvm.packed.normal import BLOCK, bind_normal

    if x is None or w is None or absmax is None or op.block_size != BLOCK:
        return None
    if {x.dtype, absmax.dtype} != {np.dtype("float32")}:
        return None

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        every = [*xs, *ys]
        given, packed, scales, y = (every[i] for i in operands)
        if packed.size % op.out_features:
            return None
        rows = packed.reshape(op.out_features, -1)
        return numbered(bind_normal(given, rows, scales, y, back=back), tuple(operands))

    return Native(bind, slow=w.is_concrete and w.nbytes >= SLOW)


@lowering("packed_matmul_grad")
def _grad(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Multiply with rows that are floats for a moment."""
    if op.op.name == "nf4_matmul":
        return _of_nf4(op.op, ins[0], ins[2], ins[3], (0, 2, 3, 4), back=True)
    if op.op.name != "ggml_matmul":
        return None
    from ..llvm.packed import bind_grad

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        return numbered(bind_grad(op.op.format, xs[0], xs[2], ys[0]), (0, 2, 3))

    return _native(op.op.format, ins[0], ins[2], bind)


@lowering("ggml_embedding")
def _rows(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Read the rows that are asked for."""
    from ..llvm.packed import bind_rows, is_known

    if not is_known(op.format) or op.dtype != np.dtype("float32"):
        return None

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        return bind_rows(op.format, xs[0], xs[1], ys[0])

    return Native(bind)
