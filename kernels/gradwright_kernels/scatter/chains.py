"""Values joined to places that indices name: each place follows the chain of its values.

    y[r, p] = y[r, p] ∘ x[r, i₁] ∘ x[r, i₂] ∘ …        i₁ < i₂ < … are all i with place[r, i] = p

∘ is a sum, a product, a maximum, a minimum, or what comes last. A first kernel finds for each value
the next one of its place, and whether it is the first: k² comparisons in rows of k values, in L2.
Then each first value's program walks its chain. So values are joined in their order, one program
writes a place, and bits depend on nothing else; there are no atomics.

Bytes moved for R rows of k values of W numbers of s bytes, of which u places are named: s·W·(R·k +
2·u) and 25·R·k for the chains; halves add up in float32, and are rounded once.
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from gradwright.fuse.builder import Term

from ..fused.elements import triton_type
from ..fused.terms import Array, Terms, Work
from ..launch import index_type, prepare

ELEMENTS = 1_024
"""Numbers of a tile: its rows are values, so that narrow ones share a program."""
WIDEST = 256
"""Columns of a tile."""
NONE = 1 << 62
"""The next value of the last one."""


@triton.jit
def _walk_chains(
    place_ptr,
    next_ptr,
    first_ptr,
    x_ptr,
    y_ptr,
    n_values,
    k,
    n,
    width,
    HOW: tl.constexpr,
    ACC: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Walk the chains that begin at ROWS values, for BLOCK columns.

    place_ptr, next_ptr: i64[R, k]; first_ptr: bool[R, k]; x_ptr: [R, k, width]; y_ptr: [R, n,
    width]; n_values = R·k. Program (v, c): block v of values, block c of columns.
    """
    value = tl.program_id(0).to(INDEX) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1).to(INDEX) * BLOCK + tl.arange(0, BLOCK)[None, :]
    in_row = value < n_values
    row = value // k
    live = in_row & (tl.load(first_ptr + value, mask=in_row, other=0) != 0)
    place = tl.load(place_ptr + value, mask=live, other=0)
    y = y_ptr + (row * n + place) * width + col
    begun = live & (col < width)
    total = tl.load(y, mask=begun, other=0).to(ACC)
    i = (value - row * k).to(tl.int64)
    while tl.max(tl.max(live.to(tl.int32), 1), 0) > 0:
        mask = live & (col < width)
        x = tl.load(x_ptr + (row * k + i) * width + col, mask=mask, other=0).to(ACC)
        if HOW == "sum":
            joined = total + x
        elif HOW == "prod":
            joined = total * x
        elif HOW == "set":
            joined = x
        elif ACC.is_floating():
            if HOW == "max":
                joined = tl.maximum(total, x, propagate_nan=tl.PropagateNan.ALL)
            else:
                joined = tl.minimum(total, x, propagate_nan=tl.PropagateNan.ALL)
        elif HOW == "max":
            joined = tl.maximum(total, x)
        else:
            joined = tl.minimum(total, x)
        total = tl.where(mask, joined, total)
        i = tl.where(live, tl.load(next_ptr + row * k + i, mask=live, other=0), i)
        live = live & (i < k)
    tl.store(y, total.to(y_ptr.dtype.element_ty), mask=begun)


def join(work: Work, y: Array, place: Array, x: Array, how: str) -> None:
    """Join values x[R, k, W] to y[R, n, W] at places[R, k]; negative places are left out.

    Of bools a sum is whether one is true, a product whether all are.
    """
    rows, k, width = x.shape
    if y.dtype.kind == "b":
        how = {"sum": "max", "prod": "min"}.get(how, how)
    if not x.size or not y.size:
        return
    following, begins = work.room(place.shape, np.int64), work.room(place.shape, bool)
    numbers = work.places(k)
    with work.over((rows, k, k), 1) as t:
        alike = t.call("eq", t.read(place[:, None, :]), t.read(place[:, :, None]))
        mine = t.read(numbers[:, None])
        later, earlier = (t.call(test, t.column(), mine) for test in ("gt", "lt"))
        after = t.call("where", alike & later, t.column(), t.integer(NONE)).reduce("min")
        t.write(following[..., None], after)
        is_first = ~(alike & earlier).reduce("max")
        t.write(begins[..., None], is_first & t.call("ge", t.read(place[:, :, None]), 0))
    block = min(WIDEST, triton.next_power_of_2(width))
    tall = max(1, min(ELEMENTS // block, triton.next_power_of_2(rows * k)))
    acc = work.wide(y.dtype)
    args: dict[str, Any] = {"place_ptr": np.dtype(np.int64), "next_ptr": np.dtype(np.int64)}
    args |= {"first_ptr": np.dtype(bool), "x_ptr": x.dtype, "y_ptr": y.dtype}
    numbered = {"n_values": rows * k, "k": k, "n": y.shape[1], "width": width, "HOW": how}
    tiles = {"ROWS": tall, "BLOCK": block, "ACC": triton_type(acc)}
    grid = triton.cdiv(rows * k, tall), triton.cdiv(width, block), 1
    index = index_type(max(x.size, y.size))
    run = prepare(_walk_chains, grid, args | numbered | tiles | {"INDEX": index})
    work.call(lambda xs, ys: run(*xs, *ys), [place, following, begins, work.dense(x)], [y])


def placed(
    work: Work, indices: Sequence[Array], sizes: Sequence[int], *, left_out: bool = False
) -> Array:
    """Return row-major numbers of places, −1 where there is none, which the alarm tells of.

    Negative indices count from the end, or with ``left_out`` name no place, which is no fault.
    """
    made = work.room(indices[0].shape, np.int64)
    bad = work.alarm(made.shape[:-1])
    with work.over(made.shape, 1 if made.ndim else 0) as k:
        number: Term = k.integer(0)
        wrong: Term = k.const(False, np.dtype(bool))
        for index, n in zip(indices, sizes, strict=True):
            at, there = index_term(k, k.read(index), n, left_out)
            wrong = wrong | ~there
            number = number * n + at
        k.write(made, k.call("where", wrong, k.integer(-1), number))
        k.write(bad[..., None] if made.ndim else bad, wrong.reduce("max"))
    return made


def index_term(k: Terms, at: Term, n: int, left_out: bool) -> tuple[Term, Term]:
    """Return an index counted from the front, and whether it may be."""
    at = at.to(np.dtype(np.int64))
    if left_out:
        return k.call("maximum", at, -1), k.call("lt", at, n)
    at = k.call("where", k.call("lt", at, 0), at + n, at)
    return at, k.call("ge", at, 0) & k.call("lt", at, n)
