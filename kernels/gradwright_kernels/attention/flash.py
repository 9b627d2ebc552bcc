"""Attention whose memory grows with the length: a running maximum and total for each query.

    s = scale·q·kᵀ + mask, −∞ where hidden      m′ = max(m, max s)      p = exp(s − m′)
    l ← l·exp(m − m′) + Σ p        y ← y·exp(m − m′) + p·v        in the end y/l, and m + ln l

q: [B, Hq, T, E], k: [B, H, S, E], v: [B, H, S, D] by strides, so that heads that lie beside each
other are read in place; y: [B, Hq, T, D], lse: ACC[B, Hq, T]. Bytes moved, for elements of s bytes
and tiles of BM queries: s·B·Hq·(T·(E + D) + ⌈T/BM⌉·S·(E + D)), of which heads that share keys find
most in L2; 2·B·Hq·T·S·(E + D) flops, half of them if causal. Maximum, total and sums are in float32
(float64 for float64); weights of halves are rounded to them before they meet the values. Keys that
all queries of a tile see run without a look at positions (Dao 2023, FlashAttention-2).
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from gradwright.program.lowering import Launch, lowering
from gradwright.spec import TensorSpec

from ..launch import Strided, loose, prepare
from .given import is_taken, lying, settings
from .tiles import masked, piece_of, products


@triton.jit
def _attend(
    top, size, total, q, row, first, last, q_at, q_col, k_at, k_row, k_col, v_at, v_row, v_col,
    n_rows, n_cols, left, right, offset, mask_at, mask_row, mask_col,
    SCALE: tl.constexpr, WIDTH: tl.constexpr, OF_VALUE: tl.constexpr, PIECE: tl.constexpr,
    PIECE_OF_VALUE: tl.constexpr, COLS: tl.constexpr, LOW: tl.constexpr, SHUTS: tl.constexpr,
    ENDS: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, OPERAND: tl.constexpr,
    ACC: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Take keys ``first`` to ``last`` into maximum, size and total of some queries.

    ENDS: some of these keys are not there; LEFT, RIGHT: some are out of a query's window.
    """
    for start in range(first, last, COLS):
        col = start + tl.arange(0, COLS)
        there, inside = col < n_cols, row < n_rows
        keys = k_at + col.to(INDEX) * k_row
        k = piece_of(keys, k_col, there, 0, WIDTH, PIECE, OPERAND)
        s = SCALE * products(
            q, q_at, q_col, inside, k, keys, k_col, there, WIDTH, PIECE, OPERAND, ACC
        )
        s = masked(
            s, row, col, n_rows, n_cols, left, right, offset, mask_at, mask_row, mask_col,
            LOW, SHUTS, ENDS, LEFT, RIGHT, ACC, INDEX,
        )  # fmt: skip
        higher = tl.maximum(top, tl.max(s, axis=1))
        p = tl.exp(s - higher[:, None])
        shrink = tl.exp(top - higher)
        size = size * shrink + tl.sum(p, axis=1)
        values = v_at + col.to(INDEX) * v_row
        v = piece_of(values, v_col, there, tl.program_id(1), OF_VALUE, PIECE_OF_VALUE, OPERAND)
        total = total * shrink[:, None]
        total = tl.dot(p.to(OPERAND), v, total, input_precision="ieee", out_dtype=ACC)
        top = higher
    return top, size, total


@triton.jit
def _flash_attention_kernel(
    q_ptr, k_ptr, v_ptr, mask_ptr, y_ptr, lse_ptr,
    q_batch, q_head, q_row, q_col, k_batch, k_head, k_row, k_col, v_batch, v_head, v_row, v_col,
    mask_batch, mask_head, mask_row, mask_col, y_batch, y_head, y_row, y_col,
    n_rows, n_cols, n_heads, share, left, right, offset,
    SCALE: tl.constexpr, WIDTH: tl.constexpr, OF_VALUE: tl.constexpr, PIECE: tl.constexpr,
    PIECE_OF_VALUE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, LEAST: tl.constexpr,
    LOW: tl.constexpr, SHUTS: tl.constexpr, NAN: tl.constexpr, LEFT: tl.constexpr,
    RIGHT: tl.constexpr, OPERAND: tl.constexpr, ACC: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Attend ROWS queries of a head to all keys that they see, for a piece of the values' features.

    Program (t, n): tile t % tiles of head t // tiles, the last tile first, as it may see most keys;
    piece n. A query that sees no key gets 0, or NaN if NAN; LEAST is the least number of ACC.
    """
    tiles = tl.cdiv(n_rows, ROWS)
    tile, of_all = tiles - 1 - tl.program_id(0) % tiles, tl.program_id(0) // tiles
    batch, head = (of_all // n_heads).to(INDEX), (of_all % n_heads).to(INDEX)
    row = tile * ROWS + tl.arange(0, ROWS)
    q_at = q_ptr + batch * q_batch + head * q_head + row.to(INDEX) * q_row
    k_at = k_ptr + batch * k_batch + head // share * k_head
    v_at = v_ptr + batch * v_batch + head // share * v_head
    mask_at = None
    if mask_ptr is not None:
        mask_at = mask_ptr + batch * mask_batch + head * mask_head
    q = piece_of(q_at, q_col, row < n_rows, 0, WIDTH, PIECE, OPERAND)

    # Keys [low, high) are seen by some query of the tile, [near, far) by all.
    before, after = tile * ROWS + offset, tl.minimum(tile * ROWS + ROWS, n_rows) - 1 + offset
    low, near = before * 0, before * 0
    high, far = n_cols + before * 0, n_cols // COLS * COLS + before * 0
    if RIGHT:
        high = tl.maximum(tl.minimum(n_cols, after + right + 1), 0)
        far = tl.maximum(tl.minimum(far, (before + right + 1) // COLS * COLS), 0)
    if LEFT:
        low = tl.maximum(before - left, 0) // COLS * COLS
        near = tl.minimum(tl.cdiv(tl.maximum(after - left, 0), COLS) * COLS, high)
    far = tl.maximum(far, near)
    top = tl.full((ROWS,), LEAST, ACC)
    size = tl.zeros((ROWS,), ACC)
    total = tl.zeros((ROWS, PIECE_OF_VALUE), ACC)
    if LEFT:
        top, size, total = _attend(
            top, size, total, q, row, low, near, q_at, q_col, k_at, k_row, k_col, v_at, v_row,
            v_col, n_rows, n_cols, left, right, offset, mask_at, mask_row, mask_col, SCALE, WIDTH,
            OF_VALUE, PIECE, PIECE_OF_VALUE, COLS, LOW, SHUTS, True, LEFT, RIGHT, OPERAND, ACC,
            INDEX,
        )  # fmt: skip
    top, size, total = _attend(
        top, size, total, q, row, near, far, q_at, q_col, k_at, k_row, k_col, v_at, v_row,
        v_col, n_rows, n_cols, left, right, offset, mask_at, mask_row, mask_col, SCALE, WIDTH,
        OF_VALUE, PIECE, PIECE_OF_VALUE, COLS, LOW, SHUTS, False, False, False, OPERAND, ACC,
        INDEX,
    )  # fmt: skip
    top, size, total = _attend(
        top, size, total, q, row, far, high, q_at, q_col, k_at, k_row, k_col, v_at, v_row,
        v_col, n_rows, n_cols, left, right, offset, mask_at, mask_row, mask_col, SCALE, WIDTH,
        OF_VALUE, PIECE, PIECE_OF_VALUE, COLS, LOW, SHUTS, True, LEFT, RIGHT, OPERAND, ACC,
        INDEX,
    )  # fmt: skip

    size = tl.where(size == 0.0, float("nan") if NAN else float("inf"), size)
    feature = tl.program_id(1) * PIECE_OF_VALUE + tl.arange(0, PIECE_OF_VALUE)
    at = y_ptr + batch * y_batch + head * y_head + row.to(INDEX)[:, None] * y_row
    inside = (row < n_rows)[:, None] & (feature < OF_VALUE)[None, :]
    y = (total / size[:, None]).to(y_ptr.dtype.element_ty)
    tl.store(at + feature[None, :] * y_col, y, mask=inside)
    if tl.program_id(1) == 0:
        lse = lse_ptr + of_all.to(INDEX) * n_rows + row
        tl.store(lse, top + tl.log(size), mask=row < n_rows)


@lowering("flash_attention", device="cuda")
def flash_attention(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch a program for each tile of queries of a head, and piece of the values' features."""
    floats = [s for s in ins if s is not None and s.dtype != np.bool]
    return Strided(functools.partial(bound, op)) if is_taken(*floats) else None


def bound(op: Any, xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
    """Return what launches the kernel on arrays that lie so."""
    q, k, v, mask = (*xs, None)[:4]
    y, lse = ys
    if lse.size == 0:
        return lambda xs, ys: None
    args, options = settings(op, [q, k, v, y], mask)
    args |= {"LEAST": float(np.finfo(lse.dtype).min), "NAN": math.isnan(op.of_nothing(mask))}
    for name, x in {"q": q, "k": k, "v": v, "mask": mask, "y": y}.items():
        args |= lying(name, x)
    args |= {"lse_ptr": lse.dtype}
    names = _flash_attention_kernel.arg_names
    tiles = triton.cdiv(lse.shape[2], args["ROWS"]) * lse.shape[0] * lse.shape[1]
    grid = tiles, max(triton.cdiv(v.shape[3], args["PIECE_OF_VALUE"]), 1), 1
    args = {name: args[name] for name in names}
    open_at = loose({"q": q, "k": k, "v": v, "mask": mask})
    run = prepare(_flash_attention_kernel, grid, args, loose=open_at, **options)
    return lambda xs, ys: run(*(x for x in xs if x is not None), *ys)
