"""Attention of halves, kept whole: float32 comes as tiles already, halves would hold their scores.

    y = softmax(scale·q·kᵀ + mask)·v        delta = Σ g·y

The gradient computes y and its residual again, which is two products of seven, and then goes back
tile by tile. Bytes moved beside those of the kernels that it launches: 2·s·B·Hq·T·D for delta.
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from gradwright.fuse.dense import stand_in
from gradwright.ops.attention.flash import FlashAttention
from gradwright.program.lowering import Launch, lowering
from gradwright.spec import TensorSpec, is_half, kind

from ..launch import Strided, fitted, index_type, loose, prepare, pullback, reach, workspace
from .flash import bound
from .flash_grad import back
from .given import lying
from .mask_grad import of_mask

ROWS = 32
"""Queries of a program that multiplies results and what comes for them."""


@triton.jit
def _delta_kernel(
    g_ptr, y_ptr, delta_ptr, g_batch, g_head, g_row, g_col, n, n_rows, n_heads, width,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Multiply ROWS rows. g_ptr: [B, Hq, T, width] by strides; y_ptr: dense; delta_ptr: f32[n]."""
    row = tl.program_id(0).to(INDEX) * ROWS + tl.arange(0, ROWS)
    feature = tl.arange(0, WIDTH)
    of_all, inside = row // n_rows, (row < n)[:, None] & (feature < width)[None, :]
    at = of_all // n_heads * g_batch + of_all % n_heads * g_head + row % n_rows * g_row
    at = at[:, None] + feature[None, :] * g_col
    g = tl.load(g_ptr + at, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + row[:, None] * width + feature[None, :], mask=inside, other=0.0)
    tl.store(delta_ptr + row, tl.sum(g * y.to(tl.float32), axis=1), mask=row < n)


def _tiled(op: Any, ins: Sequence[Any]) -> FlashAttention | None:
    """Return what makes scores of halves tile by tile; None: heads are not apart, or few scores."""
    given = [s for s in ins if s is not None]
    if not is_half(given[0].dtype) or len({s.dtype for s in given[:3]}) > 1:
        return None
    wide = [s if kind(s.dtype) == "b" else s.with_dtype("float32") for s in given]
    found = op.tiles(*wide)
    if found is None or any(
        s.shape != shape for s, shape in zip(given[:3], found[1], strict=False)
    ):
        return None
    made: FlashAttention = found[0]
    return made


@lowering("scaled_dot_product_attention", device="cuda")
def attention(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch attention tile by tile; others run as the expansion."""
    tiled = _tiled(op, ins)
    return None if tiled is None else Strided(functools.partial(_bind, tiled))


def _bind(tiled: FlashAttention, xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
    lse = TensorSpec(xs[0].shape[:3], "float32")
    run, held = bound(tiled, xs, [*ys, stand_in(lse)]), workspace(lse)
    return lambda xs, ys: run(xs, [*ys, held])


@pullback("scaled_dot_product_attention")
def attention_pullback(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch attention again, then what goes back."""
    tiled = _tiled(op.op, ins[: op.n_inputs])
    if tiled is None or not all(op.present):
        return None
    return Strided(functools.partial(_bind_back, op, tiled))


def _bind_back(op: Any, tiled: FlashAttention, xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
    n, g = op.n_inputs, xs[-1]
    inputs = list(xs[:n])
    rows = TensorSpec(g.shape[:3], "float32")
    y = TensorSpec(g.shape, g.dtype)
    held = workspace(y), workspace(rows), workspace(rows)
    forward = bound(tiled, inputs, [stand_in(y), stand_in(rows)])
    given = [g, *inputs[:3], stand_in(rows), stand_in(rows), *inputs[3:]]
    wanted = dict(zip(op.wrt, range(len(ys)), strict=True))
    made = [
        None if i in wanted else workspace(TensorSpec(xs[i].shape, xs[i].dtype)) for i in range(3)
    ]
    backward = back(tiled, given, [stand_in(TensorSpec(x.shape, x.dtype)) for x in inputs[:3]])
    to_mask = of_mask(tiled, given, [ys[wanted[3]]]) if 3 in wanted else None
    width = g.shape[3]
    args = {"y_ptr": y.dtype, "delta_ptr": np.dtype("float32"), "n": rows.size, "width": width}
    args |= {"n_rows": g.shape[2], "n_heads": g.shape[1], "ROWS": ROWS}
    args |= {"WIDTH": fitted(1 << 20, width), "INDEX": index_type(max(reach(g), y.size))}
    args |= lying("g", g)
    multiply = prepare(_delta_kernel, triton.cdiv(rows.size, ROWS), args, loose=loose({"g": g}))

    def run(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        inputs, g = list(xs[:n]), xs[-1]
        result, lse, delta = held
        forward(inputs, [result, lse])
        multiply(g, result, delta)
        given = [g, *inputs[:3], lse, delta, *inputs[3:]]
        backward(given, [ys[wanted[i]] if m is None else m for i, m in enumerate(made)])
        if to_mask is not None:
            to_mask(given, [ys[wanted[3]]])

    return run
