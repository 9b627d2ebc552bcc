"""Results that are parts of inputs, moved: a number all over, then a copy for each part.

Bytes moved for N elements of s bytes: s·N for the number, and 2·s for each element that a part
copies. Parts overlap nowhere but where a later one is to be seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradwright.ops.core.padding import Pad
from gradwright.ops.core.slicing import StridedSlice
from gradwright.spec import normalize_axis, spec_of
from gradwright.spec.rounding import rounded

from ..fused.terms import Array, Work, written


@written("copy")
def copy(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy x as it lies."""
    work.copy(ys[0], xs[0])


@written("strided_slice_grad")
def slice_grad(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Put g where the slice takes its elements."""
    work.fill(ys[0], 0)
    work.copy(ys[0][StridedSlice(index=op.index).subscript()], xs[0])


@written("put_slice")
def put_slice(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy x, then the value into its slice."""
    work.copy(ys[0], xs[0])
    work.copy(ys[0][StridedSlice(index=op.index).subscript()], xs[1])


@written("pad")
def pad(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy each of the blocks into which the places of the axes fall."""
    x, y = xs[0], ys[0]
    if op.mode == "constant":
        work.fill(y, rounded(op.value, y.dtype).item())
        inner = zip(op.widths(x.ndim), x.shape, strict=True)
        place: list[Any] = [slice(before, before + n) for (before, _), n in inner]
        work.copy(y[(*place, ...)], x)
        return
    axes = [list(_runs(n, w, op.mode)) for n, w in zip(x.shape, op.widths(x.ndim), strict=True)]
    for runs in itertools.product(*axes):
        target, source = (tuple(run[side] for run in runs) for side in (0, 1))
        part = y[target]
        work.copy(part, np.broadcast_to(x[source], part.shape))


@written("pad_grad")
def pad_grad(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Add up the blocks that were copied from one, axis by axis, in float32 for halves."""
    g = xs[0]
    changed = [i for i, (before, after) in enumerate(op.pad_width) if before or after]
    if not changed:
        return work.copy(ys[0], g)
    for i in changed:
        shape = list(g.shape)
        shape[i] -= sum(op.pad_width[i])
        lead = (slice(None),) * i
        total = ys[0] if i == changed[-1] else work.room(shape, work.wide(g.dtype))
        first = op.pad_width[i][0]
        inner = g[(*lead, slice(first, first + shape[i]))]
        if op.mode == "constant":
            work.copy(total, inner)
            g = total
            continue
        sums = total if total.dtype == work.wide(g.dtype) else work.room(shape, work.wide(g.dtype))
        work.copy(sums, inner)
        for target, source in _runs(shape[i], op.pad_width[i], op.mode):
            if target.start == first:
                continue
            part = sums[(*lead, source)]
            for each in _one_by_one(part.shape[i], g[(*lead, target)], i):
                work.add(part, each)
        if sums is not total:
            work.copy(total, sums)
        g = total


def _one_by_one(n: int, g: Array, axis: int) -> Iterator[Array]:
    """Yield what is to be added to a part: all of it, or one after the other to a single place."""
    if g.shape[axis] == n:
        yield g
        return
    for k in range(g.shape[axis]):
        yield g[(*(slice(None),) * axis, slice(k, k + 1))]


def _runs(n: int, width: tuple[int, int], mode: str) -> Iterator[tuple[slice, slice]]:
    """Yield runs of places along a padded axis, with those of x which they are, the inner first.

    >>> [(t.start, t.stop, s.start, s.stop, s.step) for t, s in _runs(3, (2, 1), "reflect")]
    [(2, 5, 0, 3, 1), (0, 2, 2, 0, -1), (5, 6, 1, 2, 1)]
    """
    before, after = width
    yield slice(before, before + n), slice(0, n, 1)
    if mode == "constant":
        return
    places = Pad(pad_width=((before, after),), mode=mode).forward(np.arange(n))
    for low, high in ((0, before), (before + n, before + n + after)):
        at = low
        while at < high:
            end, step = at + 1, 0
            if end < high:
                step = int(places[end] - places[at])
                while end < high and places[end] - places[end - 1] == step:
                    end += 1
            first = int(places[at])
            last = int(places[end - 1])
            if step == 0:
                yield slice(at, end), slice(first, first + 1, 1)
            elif step > 0:
                yield slice(at, end), slice(first, last + 1, step)
            else:
                yield slice(at, end), slice(first, last - 1 if last else None, step)
            at = end


@written("tile")
def tile(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy x, repeated by strides of 0."""
    reps, sizes = op.paired(spec_of(xs[0]))
    wide = ys[0].reshape([n for pair in zip(reps, sizes, strict=True) for n in pair])
    work.copy(wide, xs[0].reshape([n for size in sizes for n in (1, size)]))


@written("tile_grad")
def tile_grad(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Add up the repeats."""
    g, y = xs[0], ys[0]
    sizes = (1,) * (g.ndim - y.ndim) + y.shape
    pairs = [n for pair in zip(op.reps, sizes, strict=True) for n in pair]
    work.total(y.reshape([n for size in sizes for n in (1, size)]), work.dense(g).reshape(pairs))


@written("repeat")
def repeat(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy x, each element repeated by a stride of 0; counts of their own are declined."""
    if not isinstance(op.repeats, int) or (len(xs) > 1 and xs[1] is not None):
        work.decline("one count for all elements")
    x = xs[0] if op.axis is not None else work.dense(xs[0]).reshape(-1)
    axis = normalize_axis(op.axis or 0, x.ndim)
    n = x.shape[axis]
    shape = (*x.shape[:axis], n, op.repeats, *x.shape[axis + 1 :])
    work.copy(ys[0].reshape(shape), np.expand_dims(x, axis + 1))


@written("roll")
def roll(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy the blocks that stay together."""
    x, y = xs[0], ys[0]
    if op.axis is None:
        x, y, axes = work.dense(x).reshape(-1), y.reshape(-1), (0,)
    else:
        axes = op.axis if isinstance(op.axis, tuple) else (op.axis,)
    shifts = op.shift if isinstance(op.shift, tuple) else (op.shift,) * len(axes)
    moved = [0] * x.ndim
    for axis, shift in zip(axes, shifts, strict=True):
        moved[axis] += shift
    pieces = []
    for n, shift in zip(x.shape, moved, strict=True):
        k = shift % n if n else 0
        pairs = [(slice(k, n), slice(0, n - k))]
        pieces.append([*pairs, (slice(0, k), slice(n - k, n))] if k else pairs)
    for parts in itertools.product(*pieces):
        work.copy(y[tuple(t for t, _ in parts)], x[tuple(s for _, s in parts)])


@written("shift")
def shift(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy all but one end; the other one is 0."""
    x, y = (np.moveaxis(a, op.axis, 0) for a in (xs[0], ys[0]))
    near, far = slice(1, None), slice(None, -1)
    work.fill(y[-1:] if op.back else y[:1], 0)
    work.copy(y[far if op.back else near], x[near if op.back else far])


@written("cut_or_pad_like")
def cut_or_pad(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy what both have along the axis, and put zeros behind it."""
    x, y = (np.moveaxis(a, op.axis, 0) for a in (xs[0], ys[0]))
    n = min(len(x), len(y))
    work.copy(y[:n], x[:n])
    work.fill(y[n:], 0)


@written("meshgrid")
def meshgrid(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy each vector along its axis of the grid."""
    for y, x in zip(ys, np.meshgrid(*xs, indexing=op.indexing, copy=False), strict=True):
        work.copy(y, x)


# -- diagonals ------------------------------------------------------------------------------------


def diagonal(y: Array, k: int) -> Array:
    """Return the k-th diagonal of the last two axes as a view."""
    rows, columns = y.shape[-2:]
    y = y[..., max(-k, 0) :, max(k, 0) :]
    n = max(0, min(rows - max(-k, 0), columns - max(k, 0)))
    strides = (*y.strides[:-2], y.strides[-2] + y.strides[-1])
    return np.lib.stride_tricks.as_strided(y, (*y.shape[:-2], n), strides)


@written("diag")
def diag(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy the diagonal, of a vector into zeros."""
    x, y = xs[0], ys[0]
    if x.ndim > 1:
        return work.copy(y, diagonal(x, op.k))
    work.fill(y, 0)
    work.copy(diagonal(y, op.k), x)


@written("diag_grad")
def diag_grad(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy g into the diagonal of zeros."""
    work.fill(ys[0], 0)
    work.copy(diagonal(ys[0], op.k), xs[0])


@written("set_diag")
def set_diag(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy x, then its diagonal."""
    work.copy(ys[0], xs[0])
    work.copy(diagonal(ys[0], op.k), xs[1])


# -- windows --------------------------------------------------------------------------------------


@written("im2col")
def im2col(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy the windows of a padded image, which overlap by their strides."""
    x, y = xs[0], ys[0]
    windows = op.windows(x.ndim - 2)
    size = (*x.shape[:2], *windows.padded_size(x.shape[2:]))
    padded = work.room(size, x.dtype)
    work.fill(padded, op.value)
    work.copy(windows.cropped(padded, x.shape[2:]), x)
    views = windows.views(padded)
    work.copy(y.reshape(views.shape), views)


@written("col2im")
def col2im(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Add up the windows, tap by tap, in the order of taps."""
    x, y = work.dense(xs[0]), ys[0]
    windows = op.windows(len(op.image_size))
    size = tuple(map(int, op.image_size))
    n_out = tuple(map(int, windows.n_out(size)))
    parts = x.reshape(len(x), x.shape[1] // windows.n_taps, windows.n_taps, *n_out)
    padded = work.room((*parts.shape[:2], *windows.padded_size(size)), work.wide(x.dtype))
    work.fill(padded, 0)
    for number, view in enumerate(windows.slices(padded, n_out)):
        work.add(view, parts[:, :, number])
    work.copy(y, windows.cropped(padded, size))


@written("overlap_add")
def overlap_add(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Add up frames: those parts together that lie equally many steps behind their starts."""
    x, y = xs[0], ys[0]
    (*lead, n, length), step = x.shape, op.frame_step
    over = -(-length // step)
    total = work.room((*lead, n + over - 1, step), work.wide(x.dtype))
    work.fill(total, 0)
    for j in range(over):
        part = x[..., j * step : (j + 1) * step]
        work.add(total[..., j : j + n, : part.shape[-1]], part)
    work.copy(y, total.reshape(*lead, (n + over - 1) * step)[..., : y.shape[-1]])
