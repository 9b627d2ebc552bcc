"""Pooling: the largest element or the mean of each window, and what goes back to the elements.

    y[n, c, p] = max x[n, c] over window p, tap = its number in the window; or mean over window p
    dx[n, c, i] = Σ g[n, c, p] over the windows p whose tap is i's, or Σ g[n, c, p]/count p

Windows of x: [N, C, *size] give y: [N, C, *n_out]; back, each element goes through the windows that
it is in, so that no program adds to what another has. Bytes moved, for elements of s bytes and
windows that overlap in L1: s·(N·C·size + N·C·n_out), and a byte for each tap. Of equal elements the
first is the largest, of NaN the last; sums are in float32, float64 for float64.
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
from gradwright.spec import TensorSpec, kind

from ..compile.compiler import POINTERS
from ..launch import Strided, accumulator, index_type, loose, named, prepare, reach
from .sliding import geometry, met, padded, place, strides

BLOCK = 512
"""Results of a program."""


@triton.jit
def counted(
    at, size, BEFORE, AFTER, K: tl.constexpr, STRIDE: tl.constexpr, DILATION: tl.constexpr, PAD
):
    """Return how many elements windows have along an axis, from −BEFORE to size + AFTER."""
    start = at * STRIDE - PAD
    first = (tl.maximum(-BEFORE - start, 0) + DILATION - 1) // DILATION
    room = size + AFTER - 1 - start
    last = tl.where(room < 0, -1, tl.minimum(tl.maximum(room, 0) // DILATION, K - 1))
    return tl.maximum(last - first + 1, 0)


@triton.jit
def _pool_kernel(
    x_ptr, tap_ptr, y_ptr, to_ptr, n, n_channels, OUT1, OUT2, out_size, IN0, IN1, IN2,
    x_n, x_c, x_0, x_1, x_2, tap_n, tap_c, tap_0, tap_1, tap_2,
    AFTER0, AFTER1, AFTER2, BEFORE0, BEFORE1, BEFORE2, in_size, at_0, at_1, at_2,
    K0: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr, STRIDE0: tl.constexpr,
    STRIDE1: tl.constexpr, STRIDE2: tl.constexpr, DILATION0: tl.constexpr, DILATION1: tl.constexpr,
    DILATION2: tl.constexpr, PAD0, PAD1, PAD2, HOW: tl.constexpr, BLOCK: tl.constexpr,
    ACC: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Pool BLOCK windows.

    HOW: "max" leaves y_ptr: [n], its tap in tap_ptr: [n], and its place in to_ptr: i64[n], a number
    of elements that are at_0, at_1, at_2 apart, or not (absent); "tap" takes the element that
    tap_ptr says, by strides; "mean" divides by the count within BEFORE and AFTER. x_ptr: [N, C,
    in0, in1, in2] by strides.
    """
    at = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    image, window = at // out_size, at % out_size
    at0, at1, at2 = place(window, OUT1, OUT2)
    x_at = x_ptr + image // n_channels * x_n + image % n_channels * x_c
    total = tl.zeros((BLOCK,), ACC)
    chosen, seen = tl.zeros((BLOCK,), tl.int32), tl.zeros((BLOCK,), tl.int32)
    spot = tl.zeros((BLOCK,), tl.int64)
    if HOW == "tap":
        own = image // n_channels * tap_n + image % n_channels * tap_c
        own += at0 * tap_0 + at1 * tap_1 + at2 * tap_2
        chosen = tl.load(tap_ptr + own, mask=inside, other=0).to(tl.int32)
    for tap in range(0, K0 * K1 * K2):
        tap0, tap1, tap2 = place(tap, K1, K2)
        i0, in0 = met(at0, tap0, IN0, STRIDE0, DILATION0, PAD0, False)
        i1, in1 = met(at1, tap1, IN1, STRIDE1, DILATION1, PAD1, False)
        i2, in2 = met(at2, tap2, IN2, STRIDE2, DILATION2, PAD2, False)
        there = inside & in0 & in1 & in2
        if HOW == "tap":
            there = there & (chosen == tap)
        x = tl.load(x_at + (i0 * x_0 + i1 * x_1 + i2 * x_2), mask=there, other=0).to(ACC)
        if HOW == "max":
            wins = there & ((seen == 0) | (x > total) | (x != x))
            total = tl.where(wins, x, total)
            chosen = tl.where(wins, tap, chosen)
            if to_ptr is not None:
                here = i0.to(tl.int64) * at_0 + i1 * at_1 + i2 * at_2
                spot = tl.where(wins, here, spot)
            seen = tl.where(there, 1, seen)
        else:
            total += tl.where(there, x, 0)
    if HOW == "mean":
        count = counted(at0, IN0, BEFORE0, AFTER0, K0, STRIDE0, DILATION0, PAD0)
        count *= counted(at1, IN1, BEFORE1, AFTER1, K1, STRIDE1, DILATION1, PAD1)
        count *= counted(at2, IN2, BEFORE2, AFTER2, K2, STRIDE2, DILATION2, PAD2)
        total = total / count.to(ACC)
    tl.store(y_ptr + at, total.to(y_ptr.dtype.element_ty), mask=inside)
    if HOW == "max":
        tl.store(tap_ptr + at, chosen.to(tap_ptr.dtype.element_ty), mask=inside)
    if to_ptr is not None:
        tl.store(to_ptr + at, image.to(tl.int64) * in_size + spot, mask=inside)


@triton.jit
def _unpool_kernel(
    g_ptr, tap_ptr, dx_ptr, n, n_channels, IN1, IN2, in_size, IN0, OUT0, OUT1, OUT2,
    g_n, g_c, g_0, g_1, g_2, tap_n, tap_c, tap_0, tap_1, tap_2,
    AFTER0, AFTER1, AFTER2, BEFORE0, BEFORE1, BEFORE2,
    K0: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr, STRIDE0: tl.constexpr,
    STRIDE1: tl.constexpr, STRIDE2: tl.constexpr, DILATION0: tl.constexpr, DILATION1: tl.constexpr,
    DILATION2: tl.constexpr, PAD0, PAD1, PAD2, BLOCK: tl.constexpr, ACC: tl.constexpr,
    INDEX: tl.constexpr,
):  # fmt: skip
    """Add up what goes back to BLOCK elements from the windows that they are in.

    dx_ptr: [n]; g_ptr, tap_ptr: [N, C, out0, out1, out2] by strides; without taps each element gets
    its share of g.
    """
    at = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    image = at // in_size
    at0, at1, at2 = place(at % in_size, IN1, IN2)
    g_at = g_ptr + image // n_channels * g_n + image % n_channels * g_c
    total = tl.zeros((BLOCK,), ACC)
    for tap in range(0, K0 * K1 * K2):
        tap0, tap1, tap2 = place(tap, K1, K2)
        p0, in0 = met(at0, tap0, OUT0, STRIDE0, DILATION0, PAD0, True)
        p1, in1 = met(at1, tap1, OUT1, STRIDE1, DILATION1, PAD1, True)
        p2, in2 = met(at2, tap2, OUT2, STRIDE2, DILATION2, PAD2, True)
        there = inside & in0 & in1 & in2
        if tap_ptr is not None:
            own = image // n_channels * tap_n + image % n_channels * tap_c
            own += p0 * tap_0 + p1 * tap_1 + p2 * tap_2
            there = there & (tl.load(tap_ptr + own, mask=there, other=0).to(tl.int32) == tap)
        g = tl.load(g_at + (p0 * g_0 + p1 * g_1 + p2 * g_2), mask=there, other=0.0).to(ACC)
        if tap_ptr is None:
            count = counted(p0, IN0, BEFORE0, AFTER0, K0, STRIDE0, DILATION0, PAD0)
            count *= counted(p1, IN1, BEFORE1, AFTER1, K1, STRIDE1, DILATION1, PAD1)
            count *= counted(p2, IN2, BEFORE2, AFTER2, K2, STRIDE2, DILATION2, PAD2)
            g = g / tl.where(there, count, 1).to(ACC)
        total += g
    tl.store(dx_ptr + at, total.to(dx_ptr.dtype.element_ty), mask=inside)


@lowering("max_pool1d", device="cuda")
@lowering("max_pool2d", device="cuda")
@lowering("max_pool3d", device="cuda")
@lowering("max_pool_with_argmax", device="cuda")
def max_pool(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch a program for each ``BLOCK`` windows, which leaves their largest elements and taps."""
    return Strided(functools.partial(_pool, op, "max")) if _is_taken(op, ins[0]) else None


@lowering("avg_pool1d", device="cuda")
@lowering("avg_pool2d", device="cuda")
@lowering("avg_pool3d", device="cuda")
def avg_pool(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch a program for each ``BLOCK`` windows, which leaves their means."""
    return Strided(functools.partial(_pool, op, "mean")) if _is_taken(op, ins[0]) else None


@lowering("tap", device="cuda")
def tap(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch a program for each ``BLOCK`` windows, which takes an element of each."""
    return Strided(functools.partial(_pool, op, "tap")) if _is_taken(op, ins[0]) else None


@lowering("untap", device="cuda")
@lowering("avg_pool_grad", device="cuda")
def unpool(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Launch a program for each ``BLOCK`` elements of the images."""
    return Strided(functools.partial(_unpool, op)) if _is_taken(op, ins[0]) else None


def _is_taken(op: Any, x: TensorSpec) -> bool:
    return str(x.dtype) in POINTERS and is_first(op)


def _pool(op: Any, how: str, xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
    x, y = xs[0], ys[0]
    if y.size == 0:
        return lambda xs, ys: None
    taps = ys[-1] if how == "max" else xs[1] if how == "tap" else None
    places = ys[1] if len(ys) == 3 else None
    args = _settings(op, op.windows(x.ndim - 2), x.shape[2:], y.shape[2:])
    args |= strides("x", x) | (strides("tap", xs[1]) if how == "tap" else _NO_STRIDES)
    args |= {"x_ptr": x.dtype, "y_ptr": y.dtype, "tap_ptr": None if taps is None else taps.dtype}
    args |= {"to_ptr": None if places is None else places.dtype}
    args |= {"n": y.size, "n_channels": x.shape[1], "out_size": math.prod(y.shape[2:])}
    step, size = 1, padded(x.shape[2:], 1)
    for axis in range(3) if getattr(op, "column_major", False) else (2, 1, 0):
        args[f"at_{axis}"], step = step, step * size[axis]
    args["in_size"] = step
    acc = accumulator(TensorSpec((), x.dtype)) if kind(x.dtype) == "f" else named(x.dtype)
    args |= {"HOW": how, "BLOCK": BLOCK, "ACC": acc, "INDEX": index_type(max(reach(x), y.size))}
    args = {name: args[name] for name in _pool_kernel.arg_names}
    run = prepare(
        _pool_kernel, triton.cdiv(y.size, BLOCK), args, loose=loose({"x": x, "tap": taps})
    )

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        if how == "max":
            run(xs[0], ys[-1], ys[0], *ys[1:-1])
        else:
            run(*xs, ys[0])

    return launch


def _unpool(op: Any, xs: Sequence[Any], ys: Sequence[Any]) -> Launch:
    g, dx = xs[0], ys[0]
    taps = xs[1] if len(xs) == 3 else None
    if dx.size == 0:
        return lambda xs, ys: None
    args = _settings(op, op.windows(dx.ndim - 2), dx.shape[2:], g.shape[2:])
    args |= strides("g", g) | (_NO_STRIDES if taps is None else strides("tap", taps))
    args |= {"g_ptr": g.dtype, "tap_ptr": None if taps is None else taps.dtype, "dx_ptr": dx.dtype}
    args |= {"n": dx.size, "n_channels": dx.shape[1], "in_size": math.prod(dx.shape[2:])}
    acc = accumulator(TensorSpec((), g.dtype)) if kind(g.dtype) == "f" else named(g.dtype)
    args |= {"BLOCK": BLOCK, "ACC": acc, "INDEX": index_type(max(reach(g), dx.size))}
    args = {name: args[name] for name in _unpool_kernel.arg_names}
    run = prepare(
        _unpool_kernel, triton.cdiv(dx.size, BLOCK), args, loose=loose({"g": g, "tap": taps})
    )
    n = 1 if taps is None else 2
    return lambda xs, ys: run(*xs[:n], *ys)


_NO_STRIDES = {f"tap_{axis}": 0 for axis in ("n", "c", "0", "1", "2")}


def _settings(
    op: Any, windows: Windows, size: Sequence[int], n_out: Sequence[int]
) -> dict[str, Any]:
    """Return how windows slide over three axes, and from where to where elements count."""
    args: dict[str, Any] = dict(geometry(windows, size))
    args |= {f"IN{n}": v for n, v in enumerate(padded(size, 1))}
    args |= {f"OUT{n}": v for n, v in enumerate(padded(n_out, 1))}
    before, after = [0] * len(size), [0] * len(size)
    if getattr(op, "count_include_pad", False):
        pads, given = windows.pads(size), windows.padding
        before = [a for a, _ in pads]
        ends = pads if isinstance(given, str) else given  # what only rounding up adds never counts
        after = [int(b) for _, b in ends]
    args |= {f"BEFORE{n}": v for n, v in enumerate(padded(before, 0))}
    return args | {f"AFTER{n}": v for n, v in enumerate(padded(after, 0))}
