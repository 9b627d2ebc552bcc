"""What kernels of attention share: pieces of features, products of tiles, and scores of one.

Features are taken in pieces of a power of two, so that heads of any width fit in registers: a head
of 80 is one piece of 128, one of 576 is five. Positions and masks are looked at in tiles, as
:class:`gradwright.ops.attention.tiled.Tiled` has them.
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def piece_of(
    at, step, inside, number, WIDTH: tl.constexpr, PIECE: tl.constexpr, OPERAND: tl.constexpr
):
    """Load a piece of the features of some rows, whose first features are ``at``; 0 outside."""
    feature = number * PIECE + tl.arange(0, PIECE)
    mask = inside[:, None] & (feature < WIDTH)[None, :]
    return tl.load(at[:, None] + feature[None, :] * step, mask=mask, other=0.0).to(OPERAND)


@triton.jit
def products(
    a,
    a_at,
    a_step,
    a_inside,
    b,
    b_at,
    b_step,
    b_inside,
    WIDTH: tl.constexpr,
    PIECE: tl.constexpr,
    OPERAND: tl.constexpr,
    ACC: tl.constexpr,
):
    """Return the products of rows of a and rows of b, of which a and b are the first pieces."""
    total = tl.dot(a, tl.trans(b), input_precision="ieee", out_dtype=ACC)
    for n in range(1, (WIDTH + PIECE - 1) // PIECE):
        left = piece_of(a_at, a_step, a_inside, n, WIDTH, PIECE, OPERAND)
        right = piece_of(b_at, b_step, b_inside, n, WIDTH, PIECE, OPERAND)
        total = tl.dot(left, tl.trans(right), total, input_precision="ieee", out_dtype=ACC)
    return total


@triton.jit
def masked(
    s,
    row,
    col,
    n_rows,
    n_cols,
    left,
    right,
    offset,
    mask_at,
    mask_row,
    mask_col,
    LOW: tl.constexpr,
    SHUTS: tl.constexpr,
    ENDS: tl.constexpr,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    ACC: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Return scores with a mask, and −∞ where keys are hidden by position, or are not there.

    mask_at: where the mask of a head begins; SHUTS: it says which keys are seen, others get LOW.
    """
    if mask_at is not None:
        at = mask_at + row.to(INDEX)[:, None] * mask_row + col.to(INDEX)[None, :] * mask_col
        inside = (row < n_rows)[:, None] & (col < n_cols)[None, :]
        if SHUTS:
            s = tl.where(tl.load(at, mask=inside, other=0) != 0, s, LOW)
        else:
            s += tl.load(at, mask=inside, other=0.0).to(ACC)
    hidden = -float("inf")
    back = row[:, None] + offset - col[None, :]
    if ENDS:
        s = tl.where((col < n_cols)[None, :], s, hidden)
    if LEFT:
        s = tl.where(back <= left, s, hidden)
    if RIGHT:
        s = tl.where(back >= -right, s, hidden)
    return s


@triton.jit
def weights(s, lse, n_cols, BLIND: tl.constexpr, ACC: tl.constexpr):
    """Return e to the scores less their residual.

    BLIND: queries with a residual below it have seen low scores alone, and weigh all keys alike.
    """
    p = tl.exp(s - lse[:, None])
    if BLIND is not None:
        alike = tl.where(s == -float("inf"), 0.0, tl.full((1, 1), 1.0, ACC) / n_cols)
        p = tl.where((lse < BLIND)[:, None], alike, p)
    return p
