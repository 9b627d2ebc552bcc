"""Sums, and ops along rows: over all columns of a block at once, straight into their outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...op import Op
from ...ops.core import rows
from ...ops.layers.nn import softmax_into
from ...ops.losses.labels import class_numbers
from ...ops.numerics.summing import column_sums, matrix, row_sums, running_sums
from ...program.lowering import Launch, lowering
from ...spec import TensorSpec, normalize_axis
from .common import Specs, adder, floats, runs


@runs("sum")
@runs("mean")
def _sum(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Launch | None:
    x = ins[0]
    if x is None or not floats(x, kinds="fdFD"):
        return None
    axes = op.axes(x.rank)
    add, n = adder(x.shape, axes), math.prod(int(x.shape[a]) for a in axes)
    if op.name == "sum":
        return lambda xs, ys: add(xs[0], ys[0])
    if not n:
        return None

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        add(xs[0], ys[0])
        np.divide(ys[0], n, out=ys[0])

    return launch


@runs("sum_like")
def _sum_like(op: Op, ins: Specs, outs: Sequence[TensorSpec]) -> Launch | None:
    x, like = ins
    if x is None or like is None or not floats(x, kinds="fdFD") or x.shape == like.shape:
        return None
    lead = x.rank - like.rank
    ones = [lead + i for i, d in enumerate(like.shape) if d == 1 and x.shape[lead + i] != 1]
    add = adder(x.shape, (*range(lead), *ones))
    return lambda xs, ys: add(xs[0], ys[0])


CHUNKS = range(48, 7, -1)
"""Numbers whose running sums are one product with a triangle of ones, the largest that fits."""


@lowering("cumsum", "guard")
def cumsum_launch(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Launch | None:
    """Add up within chunks by a product, and then chunk by chunk: 0.4 ms, not 0.9 (1 MB)."""
    x = ins[0]
    if x is None or not floats(x) or normalize_axis(op.axis, x.rank) != x.rank - 1:
        return None
    n, dtype = int(x.shape[-1]), x.dtype
    size = next((c for c in CHUNKS if n % c == 0), 0)
    if not size or not x.nbytes:
        return None
    ones = np.ones((size, size), dtype)
    triangle = np.tril(ones, -op.exclusive) if op.reverse else np.triu(ones, op.exclusive)

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        y = matrix(ys[0], size)
        x = matrix(xs[0], size)
        np.matmul(x, triangle, y)
        if np.isnan(np.add.reduce(y, None)):  # ∞·0 is none of the sums
            ys[0][...] = op.forward(xs[0])
            return
        totals = row_sums(x).reshape(-1, n // size)
        chunks = y.reshape(-1, n // size, size)
        if op.reverse:
            chunks[:, :-1] += running_sums(totals[:, :0:-1], 1)[:, ::-1, None]
        else:
            chunks[:, 1:] += running_sums(totals[:, :-1], 1)[..., None]

    return launch


def _last(op: Any, x: TensorSpec | None) -> bool:
    """Tell whether an op works along the last axis of floats."""
    return x is not None and floats(x) and normalize_axis(op.axis, x.rank) == x.rank - 1


def _by_row(name: str, into: Callable[..., None]) -> None:
    """Run an op whose inputs and output have one shape on their rows."""

    @runs(name)
    def make(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Launch | None:
        if not _last(op, ins[0]) or any(s != outs[0] for s in ins):
            return None
        return lambda xs, ys: into(*map(matrix, xs), matrix(ys[0]))


_by_row("softmax", rows.softmax_into)
_by_row("softmax_grad", rows.softmax_grad_into)
_by_row("log_softmax", rows.log_softmax_into)
_by_row("log_softmax_grad", rows.log_softmax_grad_into)


@runs("masked_softmax")
def _masked_softmax(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Launch | None:
    x, *rest = ins
    if x is None or not floats(x):
        return None
    n = 2 if rest and rest[0] is not None else 1
    return lambda xs, ys: softmax_into(xs[0], ys[0], *xs[1:n], rows_may_be_empty=True)


@runs("logsumexp")
def _logsumexp(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Launch | None:
    x = ins[0]
    if x is None or not floats(x) or not x.rank or op.axes(x.rank) != (x.rank - 1,):
        return None
    return lambda xs, ys: rows.log_sums(matrix(xs[0]), ys[0].reshape(-1))


@runs("label_cross_entropy")
def _cross_entropy(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Launch | None:
    if not floats(ins[1]):
        return None

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        x, y = matrix(xs[1]), ys[0]
        index, kept = class_numbers(xs[0], x.shape[1], op.ignore_index)
        if index.size:
            rows.cross_entropy_into(x, index.reshape(-1), y.reshape(-1))
        np.copyto(y, 0, where=~kept)

    return launch


@runs("label_cross_entropy_grad")
def _cross_entropy_grad(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Launch | None:
    if not floats(ins[0], ins[2]):
        return None

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        x, y = matrix(xs[2]), matrix(ys[0])
        index, kept = class_numbers(xs[1], x.shape[1], op.ignore_index)
        if index.size:
            rows.cross_entropy_grad_into(xs[0].reshape(-1), x, index.reshape(-1), y)
        if op.ignore_index is not None:
            ys[0][~kept] = 0

    return launch


@runs("layer_norm")
def _layer_norm(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Launch | None:
    x, *parameters = ins
    given = [p is not None for p in (*parameters, None, None)][:2]
    if x is None or not floats(x, *filter(None, parameters)) or not x.nbytes:
        return None
    n, eps = math.prod(int(x.shape[a]) for a in op.axes(x.rank)), op.eps

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        w, b = (xs[i].reshape(-1) if there else None for i, there in enumerate(given, 1))
        rows.layer_norm_into(matrix(xs[0], n), w, b, eps, matrix(ys[0], n))

    return launch


@runs("pullback")
def _pullback(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Launch | None:
    """Run the backward pass of a layer norm at once; others run as they are derived."""
    if op.op.name != "layer_norm":
        return None
    x, w = (*ins[: op.n_inputs], None)[:2]
    if x is None or not floats(*filter(None, ins)) or not x.nbytes:
        return None
    n, eps = math.prod(int(x.shape[a]) for a in op.op.axes(x.rank)), op.op.eps

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        made = {i: y.reshape(-1) for i, y in zip(op.wrt, ys, strict=True)}
        dx = matrix(made[0], n) if 0 in made else None
        g = matrix(xs[-1], n)
        if dx is not None or 1 in made:
            weight = None if w is None else xs[1].reshape(-1)
            rows.layer_norm_grad_into(matrix(xs[0], n), weight, g, eps, dx, made.get(1))
        if 2 in made:
            column_sums(g, made[2])

    return launch
