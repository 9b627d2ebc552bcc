"""Running sums, products and extremes along an axis, and recurrences step by step.

    y_t = y_{t−1} ∘ x_t            ∘ is +, ·, max, min or ln(eᵃ + eᵇ)
    h_t = a_t·h_{t−1} + b_t        where a_t = 0 forgets, infinities too

A program goes through lines of an axis in blocks: within one as a tree, from one to the next by
what it has so far. A recurrence goes step by step, each line a thread: states have many lines.
Halves are in float32. Bytes moved for N elements of s bytes: 2·s·N, for a recurrence 3·s·N.
Blelloch 1990, "Prefix sums and their applications".
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from gradwright.fuse.builder import FLOAT64, INT64
from gradwright.ops.arrays.cumulative import Cummax
from gradwright.ops.core.reduce import Cumsum, summed
from gradwright.spec import normalize_axis

from ..fused.elements import triton_type
from ..fused.terms import Array, Work, written
from ..launch import index_type, prepare

ELEMENTS, LONGEST = 1_024, 512
"""Elements of a tile, and along the axis."""
LINES = 128
"""Lines of a recurrence that a program goes along."""


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _smaller(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _larger_int(a, b):
    return tl.maximum(a, b)


@triton.jit
def _smaller_int(a, b):
    return tl.minimum(a, b)


@triton.jit
def _together(a, b):
    top = tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    is_end = tl.abs(top) == float("inf")
    less = tl.minimum(tl.minimum(a, b) - tl.where(is_end, 0.0, top), 0.0)
    return tl.where(is_end, top, top + tl.log(1.0 + tl.exp(less)))


@triton.jit
def _scan_kernel(
    x_ptr,
    y_ptr,
    n,
    inner,
    n_lines,
    HOW: tl.constexpr,
    START: tl.constexpr,
    LATE: tl.constexpr,
    BACK: tl.constexpr,
    ACC: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Go along ROWS lines in blocks; x_ptr, y_ptr: [lines / inner, n, inner].

    LATE leaves each element out of its own result, BACK begins at the end.
    """
    line = tl.program_id(0).to(INDEX) * ROWS + tl.arange(0, ROWS)[:, None]
    base = line // inner * n * inner + line % inner
    is_line = line < n_lines
    so_far = tl.full((ROWS, 1), START, ACC)
    if LATE:
        first = base + (n - 1) * inner if BACK else base
        tl.store(y_ptr + first, so_far.to(y_ptr.dtype.element_ty), mask=is_line)
    for begin in range(0, n, BLOCK):
        t = (begin + tl.arange(0, BLOCK)[None, :]).to(INDEX)
        at = n - 1 - t if BACK else t
        x = tl.load(x_ptr + base + at * inner, mask=is_line & (t < n), other=START).to(ACC)
        if HOW == "sum":
            y = so_far + tl.cumsum(x, 1)
        elif HOW == "prod":
            y = so_far * tl.cumprod(x, 1)
        elif HOW == "log":
            y = _together(so_far, tl.associative_scan(x, 1, _together))
        elif ACC.is_floating():
            if HOW == "max":
                y = _larger(so_far, tl.associative_scan(x, 1, _larger))
            else:
                y = _smaller(so_far, tl.associative_scan(x, 1, _smaller))
        elif HOW == "max":
            y = tl.maximum(so_far, tl.associative_scan(x, 1, _larger_int))
        else:
            y = tl.minimum(so_far, tl.associative_scan(x, 1, _smaller_int))
        so_far = tl.sum(tl.where(tl.arange(0, BLOCK)[None, :] == BLOCK - 1, y, 0), 1)[:, None]
        so_far = so_far.to(ACC)
        to = t + 1 if LATE else t
        place = base + (n - 1 - to if BACK else to) * inner
        tl.store(y_ptr + place, y.to(y_ptr.dtype.element_ty), mask=is_line & (to < n))


@triton.jit
def _recurrence_kernel(
    a_ptr,
    b_ptr,
    h_ptr,
    y_ptr,
    n,
    n_lines,
    BEGINS: tl.constexpr,
    BACK: tl.constexpr,
    ACC: tl.constexpr,
    LINES: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Go along LINES lines; a_ptr, b_ptr, y_ptr: [n, lines], h_ptr: [lines] if it BEGINS so."""
    line = tl.program_id(0).to(INDEX) * LINES + tl.arange(0, LINES)
    mask = line < n_lines
    h = tl.zeros((LINES,), ACC)
    if BEGINS:
        h = tl.load(h_ptr + line, mask=mask, other=0).to(ACC)
    at = line + tl.full((LINES,), n - 1, INDEX) * n_lines if BACK else line
    for _ in range(0, n):
        a = tl.load(a_ptr + at, mask=mask, other=0).to(ACC)
        b = tl.load(b_ptr + at, mask=mask, other=0).to(ACC)
        h = tl.where(a == 0, 0, a * h) + b
        tl.store(y_ptr + at, h.to(y_ptr.dtype.element_ty), mask=mask)
        at += -n_lines if BACK else n_lines


def scan(
    work: Work,
    x: Array,
    y: Array,
    axis: int,
    how: str,
    acc: np.dtype[Any],
    *,
    late: bool = False,
    back: bool = False,
) -> None:
    """Scan an axis of x into a dense y."""
    if not x.size:
        return
    x, axis = work.dense(x), normalize_axis(axis, x.ndim)
    n, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    lines = x.size // n
    block = min(LONGEST, triton.next_power_of_2(n))
    rows = max(1, min(ELEMENTS // block, triton.next_power_of_2(lines)))
    args: dict[str, Any] = {"x_ptr": x.dtype, "y_ptr": y.dtype, "n": n, "inner": inner}
    args |= {"n_lines": lines, "HOW": how, "START": _start(how, acc), "LATE": late, "BACK": back}
    args |= {"ACC": triton_type(acc), "ROWS": rows, "BLOCK": block, "INDEX": index_type(x.size)}
    run = prepare(_scan_kernel, triton.cdiv(lines, rows), args)
    work.call(lambda xs, ys: run(*xs, *ys), [x], [y])


def _start(how: str, acc: np.dtype[Any]) -> float:
    if how in ("sum", "prod"):
        return int(how == "prod")
    if acc.kind == "f":
        return np.inf if how == "min" else -np.inf
    info = np.iinfo(acc)
    return int(info.max if how == "min" else info.min)


@written("cumsum", "cumprod")
def cumulative(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Add up or multiply along an axis."""
    how = "sum" if isinstance(op, Cumsum) else "prod"
    acc = summed(xs[0].dtype)
    scan(work, xs[0], ys[0], op.axis, how, acc, late=op.exclusive, back=op.reverse)


@written("logcumsumexp")
def logcumsumexp(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Add up exponentials along an axis, in float64."""
    scan(work, xs[0], ys[0], op.axis, "log", FLOAT64)


@written("cummax", "cummin")
def running(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Find the extreme so far, then the last place that has reached it."""
    x, (y, at) = xs[0], ys
    axis = normalize_axis(op.axis, x.ndim)
    scan(work, x, y, axis, "max" if isinstance(op, Cummax) else "min", work.wide(x.dtype))
    hits = work.room(x.shape, INT64)
    shape = [1] * x.ndim
    shape[axis] = -1
    numbers = work.places(x.shape[axis]).reshape(shape)
    with work.over(x.shape) as k:
        here = k.read(x)
        hit = k.call("eq", here, k.read(y))
        if here.dtype.kind == "f":
            hit = hit | k.call("isnan", here)
        k.write(hits, k.call("where", hit, k.read(numbers), 0))
    scan(work, hits, at, axis, "max", INT64)


@written("linear_scan")
def linear_scan(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Go along an axis step by step; steps that are matrices are declined."""
    a, b, initial = (*xs, None)[:3]
    y = ys[0]
    if op.matrix:
        work.decline("factors of elements")
    if not y.size:
        return
    axis = normalize_axis(op.axis, b.ndim)
    a, b, target = (np.moveaxis(t, axis, 0) for t in (np.broadcast_to(a, b.shape), b, y))
    found = y if axis == 0 else work.room(target.shape, y.dtype)
    a, b = work.dense(a), work.dense(b)
    held = found if initial is None else work.dense(initial)
    n, lines = len(b), b.size // len(b)
    args: dict[str, Any] = {"a_ptr": a.dtype, "b_ptr": b.dtype, "h_ptr": held.dtype}
    args |= {"y_ptr": y.dtype, "n": n, "n_lines": lines, "BEGINS": initial is not None}
    args |= {"BACK": op.reverse, "ACC": triton_type(work.wide(y.dtype)), "LINES": LINES}
    run = prepare(
        _recurrence_kernel, triton.cdiv(lines, LINES), args | {"INDEX": index_type(b.size)}
    )
    work.call(lambda xs, ys: run(*xs, *ys), [a, b, held], [found])
    if found is not y:
        work.copy(target, found)
