"""What goes back through a convolution to its weight: how each window went with each output.

    dw[o, c, k] = Σ_np g[n, o, p]·x[n, c, p·stride + k·dilation − pad]

A product whose depth is the positions of all images, cut into parts of which each is summed on its
own, and the sums in their order: no atomics. Bytes moved, of s an element, for M positions, O
channels and K columns of the weight: s·M·(O·⌈K/BN⌉ + K·⌈O/BM⌉), where windows overlap in L1 and L2,
and 8·parts·O·K; 2·M·O·K flops. Sums are in float32, float64 for float64.
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

from ..launch import (
    PROGRAMS,
    Strided,
    accumulator,
    fitted,
    index_type,
    loose,
    named,
    prepare,
    reach,
    workspace,
)
from .sliding import geometry, met, padded, place, strides

TILES = {2: (64, 64, 64, 4), 4: (32, 32, 32, 8), 8: (32, 32, 16, 4)}
"""Channels, columns of the weight and positions of a tile, and warps, by bytes of an element."""
DEEP = 4
"""Tiles of positions that a part has at least."""
BLOCK = 256


@triton.jit
def _weight_kernel(
    x_ptr, g_ptr, parts_ptr, n_positions, OUT1, OUT2, out_size, IN0, IN1, IN2, own, columns, each,
    n_groups, x_n, x_c, x_0, x_1, x_2, g_n, g_c, g_0, g_1, g_2,
    K0: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr, STRIDE0: tl.constexpr,
    STRIDE1: tl.constexpr, STRIDE2: tl.constexpr, DILATION0: tl.constexpr, DILATION1: tl.constexpr,
    DILATION2: tl.constexpr, PAD0, PAD1, PAD2, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, OPERAND: tl.constexpr, ACC: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Sum BM channels by BN columns of a group's weight over ``each`` positions.

    x_ptr: [N, C, in0, in1, in2], g_ptr: [N, O, out0, out1, out2], by strides; parts_ptr:
    ACC[parts, groups, own, columns], columns: C/groups·k0·k1·k2, own: O/groups. Program (m, n, z):
    tile m of channels, n of columns, z = part·groups + group.
    """
    channel = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    part, group = tl.program_id(2) // n_groups, (tl.program_id(2) % n_groups).to(INDEX)
    of, tap = column // (K0 * K1 * K2), column % (K0 * K1 * K2)
    tap0, tap1, tap2 = place(tap, K1, K2)
    x_at = x_ptr + (group * (columns // (K0 * K1 * K2)) + of) * x_c
    g_at = g_ptr + (group * own + channel) * g_c
    total = tl.zeros((BM, BN), ACC)
    start = part.to(INDEX) * each
    for first in range(start, tl.minimum(start + each, n_positions), BK):
        position = first + tl.arange(0, BK)
        image = (position // out_size).to(INDEX)
        at0, at1, at2 = place(position % out_size, OUT1, OUT2)
        i0, in0 = met(at0[:, None], tap0[None, :], IN0, STRIDE0, DILATION0, PAD0, False)
        i1, in1 = met(at1[:, None], tap1[None, :], IN1, STRIDE1, DILATION1, PAD1, False)
        i2, in2 = met(at2[:, None], tap2[None, :], IN2, STRIDE2, DILATION2, PAD2, False)
        inside = position < n_positions
        there = in0 & in1 & in2 & inside[:, None] & (column < columns)[None, :]
        at = (image * x_n)[:, None] + i0 * x_0 + i1 * x_1 + i2 * x_2
        right = tl.load(x_at[None, :] + at, mask=there, other=0.0).to(OPERAND)
        at = image * g_n + at0 * g_0 + at1 * g_1 + at2 * g_2
        there = inside[None, :] & (channel < own)[:, None]
        left = tl.load(g_at[:, None] + at[None, :], mask=there, other=0.0).to(OPERAND)
        total = tl.dot(left, right, total, input_precision="ieee", out_dtype=ACC)
    to = (tl.program_id(2).to(INDEX) * own + channel)[:, None] * columns + column[None, :]
    inside = (channel < own)[:, None] & (column < columns)[None, :]
    tl.store(parts_ptr + to, total, mask=inside)


@triton.jit
def _sum_parts_kernel(parts_ptr, dw_ptr, n, parts, BLOCK: tl.constexpr, INDEX: tl.constexpr):
    """Add up parts in their order. parts_ptr: ACC[parts, n]; dw_ptr: [n]."""
    at = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(parts_ptr + at, mask=at < n, other=0.0)
    for part in range(1, parts):
        total += tl.load(parts_ptr + (at + part * n), mask=at < n, other=0.0)
    tl.store(dw_ptr + at, total.to(dw_ptr.dtype.element_ty), mask=at < n)


@lowering("conv_weight_grad", device="cuda")
def conv_weight_grad(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch a program for each tile of the weight and part of the positions, then sum parts."""
    return Strided(functools.partial(_bind, op)) if accumulator(*ins[:2]) is not None else None


def _bind(op: Any, xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
    (x, g, _), dw = xs, ys[0]
    windows, groups = op.windows(dw), op.groups
    own, columns = dw.shape[0] // groups, math.prod(dw.shape[1:])
    out_size = math.prod(g.shape[2:])
    n, acc = len(g) * out_size, accumulator(*(TensorSpec((), z.dtype) for z in (x, g)))
    same = x.dtype == g.dtype
    *most, warps = TILES[x.itemsize if same else acc.primitive_bitwidth // 8]
    bm, bn, bk = map(fitted, most, (own, columns, n))
    tiles = triton.cdiv(own, bm), triton.cdiv(columns, bn)
    parts = min(triton.cdiv(PROGRAMS, tiles[0] * tiles[1] * groups), triton.cdiv(n, DEEP * bk))
    each = triton.cdiv(triton.cdiv(n, max(parts, 1)), bk) * bk
    parts = max(triton.cdiv(n, max(each, 1)), 1)
    space = TensorSpec((parts, *dw.shape), f"float{acc.primitive_bitwidth}")
    args: dict[str, Any] = geometry(windows, x.shape[2:]) | strides("x", x) | strides("g", g)
    args |= {"x_ptr": x.dtype, "g_ptr": g.dtype, "parts_ptr": space.dtype, "n_positions": n}
    args |= {"out_size": out_size, "own": own, "columns": columns, "each": each}
    args |= {"n_groups": groups, "ACC": acc, "OPERAND": named(x.dtype) if same else acc}
    args |= {f"OUT{i}": v for i, v in enumerate(padded(g.shape[2:], 1)) if i}
    args |= {f"IN{i}": v for i, v in enumerate(padded(x.shape[2:], 1))}
    args |= {
        "BM": bm,
        "BN": bn,
        "BK": bk,
        "INDEX": index_type(max(space.size, *map(reach, xs[:2]))),
    }
    args = {name: args[name] for name in _weight_kernel.arg_names}
    open_at = loose({"x": x, "g": g})
    multiply = prepare(_weight_kernel, (*tiles, groups * parts), args, warps, open_at)
    args = {"parts_ptr": space.dtype, "dw_ptr": dw.dtype, "n": dw.size, "parts": parts}
    args |= {"BLOCK": BLOCK, "INDEX": index_type(space.size)}
    add = prepare(_sum_parts_kernel, triton.cdiv(dw.size, BLOCK), args)
    held = workspace(space)

    def run(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        multiply(*xs[:2], held)
        add(held, *ys)

    return run
