"""Softmax along any axis.

    yᵢ = exp(xᵢ − max x) / Σⱼ exp(xⱼ − max x)

Bytes moved for N elements of s bytes: 2·N·s where a row fits in registers (x read once, y written
once); 3·N·s from memory or cache for wider rows, whose x is read a second time.
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

from ..launch import accumulator, contiguous, index_type, prepare, tile

# Chosen from the compiler's report; RESULTS.md has times on a GPU. 2,048 elements are four 16-byte
# loads in flight per thread; rows of up to 64 KiB of accumulators (16,384 float32) stay in the
# registers of 1,024 threads without spilling; wider rows loop over chunks.
TILE = 2_048
WIDEST_ROW = 65_536
CHUNK = 8_192


@triton.jit
def _softmax_tile_kernel(
    x_ptr,
    y_ptr,
    n_rows,
    n_cols,
    inner,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    ACC: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Softmax of ROWS rows held in registers; maximum, exponentials and sum in ACC.

    x_ptr, y_ptr: [outer, n_cols, inner]; row r is element (r // inner, :, r % inner).
    """
    row = tl.program_id(0).to(INDEX) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, BLOCK)
    start = (row // inner) * n_cols * inner + row % inner
    at = start[:, None] + col[None, :].to(INDEX) * inner
    inside = (row < n_rows)[:, None] & (col < n_cols)[None, :]

    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(ACC)
    x = tl.where((col < n_cols)[None, :], x, -float("inf"))
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    y = e / tl.sum(e, axis=1)[:, None]
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _softmax_loop_kernel(
    x_ptr, y_ptr, n_cols, inner, CHUNK: tl.constexpr, ACC: tl.constexpr, INDEX: tl.constexpr
):
    """Softmax of one row of any width, in two passes; maximum and sum are carried in ACC.

    x_ptr, y_ptr: [outer, n_cols, inner]; program r does element (r // inner, :, r % inner).
    """
    row = tl.program_id(0).to(INDEX)
    start = (row // inner) * n_cols * inner + row % inner
    top = tl.full((), -float("inf"), ACC)
    total = tl.full((), 0.0, ACC)
    for first in range(0, n_cols, CHUNK):
        col = first + tl.arange(0, CHUNK)
        at = start + col.to(INDEX) * inner
        x = tl.load(x_ptr + at, mask=col < n_cols, other=-float("inf")).to(ACC)
        higher = tl.maximum(top, tl.max(x, axis=0))
        shift = tl.where(higher == -float("inf"), 0.0, higher)  # nothing but −inf so far
        total = total * tl.exp(top - shift) + tl.sum(tl.exp(x - shift), axis=0)
        top = higher
    for first in range(0, n_cols, CHUNK):
        col = first + tl.arange(0, CHUNK)
        at = start + col.to(INDEX) * inner
        x = tl.load(x_ptr + at, mask=col < n_cols, other=0.0).to(ACC)
        y = tl.exp(x - top) / total
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=col < n_cols)


@lowering("softmax", device="cuda")
def softmax(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch the tile kernel, or the loop kernel for rows of more than ``WIDEST_ROW`` bytes."""
    (x,) = ins
    acc = accumulator(x)
    if acc is None or x.size == 0:
        return None
    axis = op.axis % x.rank
    n_cols, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    n_rows = x.size // n_cols
    args = {"x_ptr": x.dtype, "y_ptr": x.dtype, "n_cols": n_cols, "inner": inner}
    args |= {"ACC": acc, "INDEX": index_type(x.size)}
    if n_cols * max(4, x.dtype.itemsize) > WIDEST_ROW:
        run = prepare(_softmax_loop_kernel, n_rows, args | {"CHUNK": CHUNK}, num_warps=16)
    else:
        rows, block, warps = tile(n_cols, TILE)
        args |= {"n_rows": n_rows, "ROWS": rows, "BLOCK": block}
        run = prepare(_softmax_tile_kernel, triton.cdiv(n_rows, rows), args, warps)
    return lambda xs, ys: run(*contiguous(xs), *ys)
