"""Ops that take what indices name, where fusion has no form for them, and checks of indices.

Bytes moved for N elements of s bytes, each named by an index: (2·s + 8)·N.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwright.fuse.builder import INT64
from gradwright.spec import normalize_axis

from ..fused.terms import Array, Work, written
from .chains import placed


@written("gather")
def gather(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy slices; of an axis of size 1 every right index names the same."""
    x, indices = xs
    axis = normalize_axis(op.axis, x.ndim)
    if not indices.size or not ys[0].size:
        return
    place = placed(work, [indices], [x.shape[axis]])
    rows = [*range(axis), *range(axis + indices.ndim, ys[0].ndim)]
    taken(work, ys[0], np.moveaxis(x, axis, 0), [place], range(axis, axis + indices.ndim), rows)


def taken(
    work: Work,
    y: Array,
    x: Array,
    places: Sequence[Array],
    named: Sequence[int],
    rows: Sequence[int],
) -> None:
    """Copy what lies at places on the leading axes of x.

    Places run along the axes ``named`` of y, or as they broadcast to it; the rest of x along
    ``rows``. Of an axis of size 1 they name the same.
    """
    inner = [1] * y.ndim
    for i, n in zip(named, places[0].shape, strict=True):
        inner[i] = n
    with work.over(y.shape) as k:
        found = [k.read(place.reshape(inner)) for place in places]
        wide = [n for n in range(len(places)) if x.shape[n] > 1]
        x = x[tuple(slice(None) if n in wide else 0 for n in range(len(places)))]
        kept = [(~at, n) for at, n in enumerate(x.shape[: len(wide)])]
        axes = [*kept, *zip(rows, x.shape[len(wide) :], strict=True)]
        table = k.table(x.reshape([n for _, n in axes if n != 1]), *(a for a, n in axes if n != 1))
        term = table.at(*(found[n] for n in wide)) if wide else k.read(spread(x, rows, y.ndim))
        k.write(y, term)


def spread(x: Array, axes: Sequence[int], rank: int) -> Array:
    """Return a view with axes of size 1 between, so that its own are these."""
    shape = [1] * rank
    for i, n in zip(axes, x.shape, strict=True):
        shape[i] = n
    return x.reshape(shape)


@written("take_along_axis")
def take_along_axis(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy elements along an axis."""
    x, indices = xs
    y = ys[0]
    axis = normalize_axis(op.axis, x.ndim)
    if not y.size:
        return
    if op.corner:
        x = x[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(y.shape))]
    place = placed(work, [np.broadcast_to(indices, y.shape)], [x.shape[axis]])
    rest = [i for i in range(y.ndim) if i != axis]
    taken(work, y, np.moveaxis(x, axis, 0), [place], range(y.ndim), rest)


@written("gather_nd")
def gather_nd(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy what lies at coordinates."""
    x, indices = xs
    y, n = ys[0], indices.shape[-1]
    if not y.size:
        return
    lead = indices.ndim - 1
    each = np.moveaxis(indices, -1, 0)
    places = [placed(work, [each[c, ...]], [x.shape[c]]) for c in range(n)]
    taken(work, y, x, places, range(lead), range(lead, y.ndim))


@written("embedding")
def embedding(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy rows of a table, none of which counts from the end."""
    ids, weight = xs
    if not ys[0].size:
        return
    place = checked(work, ids, 0, weight.shape[0])
    taken(work, ys[0], weight, [place], range(ids.ndim), [ids.ndim])


@written("take_rows")
def take_rows(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy rows of a table; those of −1 are zeros."""
    table, rows = xs
    y = ys[0]
    if not y.size:
        return
    place = checked(work, rows, -1, len(table))
    found = work.room(y.shape, y.dtype)
    taken(work, found, table, [place], [0], range(1, y.ndim))
    with work.over(y.shape) as k:
        there = k.call("ge", k.read(rows.reshape(-1, *(1 for _ in y.shape[1:]))), 0)
        x = k.read(found)
        k.write(y, k.call("where", there, x, k.const(0, x.dtype)))


@written("class_numbers")
def class_numbers(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy labels, of which none may be no class; those that are ignored become 0."""
    labels, predictions = xs
    ignored = op.ignore_index
    work.copy(ys[0], checked(work, labels, 0, predictions.shape[-1], ignored))


def checked(work: Work, indices: Array, low: int, high: int, ignored: int | None = None) -> Array:
    """Return indices from 0 on; the alarm tells of those below ``low`` and from ``high`` on."""
    made = work.room(indices.shape, np.int64)
    if not made.size:
        return made
    bad = work.alarm(made.shape[:-1])
    with work.over(made.shape, 1 if made.ndim else 0) as k:
        at = k.read(indices).to(INT64)
        if ignored is not None:
            at = k.call("where", k.call("eq", at, ignored), 0, at)
        wrong = k.call("lt", at, low) | k.call("ge", at, high)
        k.write(made, k.call("where", wrong, 0, k.call("maximum", at, 0)))
        k.write(bad[..., None] if made.ndim else bad, wrong.reduce("max"))
    return made


@written("weighted_rows")
def weighted_rows(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Add up weight·x over the taps of each row."""
    x, index, weight = xs
    if ys[0].size:
        taps = tapped(work, x, index)
        products(work, ys[0], weight[:, None, :], taps.transpose(0, 2, 1))


@written("row_products")
def row_products(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Multiply each row of g with the rows of its taps."""
    g, x, index = xs
    if ys[0].size:
        products(work, ys[0], g[:, None, :], tapped(work, x, index))


def products(work: Work, y: Array, a: Array, b: Array) -> None:
    """Add up a·b along the last axis of b, which a is broadcast to."""
    with work.over(b.shape, 1) as k:
        by, of = (k.read(t).to(work.wide(y.dtype)) for t in (a, b))
        k.write(y[..., None], (by * of).reduce("sum"))


def tapped(work: Work, x: Array, index: Array) -> Array:
    """Return the rows of x that taps name, [P, K, C]."""
    taps = work.room((*index.shape, x.shape[1]), x.dtype)
    if taps.size:
        taken(work, taps, x, [placed(work, [index], [len(x)])], [0, 1], [2])
    return taps
