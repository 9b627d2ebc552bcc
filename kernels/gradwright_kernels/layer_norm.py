"""Layer normalisation of the last axis, and its gradient.

    x̂ = (x − mean x) / √(var x + ε)        y = x̂·w + b
    dx = (w·dy − mean(w·dy) − x̂·mean(w·dy·x̂)) / √(var x + ε)
    dw = Σ dy·x̂        db = Σ dy           (over all rows)

Bytes moved for R rows of C elements of s bytes: forward 2·R·C·s, backward 3·R·C·s, and the few
kilobytes of w, b and partial sums. Mean and variance are not saved: the backward kernel has the
whole row of x at hand and computes them again, which costs no memory traffic.
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from gradwright.lowering import Launch, lowering
from gradwright.spec import TensorSpec

from ._launch import accumulator, index_type, prepare, tile, workspace

# Chosen from the compiler's report, not measured: no kernel here has run on a GPU yet. The backward
# kernel holds five values per element (x̂, w·dy, w and the sums), which fit in registers without
# spilling up to rows of 32 KiB of accumulators: 8,192 float32 or 4,096 float64.
TILE = 2_048
TILE_BACKWARD = 1_024
WIDEST_ROW = 32_768
# Programs that share out the rows of the backward pass, two for each processor of an H100. The same
# on every GPU, so that dw and db are added up in the same order everywhere.
PROGRAMS = 264
SUM_COLUMNS = 64
SUM_ROWS = 32


@triton.jit
def _normalise(x, inside, n_cols, EPS: tl.constexpr):
    """Return x̂ and 1/√(var x + ε) of a tile [ROWS, BLOCK]; x̂ is 0 outside."""
    mean = tl.sum(x, axis=1) / n_cols
    centred = tl.where(inside, x - mean[:, None], 0.0)
    variance = tl.sum(centred * centred, axis=1) / n_cols
    inverse = 1.0 / tl.sqrt(variance + EPS)
    return centred * inverse[:, None], inverse


@triton.jit
def _layer_norm_forward_kernel(
    x_ptr,
    w_ptr,
    b_ptr,
    y_ptr,
    n_rows,
    n_cols,
    EPS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    ACC: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Normalise ROWS rows held in registers; all arithmetic in ACC.

    x_ptr, y_ptr: [n_rows, n_cols]; w_ptr, b_ptr: [n_cols].
    """
    row = tl.program_id(0).to(INDEX) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, BLOCK)
    at = row[:, None] * n_cols + col[None, :]
    inside = (row < n_rows)[:, None] & (col < n_cols)[None, :]

    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(ACC)
    w = tl.load(w_ptr + col, mask=col < n_cols, other=0.0).to(ACC)
    b = tl.load(b_ptr + col, mask=col < n_cols, other=0.0).to(ACC)
    normal, _ = _normalise(x, inside, n_cols, EPS)
    y = normal * w[None, :] + b[None, :]
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _layer_norm_backward_kernel(
    dy_ptr,
    x_ptr,
    w_ptr,
    dx_ptr,
    parts_ptr,
    n_rows,
    n_cols,
    EPS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    ACC: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Gradient of x, and each program's share of those of w and b; all arithmetic in ACC.

    dy_ptr, x_ptr, dx_ptr: [n_rows, n_cols]; w_ptr: [n_cols];
    parts_ptr: ACC[2, programs, n_cols], first the shares of dw, then those of db.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    col = tl.arange(0, BLOCK)
    w = tl.load(w_ptr + col, mask=col < n_cols, other=0.0).to(ACC)
    dw = tl.zeros((BLOCK,), ACC)
    db = tl.zeros((BLOCK,), ACC)
    for first in range(program * ROWS, n_rows, programs * ROWS):
        row = first + tl.arange(0, ROWS)
        at = row[:, None].to(INDEX) * n_cols + col[None, :]
        inside = (row < n_rows)[:, None] & (col < n_cols)[None, :]
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(ACC)
        dy = tl.load(dy_ptr + at, mask=inside, other=0.0).to(ACC)
        normal, inverse = _normalise(x, inside, n_cols, EPS)
        dw += tl.sum(dy * normal, axis=0)
        db += tl.sum(dy, axis=0)
        wdy = dy * w[None, :]
        mean = tl.sum(wdy, axis=1) / n_cols
        slope = tl.sum(wdy * normal, axis=1) / n_cols
        dx = (wdy - mean[:, None] - normal * slope[:, None]) * inverse[:, None]
        tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), mask=inside)
    tl.store(parts_ptr + program * n_cols + col, dw, mask=col < n_cols)
    tl.store(parts_ptr + (programs + program) * n_cols + col, db, mask=col < n_cols)


@triton.jit
def _sum_parts_kernel(
    parts_ptr,
    dw_ptr,
    db_ptr,
    n_parts,
    n_cols,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    ACC: tl.constexpr,
):
    """Add up the shares of dw and db, always in the same order, in ACC.

    parts_ptr: ACC[2, n_parts, n_cols]; dw_ptr, db_ptr: [n_cols].
    """
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dw = tl.zeros((BLOCK,), ACC)
    db = tl.zeros((BLOCK,), ACC)
    for first in range(0, n_parts, ROWS):
        part = first + tl.arange(0, ROWS)
        at = part[:, None] * n_cols + col[None, :]
        inside = (part < n_parts)[:, None] & (col < n_cols)[None, :]
        dw += tl.sum(tl.load(parts_ptr + at, mask=inside, other=0.0), axis=0)
        db += tl.sum(tl.load(parts_ptr + n_parts * n_cols + at, mask=inside, other=0.0), axis=0)
    tl.store(dw_ptr + col, dw.to(dw_ptr.dtype.element_ty), mask=col < n_cols)
    tl.store(db_ptr + col, db.to(db_ptr.dtype.element_ty), mask=col < n_cols)


@lowering("layer_norm", device="cuda")
def layer_norm(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch the forward kernel; rows wider than ``WIDEST_ROW`` bytes are left to other ops."""
    x, w, b = ins
    acc = accumulator(x.dtype)
    n_cols = x.shape[-1]
    if acc is None or x.size == 0 or n_cols * max(4, x.dtype.itemsize) > WIDEST_ROW:
        return None
    n_rows = x.size // n_cols
    rows, block, warps = tile(n_cols, TILE)
    args = {"x_ptr": x.dtype, "w_ptr": w.dtype, "b_ptr": b.dtype, "y_ptr": x.dtype}
    args |= {"n_rows": n_rows, "n_cols": n_cols, "EPS": op.epsilon, "INDEX": index_type(x.size)}
    args |= {"ROWS": rows, "BLOCK": block, "ACC": acc}
    run = prepare(_layer_norm_forward_kernel, triton.cdiv(n_rows, rows), args, warps)
    return lambda xs, ys: run(*xs, ys[0])


@lowering("layer_norm_grad", device="cuda")
def layer_norm_grad(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch the backward kernel on all rows, then add up what its programs found for w and b."""
    dy, x, w = ins
    acc = accumulator(x.dtype)
    n_cols = x.shape[-1]
    if acc is None or x.size == 0 or n_cols * max(4, x.dtype.itemsize) > WIDEST_ROW:
        return None
    n_rows = x.size // n_cols
    rows, block, warps = tile(n_cols, TILE_BACKWARD)
    programs = min(PROGRAMS, triton.cdiv(n_rows, rows))
    acc_dtype = np.dtype("float64" if acc is tl.float64 else "float32")
    parts = workspace((2, programs, n_cols), acc_dtype)

    args = {"dy_ptr": dy.dtype, "x_ptr": x.dtype, "w_ptr": w.dtype, "dx_ptr": x.dtype}
    args |= {"parts_ptr": acc_dtype, "n_rows": n_rows, "n_cols": n_cols, "EPS": op.epsilon}
    args |= {"ROWS": rows, "BLOCK": block, "ACC": acc, "INDEX": index_type(x.size)}
    by_rows = prepare(_layer_norm_backward_kernel, programs, args, warps)

    args = {"parts_ptr": acc_dtype, "dw_ptr": w.dtype, "db_ptr": w.dtype}
    args |= {"n_parts": programs, "n_cols": n_cols}
    args |= {"ROWS": SUM_ROWS, "BLOCK": SUM_COLUMNS, "ACC": acc}
    by_columns = prepare(_sum_parts_kernel, triton.cdiv(n_cols, SUM_COLUMNS), args)

    def run(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        dx, dw, db = ys
        by_rows(*xs, dx, parts)
        by_columns(parts, dw, db)

    return run
