"""Calls over a new leading axis: many evaluations of a forward at once.

How an op takes one more axis is not declared but tried: the ways below, each held against one
evaluation after the other, until one gives the same. What was found is kept per op and shapes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....op import Op, redefinitions
from ....shared import Bounded
from ...float64 import Call

Array = np.ndarray[Any, Any]
Way = Callable[[Op, Sequence[Any], Sequence[bool], Sequence[tuple[int, ...]]], Any]

FEW = 64
"""Elements of an output that may be the same along two axes by chance."""
_EXACT = 1e-11
"""Relative difference of results that are the same but for the order of sums."""
_found = Bounded[Way](1024)


def lifted(call: Call, xs: Sequence[Any], stacked: Sequence[bool], like: Sequence[Array]) -> Any:
    """Return a call's outputs for stacked inputs, each with a leading axis of one length.

    ``stacked`` says which inputs have that axis, and ``like`` are outputs without it.
    """
    op = call.op
    shapes = [y.shape for y in like]
    key = (
        op, redefinitions(), tuple(stacked), tuple(shapes),
        tuple(None if x is None else x.shape[s:] for x, s in zip(xs, stacked, strict=True)),
    )  # fmt: skip
    way = _found.find(key)
    if way is None:
        way = _tried(op, xs, stacked, like)
        _found.keep(key, way)
    count = next(len(x) for x, s in zip(xs, stacked, strict=True) if s)
    found = way(op, xs, stacked, shapes)
    if any(y.shape != (count, *shape) for y, shape in zip(found, shapes, strict=True)):
        return _one_by_one(op, xs, stacked, shapes)  # a stack of one, which a squeeze takes away
    return found


def forget() -> None:
    """Forget what was tried: ops may have changed."""
    _found.clear()


def _tried(op: Op, xs: Sequence[Any], stacked: Sequence[bool], like: Sequence[Array]) -> Way:
    rng = np.random.default_rng(0)
    shapes = [y.shape for y in like]
    sizes = {n for x in xs if x is not None for n in x.shape}.union(*shapes)
    alike = any(y.size <= FEW or y.dtype.kind not in "fc" for y in like)  # by chance, they may be
    counts = itertools.count(8 if alike else 3)
    count = next(k for k in counts if k not in sizes)  # or one axis may be taken for another
    given = [
        x.take(range(count), 0, mode="wrap") if s else x for x, s in zip(xs, stacked, strict=True)
    ]
    try:
        few = [_varied(x, alike, rng) if s else x for x, s in zip(given, stacked, strict=True)]
        right = _one_by_one(op, few, stacked, shapes)
    except Exception:  # places matter, as in a matrix that is positive definite
        few = [_varied(x, False, rng) if s else x for x, s in zip(given, stacked, strict=True)]
        right = _one_by_one(op, few, stacked, shapes)
    for way in (_aligned, _as_it_is, _shifted, _reshaped, _folded):
        try:
            found = way(op, few, stacked, shapes)
        except Exception:  # not a way for this op, whatever it says of such inputs
            continue
        if len(found) == len(right) and all(map(_same, found, right)):
            return way
    return _one_by_one


def _varied(x: Array, mixed: bool, rng: np.random.Generator) -> Array:
    """Return values that are alike in no way, as those of a step from zeros may be.

    ``mixed``: the elements of each row change places, too.
    """
    if x.dtype.kind == "b":
        x = np.asarray(rng.random(x.shape)) < 0.5
    elif mixed:
        x = rng.permuted(x.reshape(len(x), -1), axis=1).reshape(x.shape)
    if x.dtype.kind != "f":
        return x
    return x * rng.uniform(0.5, 1.5, x.shape) + 1e-3 * rng.uniform(0.5, 1.5, x.shape)


def _same(a: Array, b: Array) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    size = np.max(np.abs(b), initial=0.0) if b.dtype.kind in "fc" else 0.0
    return bool(np.allclose(a, b, rtol=_EXACT, atol=_EXACT * size, equal_nan=True))


def _outputs(ys: Any) -> list[Array]:
    return [np.asarray(y) for y in ys] if isinstance(ys, tuple) else [np.asarray(ys)]


def _one_by_one(
    op: Op, xs: Sequence[Any], stacked: Sequence[bool], shapes: Sequence[tuple[int, ...]]
) -> list[Array]:
    count = next(len(x) for x, s in zip(xs, stacked, strict=True) if s)
    rows = [
        _outputs(
            op.forward(*[np.asarray(x[k]) if s else x for x, s in zip(xs, stacked, strict=True)])
        )
        for k in range(count)
    ]
    return [np.stack([row[m] for row in rows]) for m in range(len(shapes))]


def _aligned(
    op: Op, xs: Sequence[Any], stacked: Sequence[bool], shapes: Sequence[tuple[int, ...]]
) -> list[Array]:
    """Broadcast: axes of length 1 go between the new one and those of a small input."""
    rank = len(shapes[0])
    given = [
        x.reshape(x.shape[:1] + (1,) * (rank - x.ndim + 1) + x.shape[1:])
        if s and x.ndim <= rank
        else x
        for x, s in zip(xs, stacked, strict=True)
    ]
    return _outputs(op.forward(*given))


def _as_it_is(
    op: Op, xs: Sequence[Any], stacked: Sequence[bool], shapes: Sequence[tuple[int, ...]]
) -> list[Array]:
    """Have all inputs stacked, for ops that take any number of leading axes."""
    return _outputs(op.forward(*_all_stacked(xs, stacked)))


def _all_stacked(xs: Sequence[Any], stacked: Sequence[bool]) -> list[Any]:
    count = next(len(x) for x, s in zip(xs, stacked, strict=True) if s)
    return [
        x if s or x is None else np.broadcast_to(x, (count, *x.shape))
        for x, s in zip(xs, stacked, strict=True)
    ]


def _shifted(
    op: Op, xs: Sequence[Any], stacked: Sequence[bool], shapes: Sequence[tuple[int, ...]]
) -> list[Array]:
    """Count axes that the op states one further."""
    rank = next(x.ndim for x in xs if x is not None) - stacked[0]
    changes: dict[str, Any] = {}
    for name in ("axis", "axis1", "axis2"):
        if name in op.attrs:
            axis = getattr(op, name)
            if axis is None:
                changes[name] = tuple(range(1, rank + 1))
            elif isinstance(axis, tuple):
                changes[name] = tuple(a % rank + 1 for a in axis)
            else:
                changes[name] = axis + 1 if axis >= 0 else axis
    if "axes" in op.attrs:
        axes = range(rank)[::-1] if op.axes is None else op.axes  # type: ignore[attr-defined]
        changes["axes"] = (0, *(a % rank + 1 for a in axes))
    return _outputs(op.replace(**changes).forward(*_all_stacked(xs, stacked)))


def _reshaped(
    op: Op, xs: Sequence[Any], stacked: Sequence[bool], shapes: Sequence[tuple[int, ...]]
) -> list[Array]:
    """Give the first input another shape."""
    return [xs[0].reshape(xs[0].shape[:1] + shapes[0])]


def _folded(
    op: Op, xs: Sequence[Any], stacked: Sequence[bool], shapes: Sequence[tuple[int, ...]]
) -> list[Array]:
    """Put the new axis into the first, which counts examples."""
    count = len(xs[0])
    ys = _outputs(op.forward(xs[0].reshape(-1, *xs[0].shape[2:]), *xs[1:]))
    return [y.reshape(count, *shape) for y, shape in zip(ys, shapes, strict=True)]
