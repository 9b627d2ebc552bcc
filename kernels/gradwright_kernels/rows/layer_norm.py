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

import math
from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from gradwright.program.lowering import Launch, lowering
from gradwright.spec import TensorSpec

from ..launch import (
    PROGRAMS,
    accumulator,
    contiguous,
    index_type,
    pointer,
    prepare,
    pullback,
    tile,
    workspace,
)

# Chosen from the compiler's report; RESULTS.md has times on a GPU. The backward kernel holds four
# values per element (x̂, w·dy and the sums). Up to these widths, by bits of the accumulator, they
# stay in registers: 8 elements per thread, 1,024 threads, no spills. The width is a constant of the
# code, as it hardly changes within a model: what pads a row then costs nothing.
TILE = 2_048
TILE_BACKWARD = 1_024
WIDEST_ROW = {32: 8_192, 64: 2_048}
SUM_COLUMNS = 64
SUM_ROWS = 32


@triton.jit
def _normalise(x, inside, N_COLS: tl.constexpr, EPS: tl.constexpr):
    """Return x̂ and 1/√(var x + ε) of a tile [ROWS, BLOCK]; x̂ is 0 outside."""
    mean = tl.sum(x, axis=1) / N_COLS
    centred = tl.where(inside, x - mean[:, None], 0.0)
    variance = tl.sum(centred * centred, axis=1) / N_COLS
    inverse = 1.0 / tl.sqrt(variance + EPS)
    return centred * inverse[:, None], inverse


@triton.jit
def _layer_norm_forward_kernel(
    x_ptr,
    w_ptr,
    b_ptr,
    y_ptr,
    n_rows,
    N_COLS: tl.constexpr,
    EPS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    ACC: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Normalise ROWS rows held in registers; all arithmetic in ACC.

    x_ptr, y_ptr: [n_rows, n_cols]; w_ptr: [n_cols] or absent (1); b_ptr: [n_cols] or absent (0).
    """
    row = tl.program_id(0).to(INDEX) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, BLOCK)
    at = row[:, None] * N_COLS + col[None, :]
    inside = (row < n_rows)[:, None] & (col < N_COLS)[None, :]

    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(ACC)
    y, _ = _normalise(x, inside, N_COLS, EPS)
    if w_ptr is not None:
        y *= tl.load(w_ptr + col, mask=col < N_COLS, other=0.0).to(ACC)[None, :]
    if b_ptr is not None:
        y += tl.load(b_ptr + col, mask=col < N_COLS, other=0.0).to(ACC)[None, :]
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _layer_norm_backward_kernel(
    x_ptr,
    w_ptr,
    dy_ptr,
    dx_ptr,
    parts_ptr,
    n_rows,
    N_COLS: tl.constexpr,
    EPS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    ACC: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Gradient of x, and each program's share of those of w and b; all arithmetic in ACC.

    x_ptr, dy_ptr: [n_rows, n_cols]; w_ptr: [n_cols] or absent (1);
    dx_ptr: [n_rows, n_cols] or absent; parts_ptr: ACC[2, programs, n_cols] or absent: first the
    shares of dw, then those of db.
    """
    program, programs = tl.program_id(0), tl.num_programs(0)
    col = tl.arange(0, BLOCK)
    dw = tl.zeros((BLOCK,), ACC)
    db = tl.zeros((BLOCK,), ACC)
    for first in range(program * ROWS, n_rows, programs * ROWS):
        row = first + tl.arange(0, ROWS)
        at = row[:, None].to(INDEX) * N_COLS + col[None, :]
        inside = (row < n_rows)[:, None] & (col < N_COLS)[None, :]
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(ACC)
        dy = tl.load(dy_ptr + at, mask=inside, other=0.0).to(ACC)
        normal, inverse = _normalise(x, inside, N_COLS, EPS)
        if parts_ptr is not None:
            dw += tl.sum(dy * normal, axis=0)
            db += tl.sum(dy, axis=0)
        if dx_ptr is not None:
            if w_ptr is not None:
                dy *= tl.load(w_ptr + col, mask=col < N_COLS, other=0.0).to(ACC)[None, :]
            mean = tl.sum(dy, axis=1) / N_COLS
            slope = tl.sum(dy * normal, axis=1) / N_COLS
            dx = (dy - mean[:, None] - normal * slope[:, None]) * inverse[:, None]
            tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), mask=inside)
    if parts_ptr is not None:
        tl.store(parts_ptr + program * N_COLS + col, dw, mask=col < N_COLS)
        tl.store(parts_ptr + (programs + program) * N_COLS + col, db, mask=col < N_COLS)


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

    parts_ptr: ACC[2, n_parts, n_cols]; dw_ptr, db_ptr: [n_cols], one of them may be absent.
    """
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dw = tl.zeros((BLOCK,), ACC)
    db = tl.zeros((BLOCK,), ACC)
    for first in range(0, n_parts, ROWS):
        part = first + tl.arange(0, ROWS)
        at = part[:, None] * n_cols + col[None, :]
        inside = (part < n_parts)[:, None] & (col < n_cols)[None, :]
        if dw_ptr is not None:
            dw += tl.sum(tl.load(parts_ptr + at, mask=inside, other=0.0), axis=0)
        if db_ptr is not None:
            at += n_parts * n_cols
            db += tl.sum(tl.load(parts_ptr + at, mask=inside, other=0.0), axis=0)
    if dw_ptr is not None:
        tl.store(dw_ptr + col, dw.to(dw_ptr.dtype.element_ty), mask=col < n_cols)
    if db_ptr is not None:
        tl.store(db_ptr + col, db.to(db_ptr.dtype.element_ty), mask=col < n_cols)


def _rows(op: Any, x: Any, acc: Any) -> dict[str, Any] | None:
    """Return what both passes need to know about the rows of x; None declines."""
    n_cols = math.prod(x.shape[op.axis % x.rank :])
    if acc is None or x.size == 0 or n_cols > WIDEST_ROW[acc.primitive_bitwidth]:
        return None
    return {
        "x_ptr": x.dtype,
        "n_rows": x.size // n_cols,
        "N_COLS": n_cols,
        "EPS": op.eps,
        "ACC": acc,
        "INDEX": index_type(x.size),
    }


@lowering("layer_norm", device="cuda")
def layer_norm(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch the forward kernel; rows wider than ``WIDEST_ROW`` run as the expansion."""
    x, w, b = (*ins, None, None)[:3]
    rows = _rows(op, x, accumulator(x, w, b))
    if rows is None:
        return None
    n_tile, block, warps = tile(rows["N_COLS"], TILE)
    args = {**rows, "w_ptr": pointer(w), "b_ptr": pointer(b), "y_ptr": outs[0].dtype}
    args |= {"ROWS": n_tile, "BLOCK": block}
    n_programs = triton.cdiv(rows["n_rows"], n_tile)
    run = prepare(_layer_norm_forward_kernel, n_programs, args, warps)
    return lambda xs, ys: run(*contiguous(xs), *ys)


@pullback("layer_norm")
def layer_norm_pullback(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch the backward kernel on all rows, then add up what its programs found for w and b."""
    x, w, b = (*ins[: op.n_inputs], None, None)[:3]
    acc = accumulator(x, w, b)
    rows = _rows(op.op, x, acc)
    if rows is None:
        return None
    dx, dw, db = map(dict(zip(op.wrt, outs, strict=True)).get, range(3))
    n_tile, block, warps = tile(rows["N_COLS"], TILE_BACKWARD, per_thread=8)
    n_programs = min(PROGRAMS, triton.cdiv(rows["n_rows"], n_tile))
    parts = None
    if dw or db:
        parts = TensorSpec((2, n_programs, rows["N_COLS"]), f"float{acc.primitive_bitwidth}")

    args = {**rows, "w_ptr": pointer(w), "dy_ptr": ins[-1].dtype, "dx_ptr": pointer(dx)}
    args |= {"parts_ptr": pointer(parts), "ROWS": n_tile, "BLOCK": block}
    by_rows = prepare(_layer_norm_backward_kernel, n_programs, args, warps)
    read = (0, -1) if w is None else (0, 1, -1)
    if parts is None:
        return lambda xs, ys: by_rows(*contiguous([xs[i] for i in read]), *ys)

    space = workspace(parts)
    args = {"parts_ptr": parts.dtype, "dw_ptr": pointer(dw), "db_ptr": pointer(db), "ACC": acc}
    args |= {"n_parts": n_programs, "n_cols": rows["N_COLS"]}
    args |= {"ROWS": SUM_ROWS, "BLOCK": SUM_COLUMNS}
    by_columns = prepare(_sum_parts_kernel, triton.cdiv(rows["N_COLS"], SUM_COLUMNS), args)
    n_dx = 0 if dx is None else 1

    def run(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        by_rows(*contiguous([xs[i] for i in read]), *ys[:n_dx], space)
        by_columns(space, *ys[n_dx:])

    return run
