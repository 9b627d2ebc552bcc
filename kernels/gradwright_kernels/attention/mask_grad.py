"""What goes back to a mask that was added to scores: slopes, summed where it was broadcast.

    dmask = Σ P·(g·vᵀ − delta)

mask: [B?, Hq?, T?, S?], each axis whole or 1. A program has a tile of the mask, and goes through
all heads, samples, queries and keys that share it, in one order: no atomics. Bytes moved: those of
q, k, v and g once for each tile of scores, L2 aside; 2·B·Hq·T·S·(E + D) flops.
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from gradwright.program.lowering import Launch, lowering
from gradwright.spec import TensorSpec

from ..launch import Strided, prepare
from . import flash_grad
from .flash_grad import given, slopes
from .given import Tile, is_taken
from .tiles import piece_of

TILES: dict[int, list[Tile]] = {
    2: flash_grad.TILES[2],
    4: [(math.inf, True, 16, 16, 16, 4, 1)],
    8: [(math.inf, True, 16, 16, 16, 4, 1)],
}
"""As those of flash attention's gradient; a mask lies in all positions of a tile."""


@triton.jit
def _of_mask_kernel(
    g_ptr, q_ptr, k_ptr, v_ptr, lse_ptr, delta_ptr, mask_ptr, dmask_ptr,
    g_batch, g_head, g_row, g_col, q_batch, q_head, q_row, q_col, k_batch, k_head, k_row, k_col,
    v_batch, v_head, v_row, v_col, lse_batch, lse_head, lse_row, delta_batch, delta_head, delta_row,
    mask_batch, mask_head, mask_row, mask_col, n_batches, n_rows, n_cols, n_heads, share, left,
    right, offset,
    SCALE: tl.constexpr, WIDTH: tl.constexpr, OF_VALUE: tl.constexpr, PIECE: tl.constexpr,
    PIECE_OF_VALUE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, LOW: tl.constexpr,
    BLIND: tl.constexpr, SHUTS: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    BY_BATCH: tl.constexpr, BY_HEAD: tl.constexpr, BY_ROW: tl.constexpr, BY_COL: tl.constexpr,
    OPERAND: tl.constexpr, ACC: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Gradient of ROWS x COLS elements of a mask, or of as many as it has along an axis of 1.

    Program (r, c, n): tile (r, c) of the n-th of the mask's matrices; BY_…: the mask has that axis.
    """
    of_all = tl.program_id(2)
    first_batch, last_batch = of_all * 0, n_batches + of_all * 0
    first_head, last_head = of_all * 0, n_heads + of_all * 0
    if BY_BATCH:
        first_batch = of_all // n_heads if BY_HEAD else of_all
        last_batch = first_batch + 1
    if BY_HEAD:
        first_head = of_all % n_heads
        last_head = first_head + 1
    first_row, last_row = tl.program_id(0) * ROWS, n_rows + of_all * 0
    first_col, last_col = tl.program_id(1) * COLS, n_cols + of_all * 0
    if BY_ROW:
        last_row = tl.minimum(first_row + ROWS, n_rows)
    if BY_COL:
        last_col = tl.minimum(first_col + COLS, n_cols)

    total = tl.zeros((ROWS, COLS), ACC)
    for of_batch in range(first_batch, last_batch):
        batch = of_all.to(INDEX) * 0 + of_batch
        for of_head in range(first_head, last_head):
            head = of_all.to(INDEX) * 0 + of_head
            lse_at = lse_ptr + batch * lse_batch + head * lse_head
            delta_at = delta_ptr + batch * delta_batch + head * delta_head
            mask_at = mask_ptr + batch * mask_batch + head * mask_head
            for start in range(first_row, last_row, ROWS):
                row = start + tl.arange(0, ROWS)
                q_at = q_ptr + batch * q_batch + head * q_head + row.to(INDEX) * q_row
                g_at = g_ptr + batch * g_batch + head * g_head + row.to(INDEX) * g_row
                q = piece_of(q_at, q_col, row < n_rows, 0, WIDTH, PIECE, OPERAND)
                for begin in range(first_col, last_col, COLS):
                    col = begin + tl.arange(0, COLS)
                    keys = k_ptr + batch * k_batch + head // share * k_head
                    values = v_ptr + batch * v_batch + head // share * v_head
                    keys += col.to(INDEX) * k_row
                    values += col.to(INDEX) * v_row
                    k = piece_of(keys, k_col, col < n_cols, 0, WIDTH, PIECE, OPERAND)
                    _, ds = slopes(
                        q, k, q_at, q_col, keys, k_col, g_at, g_col, values, v_col, row, col,
                        n_rows, n_cols, left, right, offset, mask_at, mask_row, mask_col, lse_at,
                        lse_row, delta_at, delta_row, SCALE, WIDTH, OF_VALUE, PIECE, PIECE_OF_VALUE,
                        LOW, BLIND, SHUTS, LEFT, RIGHT, OPERAND, ACC, INDEX,
                    )  # fmt: skip
                    total += ds
    if not BY_ROW:
        total = tl.where((tl.arange(0, ROWS) == 0)[:, None], tl.sum(total, axis=0)[None, :], 0.0)
    if not BY_COL:
        total = tl.where((tl.arange(0, COLS) == 0)[None, :], tl.sum(total, axis=1)[:, None], 0.0)
    row, col = first_row + tl.arange(0, ROWS), first_col + tl.arange(0, COLS)
    rows, cols = n_rows if BY_ROW else 1, n_cols if BY_COL else 1
    at = (of_all.to(INDEX) * rows + row)[:, None] * cols + col[None, :]
    inside = (row < rows)[:, None] & (col < cols)[None, :]
    tl.store(dmask_ptr + at, total.to(dmask_ptr.dtype.element_ty), mask=inside)


@lowering("flash_attention_mask_grad", device="cuda")
def flash_attention_mask_grad(
    op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]
) -> Strided | None:
    """Launch a program for each tile of the mask."""
    return Strided(functools.partial(of_mask, op)) if is_taken(*ins) else None


def of_mask(op: Any, xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
    """Return what launches the kernel on arrays that lie so."""
    q, mask, dmask = xs[1], xs[6], ys[0]
    if mask.size == 0:
        return lambda xs, ys: None
    args, options, open_at = given(op, xs, TILES)
    batch, head, rows, cols = (1,) * (4 - mask.ndim) + mask.shape
    args |= {"dmask_ptr": dmask.dtype, "n_batches": q.shape[0]}
    args |= {"BY_BATCH": batch > 1, "BY_HEAD": head > 1, "BY_ROW": rows > 1, "BY_COL": cols > 1}
    grid = triton.cdiv(rows, args["ROWS"]), triton.cdiv(cols, args["COLS"]), batch * head
    args = {name: args[name] for name in _of_mask_kernel.arg_names}
    run = prepare(_of_mask_kernel, grid, args, loose=open_at, **options)
    return lambda xs, ys: run(*xs, *ys)
