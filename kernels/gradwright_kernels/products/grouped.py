"""Products of groups of rows, each with a matrix of its own; sizes are known when it runs.

    y_m = x_m·w_e                  for the rows m of group e, which follow those of group e − 1
    dw_e = Σ_m x_mᵀ·g_m            over them

There are at most ⌈M/BM⌉ + E tiles of rows; each program counts through the sizes to find which is
its own, and one that is left over does nothing. Bytes moved for M rows, [M, D] and [E, D, F] of s
bytes: s·(M·D·⌈F/BN⌉ + D·F·(⌈M/BM⌉ + E) + M·F); 2·M·D·F flops. Gale et al. 2022, "MegaBlocks".
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from gradwright.fuse.builder import INT64

from ..fused.elements import triton_type
from ..fused.terms import Array, Work, written
from ..launch import fitted, index_type, loose, prepare, reach

TILES = {2: (64, 64, 32, 4), 4: (64, 32, 32, 4), 8: (32, 32, 16, 4)}
"""Rows, columns and depth of a tile, and warps, by bytes of an element."""


@triton.jit
def _rows_kernel(
    x_ptr,
    w_ptr,
    sizes_ptr,
    y_ptr,
    depth,
    width,
    n_groups,
    w_group,
    w_row,
    w_col,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    ACC: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Multiply a tile of rows of one group.

    x_ptr: [M, depth]; w_ptr: [n_groups, depth, width] by strides; y_ptr: [M, width]; program
    (t, c): tile t of all groups', block c of columns.
    """
    tile = tl.program_id(0).to(tl.int64)
    group, first, end, row, before = tile * 0 - 1, tile * 0, tile * 0, tile * 0, tile * 0
    for e in range(0, n_groups):
        size = tl.load(sizes_ptr + e)
        tiles = (size + BM - 1) // BM
        mine = (tile >= before) & (tile < before + tiles)
        group = tl.where(mine, e, group)
        first = tl.where(mine, row + (tile - before) * BM, first)
        row += size
        end = tl.where(mine, row, end)
        before += tiles
    if group >= 0:
        m = (first + tl.arange(0, BM)).to(INDEX)[:, None]
        n = (tl.program_id(1) * BN + tl.arange(0, BN)).to(INDEX)[None, :]
        total = tl.zeros((BM, BN), ACC)
        for start in range(0, depth, BK):
            k = (start + tl.arange(0, BK)).to(INDEX)
            inside = (m < end) & (k < depth)[None, :]
            x = tl.load(x_ptr + m * depth + k[None, :], mask=inside, other=0.0)
            there = (k < depth)[:, None] & (n < width)
            at = w_ptr + group * w_group + k[:, None] * w_row + n * w_col
            w = tl.load(at, mask=there, other=0.0)
            total = tl.dot(x, w, total, input_precision="ieee", out_dtype=ACC)
        y = total.to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + m * width + n, y, mask=(m < end) & (n < width))


@triton.jit
def _matrices_kernel(
    x_ptr,
    g_ptr,
    sizes_ptr,
    y_ptr,
    depth,
    width,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    ACC: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Add up a tile of the matrix of one group; a group without rows has zeros.

    x_ptr: [M, depth], g_ptr: [M, width], y_ptr: [groups, depth, width]; program (d, c, e): rows d
    and columns c of the matrix of group e.
    """
    group = tl.program_id(2)
    first = tl.program_id(0).to(tl.int64) * 0
    for e in range(0, group):
        first += tl.load(sizes_ptr + e)
    end = first + tl.load(sizes_ptr + group)
    m = (tl.program_id(0) * BM + tl.arange(0, BM)).to(INDEX)[:, None]
    n = (tl.program_id(1) * BN + tl.arange(0, BN)).to(INDEX)[None, :]
    total = tl.zeros((BM, BN), ACC)
    for start in range(first, end, BK):
        row = (start + tl.arange(0, BK)).to(INDEX)
        seen = (m < depth) & (row < end)[None, :]
        x = tl.load(x_ptr + row[None, :] * depth + m, mask=seen, other=0.0)
        there = (row < end)[:, None] & (n < width)
        g = tl.load(g_ptr + row[:, None] * width + n, mask=there, other=0.0)
        total = tl.dot(x, g, total, input_precision="ieee", out_dtype=ACC)
    at = y_ptr + (group.to(INDEX) * depth + m) * width + n
    tl.store(at, total.to(y_ptr.dtype.element_ty), mask=(m < depth) & (n < width))


def counted(work: Work, sizes: Array, n_rows: int) -> Array:
    """Return sizes as int64; the alarm tells where they are not those of all rows."""
    made, bad = work.room(sizes.shape, INT64), work.alarm()
    with work.over(sizes.shape, 1) as k:
        size = k.read(sizes).to(INT64)
        wrong = k.call("ne", size.reduce("sum"), n_rows) | k.call("lt", size.reduce("min"), 0)
        all_of_first = k.call("where", k.call("eq", k.column(), 0), n_rows, k.integer(0))
        k.write(made, k.call("where", wrong, all_of_first, size))
        k.write(bad.reshape(1), wrong)
    return made


@written("grouped_matmul")
def grouped_matmul(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Launch a program for each tile of rows that there may be."""
    y = ys[0]
    x, w = (work.cast(a, y.dtype) for a in xs[:2])
    sizes = counted(work, xs[2], len(x))
    if not y.size:
        return
    x = work.dense(x)
    n_groups, depth, width = w.shape
    bm, bn, bk, warps = TILES[y.itemsize]
    bm, bn, bk = fitted(bm, len(x)), fitted(bn, width), fitted(bk, depth)
    group, row, col = (s // w.itemsize for s in w.strides)
    args: dict[str, Any] = {"x_ptr": x.dtype, "w_ptr": w.dtype, "sizes_ptr": sizes.dtype}
    args |= {"y_ptr": y.dtype, "depth": depth, "width": width, "n_groups": n_groups}
    args |= {"w_group": group, "w_row": row, "w_col": col}
    args |= {"BM": bm, "BN": bn, "BK": bk, "ACC": triton_type(work.wide(y.dtype))}
    args |= {"INDEX": index_type(max(x.size, reach(w), y.size))}
    grid = triton.cdiv(len(x), bm) + n_groups, triton.cdiv(width, bn), 1
    run = prepare(_rows_kernel, grid, args, warps, loose({"w": w}))
    work.call(lambda xs, ys: run(*xs, *ys), [x, w, sizes], [y])


@written("grouped_matmul_grad")
def grouped_matmul_grad(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Launch a program for each tile of each group's matrix."""
    y = ys[0]
    x, g = (work.cast(a, y.dtype) for a in xs[:2])
    sizes = counted(work, xs[2], len(x))
    if not y.size:
        return
    x, g = work.dense(x), work.dense(g)
    n_groups, depth, width = y.shape
    bm, bn, bk, warps = TILES[y.itemsize]
    bm, bn, bk = fitted(bm, depth), fitted(bn, width), fitted(bk, len(x))
    args: dict[str, Any] = {"x_ptr": x.dtype, "g_ptr": g.dtype, "sizes_ptr": sizes.dtype}
    args |= {"y_ptr": y.dtype, "depth": depth, "width": width, "BM": bm, "BN": bn, "BK": bk}
    args |= {"ACC": triton_type(work.wide(y.dtype))}
    args |= {"INDEX": index_type(max(x.size, g.size, y.size))}
    grid = triton.cdiv(depth, bm), triton.cdiv(width, bn), n_groups
    run = prepare(_matrices_kernel, grid, args, warps)
    work.call(lambda xs, ys: run(*xs, *ys), [x, g, sizes], [y])
