"""Numbers and masks that depend on the place of an element: triangles, bands, windows, one-hots.

Bytes moved for N elements of s bytes: s·N, and as much for what is masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwright.fuse.builder import BOOL, INT64, Term
from gradwright.ops.attention.biases import slopes
from gradwright.ops.core.creation import Tril
from gradwright.ops.matrices.patterns import BandPart
from gradwright.spec import normalize_axis

from ..fused.terms import Array, Terms, Work, written
from .along import last


def places(k: Terms, rows: Array) -> tuple[Term, Term]:
    """Return the row and the column of each element of matrices."""
    return k.read(rows[:, None]), k.column()


@written("tril", "triu", "band_part")
def triangle(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Keep what lies between two diagonals."""
    x, y = xs[0], ys[0]
    if isinstance(op, BandPart):
        low = None if op.lower < 0 else -op.lower
        high = None if op.upper < 0 else op.upper
    else:
        low, high = (None, op.k) if isinstance(op, Tril) else (op.k, None)
    rows = work.places(y.shape[-2])
    with work.over(y.shape, 1) as k:
        i, j = places(k, rows)
        seen: Term = k.const(True, BOOL)
        if low is not None:
            seen = seen & k.call("ge", j - i, low)
        if high is not None:
            seen = seen & k.call("le", j - i, high)
        element = k.read(x)
        k.write(y, k.call("where", seen, element, k.const(0, element.dtype)))


@written("visible_keys")
def visible_keys(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """See keys up to a length, and in a window around each query."""
    y = ys[0]
    length = xs[1] if len(xs) > 1 else None
    rows, n_queries = work.places(y.shape[-2]), y.shape[-2]
    right = 0 if op.is_causal else op.right_window_size
    with work.over(y.shape, 1) as k:
        i, j = places(k, rows)
        seen: Term = k.const(True, BOOL)
        offset: Term = k.integer(op.offset)
        if length is not None:
            ends = k.read(length.reshape(-1, *(1,) * (y.ndim - 1)) if length.ndim else length)
            ends = ends.to(INT64)
            offset, seen = ends - n_queries, k.call("lt", j, ends)
        back = i + offset - j
        if right >= 0:
            seen = seen & k.call("ge", back, -right)
        if op.left_window_size >= 0:
            seen = seen & k.call("le", back, op.left_window_size)
        k.write(y, seen)


@written("one_hot")
def one_hot(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Be 1 where an axis' place is the index."""
    rows = last(ys[0], (normalize_axis(op.axis, ys[0].ndim),))
    with work.over(rows.shape, 1) as k:
        found = k.call("eq", k.column(), k.read(xs[0][..., None]).to(INT64))
        k.write(rows, found.to(k.wide(rows.dtype)))


@written("sequence_mask")
def sequence_mask(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Be 1 at places below a length."""
    y = ys[0]
    with work.over(y.shape, 1) as k:
        found = k.call("lt", k.column(), k.read(xs[0][..., None]).to(INT64))
        k.write(y, found.to(k.wide(y.dtype)))


@written("reverse_sequence")
def reverse_sequence(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Take the first places of each line from its length on backwards."""
    x, lengths = xs
    if not x.size:
        return
    time, batch = (normalize_axis(a, x.ndim) for a in (op.seq_axis, op.batch_axis))
    order = [batch, time, *(i for i in range(x.ndim) if i not in (batch, time))]
    x, y = x.transpose(order), ys[0].transpose(order)
    n, numbers = x.shape[1], work.places(x.shape[1])
    inner = (1,) * (x.ndim - 2)
    bad = work.alarm(lengths.shape)
    with work.over(lengths.shape) as k:
        end = k.read(lengths).to(INT64)
        k.write(bad, k.call("lt", end, 0) | k.call("gt", end, n))
    with work.over(y.shape) as k:
        t = k.read(numbers.reshape(1, n, *inner))
        end = k.read(lengths.reshape(-1, 1, *inner)).to(INT64)
        inside = k.call("lt", t, end) & k.call("le", end, n)
        at = k.call("where", inside, end - 1 - t, t)
        k.write(y, k.along(1, x, at))


@written("dropout")
def dropout(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Let everything through: masks of training are drawn before."""
    if op.training:
        work.decline("a mask that is drawn")
    y, mask = ys
    by = 1.0 if op.inverted else 1 - op.p
    with work.over(y.shape) as k:
        x = k.read(xs[1])
        factor = k.rounded(k.const(by, x.dtype), y.dtype)
        k.write(y, x * factor)
        k.write(mask, factor)


@written("unravel_index")
def unravel_index(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Divide by the sizes, the last first."""
    x = xs[0]
    bad = work.alarm(x.shape)
    shape = [int(n) for n in op.shape]
    with work.over(x.shape) as k:
        number = k.read(x).to(INT64)
        k.write(bad, k.call("lt", number, 0) | k.call("ge", number, int(np.prod(shape))))
        for y, n in zip(reversed(ys), reversed(shape), strict=True):
            k.write(y, k.call("mod", number, n))
            number = k.call("floordiv", number, n)


@written("apply_alibi")
def apply_alibi(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Subtract the slope of each head times how far a key lies from its query."""
    x, y = xs[0], ys[0]
    heads, n_queries, n_keys = x.shape[-3:]
    rows, wide = work.places(n_queries), work.wide(y.dtype)
    table = work.constant(slopes(heads).astype(wide)[:, None, None])
    with work.over(y.shape, 1) as k:
        i, j = places(k, rows)
        away = k.call("abs", j - i - (n_keys - n_queries)).to(wide)
        k.write(y, k.read(x) - k.read(table) * away)
