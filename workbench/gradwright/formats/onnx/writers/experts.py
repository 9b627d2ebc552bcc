"""Mixtures of experts: rows sorted by expert, each part times a matrix of its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..node import writes
from ..output import Call
from ..versions import CannotExport

INT64 = np.dtype("int64")


def _groups(call: Call, sizes: int, xs: list[str]) -> Iterator[list[str]]:
    """Yield what each group has of some tensors of rows: slices whose ends only a run knows."""
    spec = call.specs[sizes]
    assert spec is not None
    n, ints = spec.shape[0], call.out.ints
    if not isinstance(n, int):
        raise CannotExport
    counts = call.cast(call.xs[sizes], spec.dtype, INT64)
    ends = call.add("CumSum", counts, call.out.constant(np.int64(0)))
    starts = call.add("Sub", ends, counts)
    for i in range(n):
        first, last = (call.add("Slice", t, ints([i]), ints([i + 1])) for t in (starts, ends))
        yield [call.add("Slice", x, first, last, ints([0])) for x in xs]


@writes("grouped_matmul")
def grouped_matmul(call: Call) -> str:
    """Write one product per group, and put the rows together again."""
    x, weight = call.joined(until=2)
    parts = []
    for i, (rows,) in enumerate(_groups(call, 2, [x])):
        matrix = call.add("Gather", weight, call.out.constant(np.int64(i)))
        parts.append(call.add("MatMul", rows, matrix))
    return call.add("Concat", *parts, axis=0)


@writes("grouped_matmul_grad")
def grouped_matmul_grad(call: Call) -> str:
    """Write what the rows of each group make together; of no rows, that is 0."""
    x, g = call.joined(until=2)
    parts = []
    for rows, cotangents in _groups(call, 2, [x, g]):
        product = call.add("MatMul", call.add("Transpose", rows, perm=[1, 0]), cotangents)
        parts.append(call.add("Unsqueeze", product, call.out.ints([0])))
    return call.add("Concat", *parts, axis=0)
