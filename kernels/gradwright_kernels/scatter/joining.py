"""Ops that join values to places: of one axis, along an axis, of coordinates, of segments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwright.spec import normalize_axis

from ..fused.emit import start_of
from ..fused.terms import Array, Work, written
from ..rows.along import last
from .chains import join, placed


def begun(work: Work, y: Array, x: Array | None, how: str) -> Array:
    """Return memory of y that starts as x, or as a reduction of nothing, dense as y is."""
    if x is None:
        work.fill(y, start_of("sum" if how == "set" else how, work.wide(y.dtype)))
    else:
        work.copy(y, x)
    return y


def at_slices(
    work: Work,
    y: Array,
    axis: int,
    indices: Array,
    x: Array,
    how: str,
    start: Array | None = None,
    *,
    left_out: bool = False,
) -> None:
    """Join slices x[…, *indices, …] to those of an axis of y."""
    axis = normalize_axis(axis, y.ndim)
    rest = [i for i in range(y.ndim) if i != axis]
    shape = [y.shape[axis], *(y.shape[i] for i in rest)]
    whole = y if axis == 0 else work.room(shape, y.dtype)
    begun(work, whole, None if start is None else np.moveaxis(start, axis, 0), how)
    if indices.size:
        inner = range(axis, axis + indices.ndim)
        moved = x.transpose([*inner, *(i for i in range(x.ndim) if i not in inner)])
        dense = work.dense(moved).reshape(1, indices.size, math.prod(shape[1:]))
        place = placed(work, [indices], [shape[0]], left_out=left_out).reshape(1, -1)
        join(work, whole.reshape(1, shape[0], -1), place, dense, how)
    if whole is not y:
        work.copy(np.moveaxis(y, axis, 0), whole)


def along(
    work: Work, op: Any, y: Array, indices: Array, x: Array, how: str, start: Array | None = None
) -> None:
    """Join elements to places along an axis of y; where y has one place, others broadcast."""
    axis = normalize_axis(op.axis, y.ndim)
    begun(work, y, start, how)
    if not x.size:
        return
    corner = [slice(n) if op.corner else slice(None) for n in x.shape]
    corner[axis] = slice(None)
    shared = [i for i, n in enumerate(x.shape) if n != y.shape[i] == 1 or i == axis]
    target = last(y[tuple(corner)], shared)
    is_whole = target.flags.c_contiguous and target.size == y.size
    whole = target if is_whole else work.room(target.shape, y.dtype)
    if not is_whole:
        work.copy(whole, target)
    n = y.shape[axis]
    rows = whole.size // n
    place = placed(work, [last(np.broadcast_to(indices, x.shape), shared)], [n])
    values = work.dense(last(x, shared))
    join(work, whole.reshape(rows, n, 1), place.reshape(rows, -1), values.reshape(rows, -1, 1), how)
    if not is_whole:
        work.copy(target, whole)


def at_coordinates(
    work: Work, y: Array, indices: Array, x: Array, how: str, start: Array | None = None
) -> None:
    """Join slices to places that the last axis of indices names, on the leading axes of y."""
    n = indices.shape[-1]
    begun(work, y, start, how)
    if not x.size or not y.size:
        return
    named = work.dense(indices).reshape(-1, n)
    place = placed(work, [named[:, c] for c in range(n)], y.shape[:n]).reshape(1, -1)
    width = math.prod(y.shape[n:])
    join(
        work,
        y.reshape(1, math.prod(y.shape[:n]), width),
        place,
        work.dense(x).reshape(1, place.size, width),
        how,
    )


def how_of(op: Any) -> str:
    """Return how an op joins values, as the last word of its name has it."""
    word: str = op.name.rpartition("_")[2]
    return {"update": "set", "grad": "sum"}.get(word, word)


@written("gather_grad", is_whole=True)
def gather_grad(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Add up the slices of each index."""
    at_slices(work, ys[0], op.axis, xs[1], xs[0], "sum")


@written("take_along_axis_grad", is_whole=True)
def take_along_axis_grad(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Add up the elements of each index."""
    along(work, op, ys[0], xs[1], xs[0], "sum")


@written("scatter_update", "scatter_max", "scatter_min", is_whole=True)
def scatter(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Join elements to those of x."""
    x, indices, updates = xs
    along(work, op, ys[0], indices, updates, how_of(op), x)


@written("gather_nd_grad", is_whole=True)
def gather_nd_grad(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Add up the slices of each place."""
    at_coordinates(work, ys[0], xs[1], xs[0], "sum")


@written("scatter_nd_update", "scatter_nd_max", "scatter_nd_min", is_whole=True)
def scatter_nd(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Join slices to those of x."""
    x, indices, updates = xs
    at_coordinates(work, ys[0], indices, updates, how_of(op), x)


@written(*(f"unsorted_segment_{how}" for how in ("sum", "prod", "max", "min")), is_whole=True)
def segments(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Join the slices of each segment; negative numbers are left out."""
    x, ids = xs
    shape = (ids.size, *x.shape[ids.ndim :])
    flat, ids = work.dense(x).reshape(shape), work.dense(ids).reshape(-1)
    at_slices(work, ys[0], 0, ids, flat, how_of(op), left_out=True)


@written("put_rows")
def put_rows(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Write rows over those that are named; −1 names none."""
    table, rows, values = xs
    at_slices(work, ys[0], 0, rows, values, "set", table, left_out=True)


@written("invert_permutation")
def invert_permutation(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Write its number to each place."""
    numbers = work.places(xs[0].size)
    at_slices(work, ys[0], 0, xs[0], numbers, "set")


@written("weighted_rows_add")
def weighted_rows_add(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Add up weight·g at the rows of the taps."""
    g, index, weight = xs[:3]
    values = work.room((*index.shape, g.shape[1]), work.wide(ys[0].dtype))
    with work.over(values.shape) as k:
        by, of = (k.read(x).to(values.dtype) for x in (weight[:, :, None], g[:, None, :]))
        k.write(values, by * of)
    flat = values.reshape(index.size, g.shape[1])
    at_slices(work, ys[0], 0, work.dense(index).reshape(-1), flat, "sum")


@written("sum_rows")
def sum_rows(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Number places as they first come, then add up the values of each number."""
    ids, values, (rows, sums) = work.dense(xs[0]), xs[1], ys
    work.fill(rows, -1)
    work.fill(sums, 0)
    if not ids.size:
        return
    place = placed(work, [ids.reshape(-1)], [xs[2].shape[0]])
    n, numbers = place.size, work.places(place.size)
    earliest, number, own = (work.room((n,), np.int64) for _ in range(3))
    with work.over((n, n), 1) as k:
        alike = k.call("eq", k.read(place), k.read(place[:, None]))
        found = k.call("where", alike, k.column(), k.integer(n)).reduce("min")
        k.write(earliest[:, None], found)
    with work.over((n, n), 1) as k:  # how many first ones there are before the first of this place
        is_first = k.call("eq", k.read(earliest), k.column())
        before = is_first & k.call("lt", k.column(), k.read(earliest[:, None]))
        k.write(number[:, None], before.to(number.dtype).reduce("sum"))
    with work.over((n,)) as k:
        is_first = k.call("eq", k.read(earliest), k.read(numbers))
        k.write(own, k.call("where", is_first, k.read(number), k.integer(-1)))
    join(work, rows.reshape(1, -1, 1), own[None], place.reshape(1, -1, 1), "set")
    width = math.prod(values.shape[1:])
    flat = work.dense(values).reshape(1, n, width)
    join(work, sums.reshape(1, len(rows), width), number[None], flat, "sum")
