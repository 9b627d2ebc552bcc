"""Recurrences along an axis as scans, and reductions of segments as sums at places."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import Tensor
from ....op import seams
from ....ops.control.scan import scan
from ....spec import kind, normalize_axis
from ..by_rule import write_by_rule
from ..node import cast, op, writes
from ..nodes import spell, spelled
from ..output import Call
from .counts import numbers


def _to_front(x: Tensor, axis: int) -> Any:
    order = (axis, *(i for i in range(x.rank) if i != axis))
    return op("transpose", axes=order)(x) if axis else x


def _from_front(x: Tensor, axis: int) -> Any:
    order = (*range(1, axis + 1), 0, *range(axis + 1, x.rank))
    return op("transpose", axes=order)(x) if axis else x


@spelled("linear_scan")
def linear_scan(of: Any, a: Tensor, b: Tensor, initial: Tensor | None = None) -> Any:
    """Go step by step; a factor of 0 forgets what was before, infinities too."""
    axis, joint = normalize_axis(of.axis, b.rank), of.infer(a.spec, b.spec).dtype
    a, b = (_to_front(cast(x, joint), axis) for x in (a, b))
    state = b.shape[1:]
    start = cast(initial, joint) if initial is not None else _filled(state, 0, joint)

    def step(h: Any, x: Any) -> Any:
        factor, new = x
        h = factor @ h + new if of.matrix else op("where")(factor == 0.0, 0.0, factor * h) + new
        return h, h

    return _from_front(scan(step, start, (a, b), reverse=of.reverse)[1], axis)


def _filled(shape: Any, value: Any, dtype: Any) -> Any:
    return op("full", shape=tuple(shape), fill_value=value, dtype=dtype)()


@writes("cumprod")
def cumprod(call: Call) -> list[str]:
    """Write by rule since opset 26, and as a scan before."""
    if call.out.opset >= 26 and call.x.dtype == call.y.dtype:
        return write_by_rule(call)
    return spell(call, _running_product)


def _running_product(of: Any, x: Tensor) -> Any:
    axis = normalize_axis(of.axis, x.rank)
    x = _to_front(cast(x, of.infer(x.spec).dtype), axis)
    one = _filled(x.shape[1:], 1, x.dtype)

    def step(before: Any, item: Any) -> Any:
        after = before * item
        return after, before if of.exclusive else after

    return _from_front(scan(step, one, x, reverse=of.reverse)[1], axis)


@spelled("cummax", "cummin")
def running_extreme(of: Any, x: Tensor) -> Any:
    """Keep the best element and its place; a later one that equals it, or is NaN, takes over."""
    axis = normalize_axis(of.axis, x.rank)
    rows = _to_front(x, axis)
    state = rows.shape[1:]
    largest = of.name == "cummax"
    start = _filled(state, _least(x.dtype, largest), x.dtype), _filled(state, 0, "int64")

    def step(held: Any, item: Any) -> Any:
        best, place = held
        wins = item >= best if largest else item <= best
        if kind(x.dtype) == "f":
            odd = op("is_nan")(best)
            wins = op("is_nan")(item) | (wins & ~odd)
        best = op("where")(wins, item, best)
        place = op("where")(wins, item.graph.step, place)
        return (best, place), (best, place)

    ys = scan(step, start, rows)[1]
    return tuple(_from_front(y, axis) for y in ys)


def _least(dtype: Any, largest: bool) -> Any:
    if kind(dtype) == "f":
        return -np.inf if largest else np.inf
    limits = np.iinfo(dtype)
    return limits.min if largest else limits.max


@spelled("logcumsumexp")
def logcumsumexp(of: Any, x: Tensor) -> Any:
    """Sum in float64, in which not many digits are lost."""
    axis = normalize_axis(of.axis, x.rank)
    rows = cast(_to_front(x, axis), "float64")
    start = _filled(rows.shape[1:], -np.inf, "float64")

    def step(total: Any, item: Any) -> Any:
        total = op("logaddexp")(total, item)
        return total, total

    return cast(_from_front(scan(step, start, rows)[1], axis), x.dtype)


# -- segments --------------------------------------------------------------------------------------

_KINDS = ("sum", "max", "min", "prod")


@spelled(*(f"segment_{k}" for k in _KINDS), *(f"unsorted_segment_{k}" for k in _KINDS))
def segments(of: Any, x: Tensor, ids: Tensor) -> Any:
    """Reduce at the places of the segments; what is left out goes to one more, which is cut off."""
    how = of.name.rpartition("_")[2]
    rest, ids = x.shape[ids.rank :], cast(ids, "int64")
    if of.name.startswith("unsorted"):
        count = _filled((), of.num_segments, "int64")
        at = op("where")(ids < 0, count, ids)
    else:
        last = op("strided_slice", index=(("slice", -1, None, None),))(
            op("concat", axis=0)(_filled((1,), -1, "int64"), ids)
        )
        count, at = op("squeeze", axis=0)(last) + 1, ids
    fill = {"sum": 0, "prod": 1}.get(how)
    fill = of.least(x.dtype) if fill is None else fill
    parts = [op("expand_dims", axis=0)(count + 1)]
    parts += [op("reshape", shape=(1,))(_filled((), d, "int64")) for d in rest]
    shape = op("concat", axis=0)(*parts) if len(parts) > 1 else parts[0]
    empty = op("full", fill_value=fill, dtype=x.dtype)(shape)
    way = {"sum": "add", "prod": "mul"}.get(how, how)
    reduced = op(f"scatter_nd_{way}")(empty, op("expand_dims", axis=-1)(at), x)
    return op("strided_slice", index=(("slice", None, -1, None),))(reduced)


# -- connectionist temporal classification ---------------------------------------------------------


def _log_probability(
    of: Any, labels: Tensor, x: Tensor, sizes: Tensor, times: Tensor, low: float
) -> Any:
    """Sum over paths by recursion, whose states are labels and blanks (Graves et al. 2006)."""
    sizes, times = cast(sizes, "int64"), cast(times, "int64")
    b, s = labels.shape
    inside = numbers(s) < op("expand_dims", axis=-1)(sizes)
    labels = op("where")(inside, cast(labels, "int64"), of.blank)

    def blanks(*shape: Any) -> Any:
        return _filled(shape, of.blank, "int64")

    pairs = op("stack", axis=-1)(blanks(b, s), labels)
    states = op("concat", axis=1)(op("reshape", shape=(b, 2 * s))(pairs), blanks(b, 1))
    n = 2 * s + 1
    before = op("concat", axis=1)(blanks(b, 2), states)[:, :n]
    skips = (states != of.blank) & (states != before)
    first = op("where")(numbers(n) == 0, _filled((n,), 0, x.dtype), low)
    start = op("broadcast_to", shape=(b, n))(first)

    def step(held: Any, row: Any) -> Any:
        wide = op("concat", axis=1)(_filled((b, 2), low, x.dtype), held)
        one, two = wide[:, 1 : n + 1], op("where")(skips, wide[:, :n], low)
        both = op("logaddexp")(op("logaddexp")(held, one), two)
        new = both + op("take_along_axis", axis=1)(row, states)
        running = op("expand_dims", axis=-1)(row.graph.step < times)
        return op("where")(running, new, held), ()

    last, _ = scan(step, start, op("transpose", axes=(1, 0, 2))(x))
    ends = op("expand_dims", axis=-1)(sizes * 2)
    full = op("take_along_axis", axis=1)(last, ends)[:, 0]
    short = op("take_along_axis", axis=1)(last, op("maximum")(ends - 1, 0))[:, 0]
    return op("logaddexp")(full, op("where")(sizes > 0, short, low))


@spelled("ctc_of_logs")
def ctc_of_logs(of: Any, labels: Tensor, x: Tensor, sizes: Tensor, times: Tensor) -> Any:
    return -_log_probability(of, labels, x, sizes, times, low=-np.inf)


@spelled("ctc_grad")
def ctc_grad(of: Any, g: Tensor, labels: Tensor, x: Tensor, sizes: Tensor, times: Tensor) -> Any:
    """Differentiate the recursion; a low number stands for −∞, which has no slope."""
    loss = -_log_probability(of, labels, x, sizes, times, low=-1e30)
    (dx,) = seams.gradients([loss], [x], [cast(g, x.dtype)], unreachable="zero")
    return dx


@spelled("ctc_collapse")
def ctc_collapse(of: Any, path: Tensor, lengths: Tensor | None = None) -> Any:
    """Give each label the place that it has among those that stay."""
    rows = cast(op("transpose", axes=(1, 0))(path), "int64")
    b, t = rows.shape
    kept = rows != of.blank
    if of.merge_repeated:
        first = _filled((b, 1), -1, "int64")
        kept = kept & (rows != op("concat", axis=1)(first, rows[:, :-1]))
    if lengths is not None:
        kept = kept & (numbers(t) < op("expand_dims", axis=-1)(cast(lengths, "int64")))
    count = cast(kept, "int64")
    place = op("where")(kept, op("cumsum", axis=1)(count) - 1, t)  # what goes, goes to one more
    none = _filled((b, t + 1), -1, "int64")
    labels = op("scatter_update", axis=1)(none, place, rows)
    return labels[:, :t], op("sum", axis=1)(count)
