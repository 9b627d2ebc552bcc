"""Rules of reductions, and of ops that work along rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ops.core.reduce import summed
from ..spec import TensorSpec, normalize_axis
from .builder import BOOL, FLOAT32, FLOAT64, INT64, Term, call, where
from .rules import Place, Specs, reduced, rule, trailing
from .rules_elements import exp, log, maximum

# -- reductions -----------------------------------------------------------------------------------


def of_rows(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Place | None:
    """Place a reduction over the last axes, or over all."""
    x, y = ins[0], outs[0]
    assert x is not None
    axes = op.axes(x.rank)
    if not axes or axes != tuple(range(x.rank - len(axes), x.rank)):
        return None
    shape: Any = x.shape
    return Place(shape, (tuple(range(x.rank)),), (reduced(x, axes, y),), len(axes))


def of_sums(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Place | None:
    """Place a sum: along rows over the last axes; over others or all, known in the end only."""
    x = ins[0]
    assert x is not None
    axes = op.axes(x.rank)
    if trailing(axes, x.rank):
        return of_rows(op, ins, outs)
    shape: Any = x.shape
    out = reduced(x, axes, outs[0])
    return Place(shape, (tuple(range(x.rank)),), (out,), sums=frozenset({0}))


@rule("sum", "count_nonzero", locate=of_sums)
def _sum(op: Any, at: Place, x: Term) -> Term:
    x = call("ne", x, 0) if op.name == "count_nonzero" and x.dtype != BOOL else x
    wide = x.to(INT64 if op.name == "count_nonzero" else summed(x.dtype))
    return wide if at.sums else wide.reduce("sum")


@rule("sum_like", locate=lambda op, ins, outs: _sum_like_at(ins[0], outs[0]))
def _sum_like(op: Any, at: Place, x: Term, like: None) -> Term:
    return x if at.sums else x.reduce("sum")


def _sum_like_at(x: Any, y: TensorSpec) -> Place | None:
    lead = x.rank - y.rank
    axes = tuple(i for i in range(x.rank) if i < lead or y.shape[i - lead] != x.shape[i])
    ins, out = (tuple(range(x.rank)), None), tuple(range(lead, x.rank))
    if not axes or x.dtype == BOOL:
        return None
    if trailing(axes, x.rank):
        return Place(x.shape, ins, (out,), len(axes))
    return Place(x.shape, ins, (out,), sums=frozenset({0}))


@rule("mean", locate=of_rows)
def _mean(op: Any, at: Place, x: Term) -> Term:
    return mean(x, at)


@rule("root_sum_squares", locate=of_rows)
def _root_sum_squares(op: Any, at: Place, x: Term) -> Term:
    return length(x, at.columns if op.mean else None, op.eps)


SCALES = {
    FLOAT32: (2.0**-90, 2.0**90, 2.0**-80, 1e-24),
    FLOAT64: (2.0**-600, 2.0**600, 2.0**-918, 1e-200),
}
"""Factors whose products with large and with small numbers have squares, the least sum of squares
that has lost no digits, and the ε from which on what smaller ones have lost is no part of it."""


def length(x: Term, count: int | None, eps: float = 0.0) -> Term:
    """Return √(Σ x²/count + ε) of each row, whose squares may be no numbers of the dtype.

    Where they are none, or too small, the row is summed up again, scaled by a power of two, which
    changes no digit. Beside an ε that is seen, small ones need no care.
    """
    low, high, least, seen = SCALES[x.dtype]
    total = call("square", x).reduce("sum")
    scale, back = (x.builder.const(by, x.dtype) for by in (low, 1 / low))
    is_odd = ~call("isfinite", total)
    if eps < seen:
        is_small = total < least
        scale, back = where(is_small, high, scale), where(is_small, 1 / high, back)
        is_odd = is_odd | is_small
    again = call("square", x * scale).reduce("sum", is_odd)
    total = where(is_odd, again, total)
    if count is not None:
        total = total / x.builder.scalar(count, x.dtype)
    if eps:
        scale = where(is_odd, scale, 1.0)
        total = total + scale * eps * scale
    return call("sqrt", total) * where(is_odd, back, 1.0)


def mean(x: Term, at: Place) -> Term:
    """Return the mean of each row."""
    return x.reduce("sum") / x.builder.scalar(at.columns, x.dtype)


@rule("max", "any", locate=of_rows)
def _max(op: Any, at: Place, x: Term) -> Term:
    return x.reduce("max")


@rule("min", "all", locate=of_rows)
def _min(op: Any, at: Place, x: Term) -> Term:
    return x.reduce("min")


@rule("logsumexp", locate=of_rows)
def _logsumexp(op: Any, at: Place, x: Term) -> Term:
    top = x.reduce("max")
    top = where(call("isfinite", top), top, 0)
    return log(exp(x - top).reduce("sum")) + top


# -- softmax --------------------------------------------------------------------------------------


def along_last(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Place | None:
    """Place an op that works along the last axis of its output; inputs broadcast to that."""
    shape: Any = outs[0].shape
    n = len(shape)
    if not n or normalize_axis(getattr(op, "axis", -1), n) != n - 1:
        return None
    where_ins = tuple(None if s is None else tuple(range(n - s.rank, n)) for s in ins)
    return Place(shape, where_ins, (tuple(range(n)),) * len(outs), 1)


@rule("softmax", locate=along_last)
def _softmax(op: Any, at: Place, x: Term) -> Term:
    e = exp(x - x.reduce("max"))
    return e / e.reduce("sum")


@rule("softmax_grad", locate=along_last)
def _softmax_grad(op: Any, at: Place, g: Term, p: Term) -> Term:
    return (g - (g * p).reduce("sum")) * p


@rule("log_softmax", locate=along_last)
def _log_softmax(op: Any, at: Place, x: Term) -> Term:
    y = x - x.reduce("max")
    return y - log(maximum(exp(y).reduce("sum"), 1))  # it is at least 1, but for an empty axis


@rule("log_softmax_grad", locate=along_last)
def _log_softmax_grad(op: Any, at: Place, g: Term, y: Term) -> Term:
    return g - exp(y) * g.reduce("sum")


@rule("masked_softmax", locate=along_last)
def _masked_softmax(op: Any, at: Place, x: Term, seen: Term | None = None) -> Term:
    """Rows that see nothing are zeros."""
    x = x if seen is None else where(seen, x, -np.inf)
    top = x.reduce("max")
    e = exp(x - where(call("eq", top, -np.inf), 0, top))
    total = e.reduce("sum")
    return e / where(call("eq", total, 0), 1, total)


# -- classes --------------------------------------------------------------------------------------


@rule("sequence_mask", locate=lambda op, ins, outs: _last_of(outs[0]))
def _sequence_mask(op: Any, at: Place, length: Term) -> Term:
    return (length.builder.column() < length.to(INT64)).to(op.dtype)


@rule("one_hot", locate=lambda op, ins, outs: _one_hot_at(op, outs[0]))
def _one_hot(op: Any, at: Place, index: Term) -> Term:
    return call("eq", index.builder.column(), index.to(INT64)).to(op.dtype)


def _one_hot_at(op: Any, y: TensorSpec) -> Place | None:
    return _last_of(y) if normalize_axis(op.axis, y.rank) == y.rank - 1 else None


def _last_of(y: TensorSpec) -> Place:
    """Place an input that has all axes of the output but its last one."""
    shape: Any = y.shape
    axes = tuple(range(y.rank))
    return Place(shape, (axes[:-1],), (axes,), 1)


def of_classes(logits: int, per_row: bool) -> Any:
    """Return how to place labels (and cotangents of each row) and logits."""

    def locate(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Place | None:
        spec = ins[logits]
        assert spec is not None
        shape: Any = spec.shape
        full = tuple(range(len(shape)))
        where_ins = tuple(full if i == logits else full[:-1] for i in range(len(ins)))
        return Place(shape, where_ins, (full[:-1] if per_row else full,), 1)

    return locate


def _own(op: Any, label: Term, x: Term) -> tuple[Term, Callable[[Term], Term]]:
    """Return where a row's class is, and what zeroes rows whose label is ignored."""
    label = label.to(INT64)
    own, ignored = call("eq", x.builder.column(), label), op.ignore_index
    if ignored is None:
        return own, lambda y: y
    return own, lambda y: where(call("ne", label, ignored), y, 0)


@rule("label_cross_entropy", locate=of_classes(1, per_row=True))
def _cross_entropy(op: Any, at: Place, label: Term, x: Term) -> Term:
    own, kept = _own(op, label, x)
    x = x - x.reduce("max")
    return kept(log(exp(x).reduce("sum")) - where(own, x, 0).reduce("sum"))


@rule("softmax_minus_one_hot", locate=of_classes(1, per_row=False))
def _minus_one_hot(op: Any, at: Place, label: Term, x: Term) -> Term:
    own, kept = _own(op, label, x)
    p = _softmax(op, at, x)
    return kept(where(own, p - 1, p))


@rule("label_cross_entropy_grad", locate=of_classes(2, per_row=False))
def _cross_entropy_grad(op: Any, at: Place, g: Term, label: Term, x: Term) -> Term:
    _, kept = _own(op, label, x)
    return kept(g * _minus_one_hot(op, at, label, x))


# -- layer norm -----------------------------------------------------------------------------------


def of_norm(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Place | None:
    """Place a norm over the last axes and its parameters, which have these axes."""
    x = ins[0]
    assert x is not None
    shape: Any = x.shape
    full, columns = tuple(range(x.rank)), op.axes(x.rank)
    where_ins = tuple(None if s is None else full if i == 0 else columns for i, s in enumerate(ins))
    return Place(shape, where_ins, (full,), len(columns))


def _centred(x: Term, at: Place, eps: float) -> tuple[Term, Term]:
    """Return x less the mean of its row, and its standard deviation."""
    centred = x - mean(x, at)
    return centred, length(centred, at.columns, eps)


@rule("layer_norm", locate=of_norm)
def _layer_norm(
    op: Any, at: Place, x: Term, weight: Term | None = None, bias: Term | None = None
) -> Term:
    centred, deviation = _centred(x, at, op.eps)
    y = centred / deviation
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@rule("rms_norm", locate=of_norm)
def _rms_norm(op: Any, at: Place, x: Term, weight: Term | None = None) -> Term:
    y = x / length(x, at.columns, op.eps)
    return y if weight is None else y * weight


def of_standard_rows(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Place | None:
    """Place rows that are all axes from one on; numbers of each row keep these with size 1."""
    full = tuple(range(outs[0].rank))
    shape: Any = outs[0].shape
    n_columns = len(op.axes(outs[0].rank))
    return Place(shape, (full,) * len(ins), (full,) * len(outs), n_columns)


@rule("standard_rows", locate=of_standard_rows)
def _standard_rows(op: Any, at: Place, x: Term) -> tuple[Term, Term, Term]:
    average = mean(x, at)
    centred = x - average
    inverse = call("reciprocal", length(centred, at.columns, op.eps))
    return centred * inverse, average, inverse


@rule("standard_rows_grad", locate=of_standard_rows)
def _standard_rows_grad(op: Any, at: Place, g: Term, y: Term, r: Term) -> Term:
    return (g - mean(g, at) - y * mean(g * y, at)) * r


@rule("pullback", locate=lambda op, ins, outs: _pullback_at(op, ins))
def _pullback(op: Any, at: Place, x: Term, *rest: Term | None) -> tuple[Term, ...]:
    """Layer norm backwards: dx = (h − mean h − y·mean(h·y))/σ for h = g·weight, y = (x − μ)/σ."""
    weight, g = rest[0] if op.n_inputs > 1 else None, rest[-1]
    assert g is not None
    centred, deviation = _centred(x, at, op.op.eps)
    y = centred / deviation
    h = g if weight is None else g * weight
    made = {0: lambda: (h - mean(h, at) - y * mean(h * y, at)) / deviation}
    made |= {1: lambda: g * y, 2: lambda: g}
    return tuple(made[i]() for i in op.wrt)


def _pullback_at(op: Any, ins: Specs) -> Place | None:
    x = ins[0]
    if op.op.name != "layer_norm" or x is None or ins[-1] is None or len(ins) != op.n_inputs + 1:
        return None
    shape: Any = x.shape
    full, columns = tuple(range(x.rank)), op.op.axes(x.rank)
    where_ins = tuple(
        None if s is None or i == 2 < op.n_inputs else full if i in (0, op.n_inputs) else columns
        for i, s in enumerate(ins)
    )
    outs = tuple(full if i == 0 else columns for i in op.wrt)
    sums = frozenset(at for at, i in enumerate(op.wrt) if i)
    return Place(shape, where_ins, outs, len(columns), sums)
