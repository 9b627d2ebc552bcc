"""Rows that lie along any axes: the fusion's own terms over views whose last axes these are.

Fusion takes what reduces over the last axes, as a CPU's vectors do. A GPU's threads may as well lie
along other ones: here the same rules build their terms over transposed views.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwright.fuse.builder import Term
from gradwright.fuse.rules import Place, rule_of
from gradwright.ops.core.like import SumLike
from gradwright.ops.core.quantifiers import Argmin, CountNonzero
from gradwright.ops.core.reduce import Prod, summed
from gradwright.ops.layers.gated import Hardmax
from gradwright.spec import normalize_axis

from ..fused.terms import Array, Terms, Work, written


def last(x: Array, axes: Sequence[int]) -> Array:
    """Return a view whose last axes are these."""
    kept = [i for i in range(x.ndim) if i not in axes]
    return x.transpose([*kept, *axes])


def reduced(y: Array, x: Array, axes: Sequence[int]) -> Array:
    """Return a result as it broadcasts to ``last(x, axes)``."""
    kept = [n for i, n in enumerate(x.shape) if i not in axes]
    return y.reshape([*kept, *(1 for _ in axes)])


def built(op: Any, space: Sequence[int], n_columns: int, *terms: Term | None) -> Term:
    """Return what the fusion's rule makes of terms over rows."""
    at = Place(tuple(space), (), (), n_columns)
    rule = rule_of(op)
    assert rule is not None, "the names are those that have one"
    made: Term = rule.build(op, at, *terms)
    return made


@written("max", "min", "any", "all", "mean", "logsumexp", "root_sum_squares")
def reduction(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Reduce over any axes; over none, a row is one element."""
    x, y = xs[0], ys[0]
    axes = op.axes(x.ndim)
    if not axes:
        x, y, axes = x[..., None], y[..., None], (x.ndim,)
    rows = last(x, axes)
    with work.over(rows.shape, len(axes)) as k:
        k.write(reduced(y, x, axes), built(op, rows.shape, len(axes), k.read(rows)))


@written("sum", "prod", "count_nonzero", "sum_like")
def total(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Add up or multiply over any axes, halves in float32."""
    x, y = xs[0], ys[0]
    if isinstance(op, SumLike):
        lead = x.ndim - y.ndim
        axes = tuple(i for i in range(x.ndim) if i < lead or y.shape[i - lead] != x.shape[i])
    else:
        axes = op.axes(x.ndim)
    if not axes:
        x, y, axes = x[..., None], y[..., None], (x.ndim,)
    rows = last(x, axes)
    with work.over(rows.shape, len(axes)) as k:
        term = k.read(rows)
        if isinstance(op, CountNonzero):
            term = k.call("ne", term, 0) if term.dtype.kind != "b" else term
        term = term.to(summed(y.dtype))
        k.write(reduced(y, x, axes), term.reduce("prod" if isinstance(op, Prod) else "sum"))


@written("log_softmax", "softmax_grad", "log_softmax_grad", "masked_softmax")
def rowwise(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Compute each row from rows of the inputs along one axis."""
    y = ys[0]
    axis = normalize_axis(getattr(op, "axis", -1), y.ndim)
    views = [None if x is None else last(np.broadcast_to(x, y.shape), (axis,)) for x in xs]
    rows = last(y, (axis,))
    with work.over(rows.shape, 1) as k:
        terms = [None if v is None else k.read(v) for v in views]
        k.write(rows, built(op, rows.shape, 1, *terms))


@written("argmax", "argmin", "hardmax")
def place_of(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Find the extreme of each row, then the first place, or the last one, that has it."""
    x, y = xs[0], ys[0]
    if op.axis is None:
        x, axis = work.dense(x).reshape(-1), 0
        y = y.reshape(())
    else:
        axis = normalize_axis(op.axis, x.ndim)
    rows = last(x, (axis,))
    with work.over(rows.shape, 1) as k:
        at = first_of(k, k.read(rows), "min" if isinstance(op, Argmin) else "max", last=is_last(op))
        if not isinstance(op, Hardmax):
            k.write(reduced(y, x, (axis,)), at)
            return
        k.write(last(y, (axis,)), k.call("eq", k.column(), at))


def is_last(op: Any) -> bool:
    """Tell whether the last of equal ones is asked for."""
    return bool(getattr(op, "last", False))


def first_of(k: Terms, x: Term, how: str, *, last: bool = False) -> Term:
    """Return the place of the extreme of each row; NaN is more extreme than any number."""
    x = x.to(np.dtype(np.int32)) if x.dtype.kind == "b" else x
    hit = k.call("eq", x, x.reduce(how))
    if x.dtype.kind == "f":
        hit = hit | k.call("isnan", x)
    nowhere = k.integer(-1 if last else 1 << 62)
    return k.call("where", hit, k.column(), nowhere).reduce("max" if last else "min")
