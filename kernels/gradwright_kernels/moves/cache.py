"""Caches of keys and values: new positions written at a place of each sample, and taken from there.

    y[b, …, (place_b + i) mod S, …] = update[b, …, i, …]

Bytes moved for a cache of N elements and M new ones, of s bytes: 2·s·(N + M); 2·s·M to take them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwright.fuse.builder import INT64

from ..fused.terms import Array, Work, written


def numbered(work: Work, op: Any, at: Array | None, batch: int, room: int, n: int) -> Array:
    """Return for n positions of each sample where they stand, [B, n]; the alarm tells of no room.

    A linear cache must have room for all of them.
    """
    found, steps = work.room((batch, n), np.int64), work.places(n)
    bad = work.alarm((batch,))
    with work.over((batch, n), 1) as k:
        start = k.integer(0) if at is None else k.read(at.reshape(-1, 1) if at.ndim else at)
        place = start.to(INT64) + k.read(steps)
        if op.mode == "circular":
            place = k.call("mod", place, max(room, 1))
            wrong = k.call("lt", place, 0)
        else:
            wrong = k.call("lt", place, 0) | k.call("ge", place, room)
        k.write(bad[:, None], wrong.reduce("max"))
        k.write(found, k.call("where", wrong, k.integer(0), place))
    return found


@written("kv_scatter")
def kv_scatter(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy the cache, then for each place the position that is new there, if one is."""
    cache, update, at = (*xs, None)[:3]
    y = ys[0]
    rows, old, new = (np.moveaxis(t, op.axis, 1) for t in (y, cache, update))
    if not update.size:
        return work.copy(y, cache)
    batch, room, n = len(rows), rows.shape[1], new.shape[1]
    numbered(work, op, at, batch, room, n)
    numbers = work.places(room).reshape(1, room, *(1,) * (y.ndim - 2))
    with work.over(rows.shape) as k:
        inner = (-1, *(1,) * (y.ndim - 1))
        start = k.integer(0) if at is None else k.read(at.reshape(inner) if at.ndim else at)
        i = k.read(numbers) - start.to(INT64)
        i = k.call("mod", i, room) if op.mode == "circular" else i
        is_new = k.call("ge", i, 0) & k.call("lt", i, n)
        fresh = k.along(1, new, k.call("where", is_new, i, k.integer(0)))
        held = k.read(old)
        k.write(rows, k.call("where", is_new, fresh.to(held.dtype), held))


@written("kv_take")
def kv_take(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Copy the positions of each sample from where they stand."""
    cache, _, at = (*xs, None)[:3]
    rows, y = np.moveaxis(cache, op.axis, 1), np.moveaxis(ys[0], op.axis, 1)
    if not y.size:
        return
    batch, room, n = len(rows), rows.shape[1], y.shape[1]
    place = numbered(work, op, at, batch, room, n)
    with work.over(y.shape) as k:
        found = k.read(place.reshape(batch, n, *(1,) * (y.ndim - 2)))
        k.write(y, k.along(1, rows, found))
