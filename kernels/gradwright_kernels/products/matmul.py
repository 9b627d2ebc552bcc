"""The product of matrices, with axes before the last two broadcast, and vectors as in numpy.

    y[…, i, j] = Σₖ a[…, i, k]·b[…, k, j] (+ bias[j]) (+ added[…, i, j])

Bytes moved by [M, K] · [K, N] of s bytes each, in tiles of BM x BN: s·(M·K·⌈N/BN⌉ + K·N·⌈M/BM⌉ +
M·N), as programs that share rows or columns find most of them in L2: 2·M·N·K flops. Inputs are
taken by strides, so that transposes cost nothing. Sums are in float32, in float64 for float64, in
the order of k whatever the number of programs; float32 is multiplied in full (``ieee``), not in
TF32. What is added is read once where the product is stored, which saves a pass of 2·s·M·N bytes.
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from gradwright.program.lowering import Launch, lowering
from gradwright.spec import TensorSpec

from ..fused.terms import Work, lowered
from ..launch import Strided, accumulator, fitted, index_type, loose, named, prepare, reach
from .integers import integer_matmul

# Rows, columns and depth of a tile, and warps, by bytes of an element: what the compiler reports
# to need no spills on sm_80 and sm_90. A small matrix has smaller tiles.
TILES = {2: (128, 128, 64, 8), 4: (64, 64, 32, 8), 8: (32, 32, 16, 4)}
GROUP = 8
"""Rows of tiles that programs go through together, so that their columns of b stay in L2."""
MOST_BATCHES = 2
"""Axes of batches that the kernel tells apart; neighbours that are walked at one pace are one."""


@triton.jit
def _matmul_kernel(
    a_ptr,
    b_ptr,
    bias_ptr,
    added_ptr,
    y_ptr,
    M,
    N,
    K,
    a_row,
    a_col,
    b_row,
    b_col,
    bias_col,
    y_row,
    y_col,
    inner,
    a_outer,
    a_inner,
    b_outer,
    b_inner,
    y_outer,
    y_inner,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    OPERAND: tl.constexpr,
    ACC: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Multiply a tile of BM rows and BN columns; tails of tiles are masked.

    a_ptr: [outer, inner, M, K], b_ptr: [outer, inner, K, N], y_ptr: [outer, inner, M, N], by
    strides in elements; bias_ptr: [N] or absent; added_ptr: as y_ptr, which it may be, or absent.
    Program p: tile p % tiles of batch p // tiles, which counts outer·inner.
    """
    down, across = tl.cdiv(M, BM), tl.cdiv(N, BN)
    tile, batch = tl.program_id(0) % (down * across), tl.program_id(0) // (down * across)
    batch = batch.to(INDEX)
    group = tile // (GROUP * across)
    rows = min(down - group * GROUP, GROUP)
    row = (group * GROUP + tile % rows) * BM + tl.arange(0, BM)
    col = (tile % (GROUP * across)) // rows * BN + tl.arange(0, BN)
    i, j = row.to(INDEX)[:, None], col.to(INDEX)[None, :]
    k = tl.arange(0, BK)
    a = a_ptr + (batch // inner) * a_outer + (batch % inner) * a_inner + i * a_row
    b = b_ptr + (batch // inner) * b_outer + (batch % inner) * b_inner + j * b_col
    to = (batch // inner) * y_outer + (batch % inner) * y_inner + i * y_row + j * y_col

    total = tl.zeros((BM, BN), ACC)
    for first in range(0, K, BK):
        at = (first + k).to(INDEX)
        left = tl.load(
            a + at[None, :] * a_col, mask=(row < M)[:, None] & (at < K)[None, :], other=0.0
        )
        right = tl.load(
            b + at[:, None] * b_row, mask=(at < K)[:, None] & (col < N)[None, :], other=0.0
        )
        left, right = left.to(OPERAND), right.to(OPERAND)
        total = tl.dot(left, right, total, input_precision="ieee", out_dtype=ACC)
    inside = (row < M)[:, None] & (col < N)[None, :]
    if bias_ptr is not None:
        bias = tl.load(bias_ptr + col.to(INDEX) * bias_col, mask=col < N, other=0.0)
        total += bias.to(ACC)[None, :]
    if added_ptr is not None:
        total += tl.load(added_ptr + to, mask=inside, other=0.0).to(ACC)
    tl.store(y_ptr + to, total.to(y_ptr.dtype.element_ty), mask=inside)


@lowering("matmul", device="cuda")
def matmul(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch a program for each tile and batch, for integers one for each element."""
    if accumulator(*ins, *outs) is None:
        made: Strided | None = lowered(integer_matmul)(op, ins, outs)
        return made
    return Strided(_bind)


@lowering("linear", device="cuda")
def linear(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch the product, which adds the bias where it is stored."""
    is_taken = accumulator(*(s for s in (*ins, *outs) if s is not None)) is not None
    return Strided(_bind) if is_taken else None


def _bind(xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
    """Return what launches the kernel on arrays that lie so, or on copies whose batches are one."""
    a, b, *rest = (x for x in xs if x is not None)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if len(_batches(lead, (a, b))[0]) <= MOST_BATCHES:
        run = product(a, b, *ys, *rest)
        return lambda xs, ys: run(*(x for x in xs if x is not None), *ys)
    work = Work("product", xs, ys)
    a, b = (
        work.dense(np.broadcast_to(z, (*lead, *z.shape[-2:]))) if z.ndim > 2 else z for z in (a, b)
    )
    run = product(a, b, *ys, *rest)
    work.call(lambda xs, ys: run(*xs, *ys), [a, b, *rest], ys)
    return work.done()


def product(a: Any, b: Any, y: Any, bias: Any = None, added: Any = None) -> Callable[..., None]:
    """Return what multiplies arrays that lie so: a function of a, b, what is added, and y.

    Numbers of two dtypes are multiplied in that of the sums. Axes of batches are walked in
    ``MOST_BATCHES`` ways at most.
    """
    open_at = loose({"a": a, "b": b, "bias": bias, "added": added, "y": y})
    if a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous and y.flags.c_contiguous:
        a, y = a.reshape(-1, a.shape[-1]), y.reshape(-1, y.shape[-1])  # batches are rows
    if a.ndim == 1:
        a, y = a[None, :], y[..., None, :] if b.ndim > 1 else y[None]
    if b.ndim == 1:
        b, y = b[:, None], y[..., None]
    sizes, steps = _batches(y.shape[:-2], (a, b, y))
    gap = MOST_BATCHES - len(sizes)
    sizes, steps = [1] * gap + sizes, [[0] * 3] * gap + steps
    (m, k), n = a.shape[-2:], b.shape[-1]
    if 0 in y.shape:
        return lambda *arrays: None
    acc = accumulator(*(TensorSpec((), z.dtype) for z in (a, b)))
    same = a.dtype == b.dtype
    bm, bn, bk, warps = TILES[a.itemsize if same else acc.primitive_bitwidth // 8]
    bm, bn, bk = (fitted(most, size) for most, size in ((bm, m), (bn, n), (bk, k)))
    index = index_type(max(reach(z) for z in (a, b, y)))
    args: dict[str, Any] = {
        f"{name}_ptr": z.dtype for name, z in zip("aby", (a, b, y), strict=True)
    }
    for name, z, (outer, inner) in zip("aby", (a, b, y), zip(*steps, strict=True), strict=True):
        row, col = (s // z.itemsize for s in z.strides[-2:])
        args |= {f"{name}_row": row, f"{name}_col": col}
        args |= {f"{name}_outer": outer // z.itemsize, f"{name}_inner": inner // z.itemsize}
    args |= {"bias_ptr": None if bias is None else bias.dtype}
    args |= {"bias_col": 0 if bias is None else bias.strides[0] // bias.itemsize}
    args |= {"added_ptr": None if added is None else added.dtype}
    args |= {"M": m, "N": n, "K": k, "inner": sizes[1], "GROUP": GROUP, "ACC": acc}
    args |= {"BM": bm, "BN": bn, "BK": bk, "INDEX": index}
    args |= {"OPERAND": named(a.dtype) if same else acc}
    programs = triton.cdiv(m, bm) * triton.cdiv(n, bn) * math.prod(sizes)
    return prepare(_matmul_kernel, programs, args, warps, open_at)


def _paces(z: Any, lead: tuple[int, ...]) -> list[int]:
    """Return the strides along the axes of batches, 0 where one is broadcast."""
    held = [0 if n == 1 else s for n, s in zip(z.shape[:-2], z.strides[:-2], strict=True)]
    return [0] * (len(lead) - len(held)) + held


def _batches(lead: tuple[int, ...], arrays: Sequence[Any]) -> tuple[list[int], list[list[int]]]:
    """Return axes of batches, as few as arrays that lie so have, and the strides along each."""
    sizes: list[int] = []
    steps: list[list[int]] = []
    for n, *step in zip(lead, *(_paces(z, lead) for z in arrays), strict=True):
        if n == 1:
            continue
        if sizes and all(before == n * s for before, s in zip(steps[-1], step, strict=True)):
            sizes[-1], steps[-1] = sizes[-1] * n, step
        else:
            sizes.append(n)
            steps.append(step)
    return sizes, steps
