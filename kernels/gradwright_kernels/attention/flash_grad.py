"""What goes back through attention tile by tile: weights are computed again from their residual.

    P = exp(scale·q·kᵀ + mask − lse)        dS = P·(g·vᵀ − delta)
    dq = scale·dS·k        dk = scale·dSᵀ·q        dv = Pᵀ·g

g: [B, Hq, T, D], lse and delta: [B, Hq, T], all by strides; dq, dk, dv as q, k, v are. One kernel
goes from the queries of a tile through the keys that they see, one from the keys of a tile through
the queries of all heads that see them: no atomics, sums in one order. Bytes moved, for elements of
s bytes and tiles of BM queries and BN keys: s·B·Hq·(E + D)·(2·T + ⌈T/BM⌉·S + ⌈S/BN⌉·T) at most, L2
aside; B·Hq·T·S·(8·E + 6·D) flops, half of them if causal (Dao 2023, FlashAttention-2, algorithm 2).
Sums are in float32, float64 for float64.
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
from .given import AXES, Tile, is_taken, lying, settings
from .tiles import masked, piece_of, products, weights

TILES: dict[int, list[Tile]] = {
    2: [
        (64, False, 64, 64, 64, 8, 2),
        (64, True, 64, 64, 32, 8, 2),
        (128, True, 128, 64, 32, 8, 1),
        (math.inf, True, 64, 32, 32, 8, 1),
    ],
    4: [(128, False, 64, 32, 32, 8, 2), (math.inf, True, 32, 16, 16, 8, 1)],
    8: [(math.inf, True, 32, 16, 16, 8, 1)],
}
"""As those of forward; a tile of keys has two sums, and scores and their slopes."""


@triton.jit
def slopes(
    q, k, q_at, q_col, k_at, k_col, g_at, g_col, v_at, v_col, row, col, n_rows, n_cols, left, right,
    offset, mask_at, mask_row, mask_col, lse_at, lse_row, delta_at, delta_row,
    SCALE: tl.constexpr, WIDTH: tl.constexpr, OF_VALUE: tl.constexpr, PIECE: tl.constexpr,
    PIECE_OF_VALUE: tl.constexpr, LOW: tl.constexpr, BLIND: tl.constexpr, SHUTS: tl.constexpr,
    LEFT: tl.constexpr, RIGHT: tl.constexpr, OPERAND: tl.constexpr, ACC: tl.constexpr,
    INDEX: tl.constexpr,
):  # fmt: skip
    """Return the weights of a tile, and the slopes of its scores; q and k are first pieces."""
    inside, there = row < n_rows, col < n_cols
    s = SCALE * products(q, q_at, q_col, inside, k, k_at, k_col, there, WIDTH, PIECE, OPERAND, ACC)
    s = masked(
        s, row, col, n_rows, n_cols, left, right, offset, mask_at, mask_row, mask_col,
        LOW, SHUTS, True, LEFT, RIGHT, ACC, INDEX,
    )  # fmt: skip
    at = row.to(INDEX)
    lse = tl.load(lse_at + at * lse_row, mask=inside, other=float("inf")).to(ACC)
    delta = tl.load(delta_at + at * delta_row, mask=inside, other=0.0).to(ACC)
    p = weights(s, lse, n_cols, BLIND, ACC)
    g = piece_of(g_at, g_col, inside, 0, OF_VALUE, PIECE_OF_VALUE, OPERAND)
    v = piece_of(v_at, v_col, there, 0, OF_VALUE, PIECE_OF_VALUE, OPERAND)
    ds = products(
        g, g_at, g_col, inside, v, v_at, v_col, there, OF_VALUE, PIECE_OF_VALUE, OPERAND, ACC
    )
    ds = p * (ds - delta[:, None])
    if SHUTS:
        ds = tl.where(s <= LOW, 0.0, ds)
    return p, ds


@triton.jit
def _of_queries_kernel(
    g_ptr, q_ptr, k_ptr, v_ptr, lse_ptr, delta_ptr, mask_ptr, dq_ptr,
    g_batch, g_head, g_row, g_col, q_batch, q_head, q_row, q_col, k_batch, k_head, k_row, k_col,
    v_batch, v_head, v_row, v_col, lse_batch, lse_head, lse_row, delta_batch, delta_head, delta_row,
    mask_batch, mask_head, mask_row, mask_col, n_rows, n_cols, n_heads, share, left, right, offset,
    SCALE: tl.constexpr, WIDTH: tl.constexpr, OF_VALUE: tl.constexpr, PIECE: tl.constexpr,
    PIECE_OF_VALUE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, LOW: tl.constexpr,
    BLIND: tl.constexpr, SHUTS: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    OPERAND: tl.constexpr, ACC: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Gradient of a piece of the features of ROWS queries of a head; dq: [B, Hq, T, E], dense.

    Program (t, n): tile t % tiles of head t // tiles, the last tile first; piece n.
    """
    tiles = tl.cdiv(n_rows, ROWS)
    tile, of_all = tiles - 1 - tl.program_id(0) % tiles, tl.program_id(0) // tiles
    batch, head = (of_all // n_heads).to(INDEX), (of_all % n_heads).to(INDEX)
    row = tile * ROWS + tl.arange(0, ROWS)
    q_at = q_ptr + batch * q_batch + head * q_head + row.to(INDEX) * q_row
    g_at = g_ptr + batch * g_batch + head * g_head + row.to(INDEX) * g_row
    k_at = k_ptr + batch * k_batch + head // share * k_head
    v_at = v_ptr + batch * v_batch + head // share * v_head
    lse_at = lse_ptr + batch * lse_batch + head * lse_head
    delta_at = delta_ptr + batch * delta_batch + head * delta_head
    mask_at = None
    if mask_ptr is not None:
        mask_at = mask_ptr + batch * mask_batch + head * mask_head
    q = piece_of(q_at, q_col, row < n_rows, 0, WIDTH, PIECE, OPERAND)

    before, after = tile * ROWS + offset, tl.minimum(tile * ROWS + ROWS, n_rows) - 1 + offset
    low, high = before * 0, n_cols + before * 0
    if RIGHT:
        high = tl.minimum(n_cols, after + right + 1)
    if LEFT:
        low = tl.maximum(before - left, 0) // COLS * COLS
    total = tl.zeros((ROWS, PIECE), ACC)
    for start in range(low, high, COLS):
        col = start + tl.arange(0, COLS)
        keys, values = k_at + col.to(INDEX) * k_row, v_at + col.to(INDEX) * v_row
        k = piece_of(keys, k_col, col < n_cols, 0, WIDTH, PIECE, OPERAND)
        _, ds = slopes(
            q, k, q_at, q_col, keys, k_col, g_at, g_col, values, v_col, row, col, n_rows, n_cols,
            left, right, offset, mask_at, mask_row, mask_col, lse_at, lse_row, delta_at, delta_row,
            SCALE, WIDTH, OF_VALUE, PIECE, PIECE_OF_VALUE, LOW, BLIND, SHUTS, LEFT, RIGHT, OPERAND,
            ACC, INDEX,
        )  # fmt: skip
        if WIDTH > PIECE:
            k = piece_of(keys, k_col, col < n_cols, tl.program_id(1), WIDTH, PIECE, OPERAND)
        total = tl.dot(ds.to(OPERAND), k, total, input_precision="ieee", out_dtype=ACC)
    feature = tl.program_id(1) * PIECE + tl.arange(0, PIECE)
    at = dq_ptr + (of_all.to(INDEX) * n_rows + row)[:, None] * WIDTH + feature[None, :]
    inside = (row < n_rows)[:, None] & (feature < WIDTH)[None, :]
    tl.store(at, (total * SCALE).to(dq_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _of_keys_kernel(
    g_ptr, q_ptr, k_ptr, v_ptr, lse_ptr, delta_ptr, mask_ptr, dk_ptr, dv_ptr,
    g_batch, g_head, g_row, g_col, q_batch, q_head, q_row, q_col, k_batch, k_head, k_row, k_col,
    v_batch, v_head, v_row, v_col, lse_batch, lse_head, lse_row, delta_batch, delta_head, delta_row,
    mask_batch, mask_head, mask_row, mask_col, n_rows, n_cols, n_heads, share, left, right, offset,
    SCALE: tl.constexpr, WIDTH: tl.constexpr, OF_VALUE: tl.constexpr, PIECE: tl.constexpr,
    PIECE_OF_VALUE: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, LOW: tl.constexpr,
    BLIND: tl.constexpr, SHUTS: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    OPERAND: tl.constexpr, ACC: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Gradients of pieces of COLS keys and values, over all heads of queries that share them.

    dk: [B, H, S, E], dv: [B, H, S, D], dense. Program (t, n): tile t % tiles of head t // tiles;
    piece n of either.
    """
    tiles, piece = tl.cdiv(n_cols, COLS), tl.program_id(1)
    tile, of_all = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    own = n_heads // share
    batch, shared = (of_all // own).to(INDEX), (of_all % own).to(INDEX)
    col = tile * COLS + tl.arange(0, COLS)
    there = col < n_cols
    k_at = k_ptr + batch * k_batch + shared * k_head + col.to(INDEX) * k_row
    v_at = v_ptr + batch * v_batch + shared * v_head + col.to(INDEX) * v_row
    k = piece_of(k_at, k_col, there, 0, WIDTH, PIECE, OPERAND)

    # Queries [low, high) see a key of the tile.
    low, high = tile * 0, n_rows + tile * 0
    if RIGHT:
        low = tl.maximum(tile * COLS - right - offset, 0) // ROWS * ROWS
    if LEFT:
        high = tl.minimum(n_rows, tile * COLS + COLS + left - offset)
    dk = tl.zeros((COLS, PIECE), ACC)
    dv = tl.zeros((COLS, PIECE_OF_VALUE), ACC)
    for n in range(0, share):
        head = shared * share + n
        lse_at = lse_ptr + batch * lse_batch + head * lse_head
        delta_at = delta_ptr + batch * delta_batch + head * delta_head
        mask_at = None
        if mask_ptr is not None:
            mask_at = mask_ptr + batch * mask_batch + head * mask_head
        for start in range(low, high, ROWS):
            row = start + tl.arange(0, ROWS)
            inside = row < n_rows
            q_at = q_ptr + batch * q_batch + head * q_head + row.to(INDEX) * q_row
            g_at = g_ptr + batch * g_batch + head * g_head + row.to(INDEX) * g_row
            q = piece_of(q_at, q_col, inside, 0, WIDTH, PIECE, OPERAND)
            p, ds = slopes(
                q, k, q_at, q_col, k_at, k_col, g_at, g_col, v_at, v_col, row, col, n_rows, n_cols,
                left, right, offset, mask_at, mask_row, mask_col, lse_at, lse_row, delta_at,
                delta_row, SCALE, WIDTH, OF_VALUE, PIECE, PIECE_OF_VALUE, LOW, BLIND, SHUTS, LEFT,
                RIGHT, OPERAND, ACC, INDEX,
            )  # fmt: skip
            if WIDTH > PIECE:
                q = piece_of(q_at, q_col, inside, piece, WIDTH, PIECE, OPERAND)
            g = piece_of(g_at, g_col, inside, piece, OF_VALUE, PIECE_OF_VALUE, OPERAND)
            dv = tl.dot(tl.trans(p.to(OPERAND)), g, dv, input_precision="ieee", out_dtype=ACC)
            dk = tl.dot(tl.trans(ds.to(OPERAND)), q, dk, input_precision="ieee", out_dtype=ACC)
    at = (of_all.to(INDEX) * n_cols + col)[:, None]
    feature = piece * PIECE + tl.arange(0, PIECE)
    of_value = piece * PIECE_OF_VALUE + tl.arange(0, PIECE_OF_VALUE)
    dk = (dk * SCALE).to(dk_ptr.dtype.element_ty)
    inside = there[:, None] & (feature < WIDTH)[None, :]
    tl.store(dk_ptr + at * WIDTH + feature[None, :], dk, mask=inside)
    inside = there[:, None] & (of_value < OF_VALUE)[None, :]
    dv = dv.to(dv_ptr.dtype.element_ty)
    tl.store(dv_ptr + at * OF_VALUE + of_value[None, :], dv, mask=inside)


@lowering("flash_attention_grad", device="cuda")
def flash_attention_grad(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch programs for tiles of queries, then for tiles of keys."""
    floats = [s for s in ins if s is not None and s.dtype != np.bool]
    return Strided(functools.partial(back, op)) if is_taken(*floats) else None


def given(
    op: Any, xs: Sequence[Any], tiles: Any
) -> tuple[dict[str, Any], dict[str, int], frozenset[str]]:
    """Return the arguments that both kernels have in common, options, and loose pointers."""
    g, q, k, v, lse, delta, mask = (*xs, None)[:7]
    args, options = settings(op, [q, k, v, g, lse, delta], mask, tiles)
    named = {"g": g, "q": q, "k": k, "v": v, "mask": mask, "lse": lse, "delta": delta}
    for name, x in named.items():
        args |= lying(name, x, AXES[:3] if name in ("lse", "delta") else AXES)
    return args, options, loose(named)


def back(op: Any, xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
    """Return what launches both kernels on arrays that lie so."""
    args, options, open_at = given(op, xs, TILES)
    dq, dk, dv = ys
    pieces = max(triton.cdiv(args["WIDTH"], args["PIECE"]), 1)
    of_value = max(triton.cdiv(args["OF_VALUE"], args["PIECE_OF_VALUE"]), 1)
    runs = []
    made = [
        (_of_queries_kernel, {"dq": dq}, dq.shape, args["ROWS"], pieces),
        (_of_keys_kernel, {"dk": dk, "dv": dv}, dk.shape, args["COLS"], max(pieces, of_value)),
    ]
    at = 0
    for kernel, outs, shape, size, n in made:
        tiles = triton.cdiv(shape[2], size) * shape[0] * shape[1]
        own = args | {f"{name}_ptr": y.dtype for name, y in outs.items()}
        own = {name: own[name] for name in kernel.arg_names}
        if tiles:
            run = prepare(kernel, (tiles, n, 1), own, loose=open_at, **options)
            runs.append((run, slice(at, at + len(outs))))
        at += len(outs)

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        there = [x for x in xs if x is not None]
        for run, outs in runs:
            run(*there, *ys[outs])

    return launch
