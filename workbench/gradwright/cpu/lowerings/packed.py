"""Products with rows in blocks of ggml formats, and rows of such tables, as machine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...program.lowering import lowering
from ...spec import TensorSpec
from ..call import Call, Native, numbered
from ..llvm.packed import bind_grad, bind_grouped, bind_product, bind_rows, is_known
from .common import Specs

SLOW = 1 << 20
"""Bytes of a weight from which on numpy, which makes floats of them, takes more than 10 ms."""


@lowering("ggml_matmul")
def _product(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Read blocks as they lie in a file; kinds without kernels become floats block by block."""
    x, w = ins
    if x is None or w is None or x.dtype != np.dtype("float32") or not is_known(op.format):
        return None
    as_bytes = op.activations == "int8"

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        return bind_product(op.format, xs[0], xs[1], ys[0], as_bytes=as_bytes)

    return Native(bind, slow=w.is_concrete and w.nbytes >= SLOW)


@lowering("ggml_grouped_matmul")
def _grouped(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Read the matrices of groups that have rows."""
    x, w = ins[:2]
    if x is None or w is None or x.dtype != np.dtype("float32") or not is_known(op.format):
        return None
    as_bytes = op.activations == "int8"

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        rows, weight, sizes = xs
        return bind_grouped(op.format, rows, weight, sizes, ys[0], as_bytes=as_bytes)

    return Native(bind, slow=w.is_concrete and w.nbytes >= SLOW)


@lowering("packed_matmul_grad")
def _grad(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Multiply with rows that are floats for a moment."""
    g, _, w = ins[:3]
    is_ggml = op.op.name == "ggml_matmul" and is_known(op.op.format)
    if g is None or w is None or g.dtype != np.dtype("float32") or not is_ggml:
        return None

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        return numbered(bind_grad(op.op.format, xs[0], xs[2], ys[0]), (0, 2, 3))

    return Native(bind, slow=w.is_concrete and w.nbytes >= SLOW)


@lowering("ggml_embedding")
def _rows(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Native | None:
    """Read the rows that are asked for."""
    if not is_known(op.format):
        return None

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        return bind_rows(op.format, xs[0], xs[1], ys[0])

    return Native(bind)
