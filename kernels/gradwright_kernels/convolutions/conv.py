"""Convolution as a product that gathers its windows, forward, back to the images, and transposed.

    y[n, o, p] = bias[o] + Σ_ck w[o, c, k]·x[n, c, p·stride + k·dilation − pad]
    dx[n, c, q] = Σ_ok w[o, c, k]·g[n, o, (q + pad − k·dilation)/stride], where that is whole

Rows of the product are positions of all images, columns channels of the result, the depth channels
and elements of the kernel in the order of the weight: no columns are in memory. Bytes moved, of s
an element, for M positions, O channels and depth K: s·(M·K·⌈O/BN⌉ + K·O·⌈M/BM⌉ + M·O), where
neighbours' windows overlap in L1 and L2; 2·M·O·K flops. Where a group has few channels either way,
as depthwise, a program multiplies each position by itself: s·(M·O + M·C) bytes. Sums are in
float32, float64 for float64, in the order of the depth.
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

from gradwright.ops.convolutions.formats import is_first
from gradwright.ops.convolutions.windows import Windows
from gradwright.program.lowering import Launch, lowering
from gradwright.spec import TensorSpec

from ..launch import Strided, accumulator, fitted, index_type, loose, named, prepare, reach
from .sliding import geometry, met, padded, place, strides

TILES = {2: (128, 64, 32, 8), 4: (64, 32, 16, 8), 8: (32, 32, 16, 4)}
"""Positions, channels and depth of a tile, and warps, by bytes of an element."""
FEW = 4
"""Channels of a group, in and out, up to which a product would be mostly empty."""
BLOCK = 512
"""Positions of a program without a product."""


@triton.jit
def _product_kernel(
    x_ptr, w_ptr, bias_ptr, y_ptr, n_positions, OUT1, OUT2, out_size, IN0, IN1, IN2, own, other,
    x_n, x_c, x_0, x_1, x_2, w_own, w_other, w_0, w_1, w_2, w_group, y_n, y_c, y_0, y_1, y_2,
    bias_c, K0: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr, STRIDE0: tl.constexpr,
    STRIDE1: tl.constexpr, STRIDE2: tl.constexpr, DILATION0: tl.constexpr, DILATION1: tl.constexpr,
    DILATION2: tl.constexpr, PAD0, PAD1, PAD2, BACK: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, OPERAND: tl.constexpr, ACC: tl.constexpr,
    INDEX: tl.constexpr,
):  # fmt: skip
    """Make BM positions of BN channels of a group.

    x_ptr: [N, groups·other, in0, in1, in2], y_ptr: [N, groups·own, out0, out1, out2], w_ptr:
    [groups, own, other, k0, k1, k2], all by strides; bias_ptr: [groups·own] by a stride, or absent.
    n_positions: N·out_size. Program (m, n, g): tile m of positions, n of channels; group g.
    """
    position = tl.program_id(0).to(INDEX) * BM + tl.arange(0, BM)
    channel = tl.program_id(1) * BN + tl.arange(0, BN)
    group = tl.program_id(2).to(INDEX)
    image = position // out_size
    at0, at1, at2 = place(position % out_size, OUT1, OUT2)
    x_at = x_ptr + image * x_n + group * other * x_c
    w_at = w_ptr + group * w_group + channel.to(INDEX) * w_own
    total = tl.zeros((BM, BN), ACC)
    depth = other * K0 * K1 * K2
    for first in range(0, depth, BK):
        k = first + tl.arange(0, BK)
        of, tap = k // (K0 * K1 * K2), k % (K0 * K1 * K2)
        tap0, tap1, tap2 = place(tap, K1, K2)
        i0, in0 = met(at0[:, None], tap0[None, :], IN0, STRIDE0, DILATION0, PAD0, BACK)
        i1, in1 = met(at1[:, None], tap1[None, :], IN1, STRIDE1, DILATION1, PAD1, BACK)
        i2, in2 = met(at2[:, None], tap2[None, :], IN2, STRIDE2, DILATION2, PAD2, BACK)
        there = in0 & in1 & in2 & (position < n_positions)[:, None] & (k < depth)[None, :]
        at = of.to(INDEX)[None, :] * x_c + i0 * x_0 + i1 * x_1 + i2 * x_2
        left = tl.load(x_at[:, None] + at, mask=there, other=0.0).to(OPERAND)
        at = of.to(INDEX) * w_other + tap0 * w_0 + tap1 * w_1 + tap2 * w_2
        inside = (k < depth)[:, None] & (channel < own)[None, :]
        right = tl.load(w_at[None, :] + at[:, None], mask=inside, other=0.0).to(OPERAND)
        total = tl.dot(left, right, total, input_precision="ieee", out_dtype=ACC)
    if bias_ptr is not None:
        at = (group * own + channel) * bias_c
        bias = tl.load(bias_ptr + at, mask=channel < own, other=0.0)
        total += bias.to(ACC)[None, :]
    to = image * y_n + group * own * y_c + at0 * y_0 + at1 * y_1 + at2 * y_2
    to = to[:, None] + channel.to(INDEX)[None, :] * y_c
    inside = (position < n_positions)[:, None] & (channel < own)[None, :]
    tl.store(y_ptr + to, total.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _by_channel_kernel(
    x_ptr, w_ptr, bias_ptr, y_ptr, n_positions, OUT1, OUT2, out_size, IN0, IN1, IN2, own, other,
    x_n, x_c, x_0, x_1, x_2, w_own, w_other, w_0, w_1, w_2, w_group, y_n, y_c, y_0, y_1, y_2,
    bias_c, K0: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr, STRIDE0: tl.constexpr,
    STRIDE1: tl.constexpr, STRIDE2: tl.constexpr, DILATION0: tl.constexpr, DILATION1: tl.constexpr,
    DILATION2: tl.constexpr, PAD0, PAD1, PAD2, BACK: tl.constexpr, BLOCK: tl.constexpr,
    ACC: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Make BLOCK positions of one channel, without a product; arguments as of the product's.

    Program (m, c): tile m of positions, channel c of all.
    """
    position = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK)
    inside = position < n_positions
    group, channel = (tl.program_id(1) // own).to(INDEX), (tl.program_id(1) % own).to(INDEX)
    image = position // out_size
    at0, at1, at2 = place(position % out_size, OUT1, OUT2)
    total = tl.zeros((BLOCK,), ACC)
    for of in range(0, other):
        x_at = x_ptr + image * x_n + (group * other + of) * x_c
        w_at = w_ptr + group * w_group + channel * w_own + of * w_other
        for tap in range(0, K0 * K1 * K2):
            tap0, tap1, tap2 = place(tap, K1, K2)
            i0, in0 = met(at0, tap0, IN0, STRIDE0, DILATION0, PAD0, BACK)
            i1, in1 = met(at1, tap1, IN1, STRIDE1, DILATION1, PAD1, BACK)
            i2, in2 = met(at2, tap2, IN2, STRIDE2, DILATION2, PAD2, BACK)
            at = i0 * x_0 + i1 * x_1 + i2 * x_2
            x = tl.load(x_at + at, mask=inside & in0 & in1 & in2, other=0.0).to(ACC)
            total += x * tl.load(w_at + tap0 * w_0 + tap1 * w_1 + tap2 * w_2).to(ACC)
    if bias_ptr is not None:
        total += tl.load(bias_ptr + (group * own + channel) * bias_c).to(ACC)
    to = image * y_n + (group * own + channel) * y_c + at0 * y_0 + at1 * y_1 + at2 * y_2
    tl.store(y_ptr + to, total.to(y_ptr.dtype.element_ty), mask=inside)


@lowering("conv1d", device="cuda")
@lowering("conv2d", device="cuda")
@lowering("conv3d", device="cuda")
def convolution(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch a program for each tile of windows and channels; channels come first."""
    return Strided(functools.partial(_forward, op)) if _is_taken(op, ins) else None


@lowering("conv_input_grad", device="cuda")
def conv_input_grad(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch a program for each tile of elements of the images and channels."""
    return Strided(functools.partial(_back, op)) if _is_taken(op, ins[:2]) else None


@lowering("conv_transpose1d", device="cuda")
@lowering("conv_transpose2d", device="cuda")
@lowering("conv_transpose3d", device="cuda")
def conv_transpose(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch what goes back through the convolution that this transposes."""
    return Strided(functools.partial(_transposed, op)) if _is_taken(op, ins) else None


def _is_taken(op: Any, ins: Sequence[Any]) -> bool:
    return accumulator(*(s for s in ins if s is not None)) is not None and is_first(op)


def _forward(op: Any, xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
    return _bound(op.windows(xs[1]), op.groups, xs, ys, back=False)


def _back(op: Any, xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
    return _bound(op.windows(xs[1]), op.groups, xs[:2], ys, back=True)


def _transposed(op: Any, xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
    pads, _ = op.pads(*(TensorSpec(x.shape) for x in xs[:2]))
    windows = Windows.of(xs[1].shape[2:], op.stride, pads, op.dilation)
    return _bound(windows, op.groups, xs, ys, back=True)


def _bound(
    windows: Windows, groups: int, xs: Sequence[Any], ys: Sequence[Any], *, back: bool
) -> Launch:
    """Return what launches a kernel on x (or g), weight and bias that lie so."""
    (x, w, bias), y = (*xs, None)[:3], ys[0]
    if y.size == 0:
        return lambda xs, ys: None
    size = y.shape[2:] if back else x.shape[2:]
    n_out, n_in = w.shape[0] // groups, w.shape[1]
    own, other = (n_in, n_out) if back else (n_out, n_in)
    steps = [s // w.itemsize for s in w.strides]
    out_size, acc = math.prod(y.shape[2:]), accumulator(*(TensorSpec((), z.dtype) for z in (x, w)))
    args: dict[str, Any] = geometry(windows, size) | strides("x", x) | strides("y", y)
    args |= {"x_ptr": x.dtype, "w_ptr": w.dtype, "y_ptr": y.dtype}
    args |= {"bias_ptr": None if bias is None else bias.dtype}
    args |= {"bias_c": 0 if bias is None else bias.strides[0] // bias.itemsize}
    args |= {"n_positions": len(y) * out_size, "out_size": out_size, "own": own, "other": other}
    args |= {f"OUT{n}": v for n, v in enumerate(padded(y.shape[2:], 1)) if n}
    args |= {f"IN{n}": v for n, v in enumerate(padded(x.shape[2:], 1))}
    args |= {"w_own": steps[int(back)], "w_other": steps[int(not back)]}
    args |= {f"w_{n}": v for n, v in enumerate(padded(steps[2:], 0))}
    args |= {"w_group": n_out * steps[0], "BACK": back, "ACC": acc}
    args |= {"INDEX": index_type(max(reach(z) for z in (x, w, y)))}
    if max(own, other) <= FEW:
        grid = triton.cdiv(len(y) * out_size, BLOCK), y.shape[1], 1
        kernel, args, warps = _by_channel_kernel, args | {"BLOCK": BLOCK}, 4
    else:
        same = x.dtype == w.dtype
        most = TILES[x.itemsize if same else acc.primitive_bitwidth // 8]
        depth = other * windows.n_taps
        bm, bn, bk = map(fitted, most, (len(y) * out_size, own, depth))
        grid = triton.cdiv(len(y) * out_size, bm), triton.cdiv(own, bn), groups
        args |= {"BM": bm, "BN": bn, "BK": bk, "OPERAND": named(x.dtype) if same else acc}
        kernel, warps = _product_kernel, most[3]
    args = {name: args[name] for name in kernel.arg_names}
    open_at = loose({"x": x, "w": w, "bias": bias})
    run, n = prepare(kernel, grid, args, warps, open_at), 2 + (bias is not None)
    return lambda xs, ys: run(*xs[:n], *ys)
