"""Counts, by kernels that add ones or weights up where numbers say."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...fuse.builder import FLOAT64, INT64, Builder, Scatter, Table, call, where
from ...fuse.ir import Beyond, Kernel
from ...ops.arrays.counts import sums_by_number
from ...program.lowering import lowering
from ...spec import TensorSpec
from ..call import NativeReturning
from ..llvm.bind import COPIED, bind_kernel
from ..llvm.chain import chain
from .common import Specs

Array = np.ndarray[Any, Any]


@lowering("bincount")
@lowering("confusion_matrix")
def _counts(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> NativeReturning:
    """Count by a kernel that adds ones up where numbers say; float weights in float64, as numpy."""

    def compiled(xs: Sequence[Any]) -> Sequence[Any]:
        return [op.counts(_sums_to_largest, *xs)]

    return NativeReturning(lambda xs: [op.forward(*xs)], compiled)


def _sums_to_largest(at: Array, weights: Any, least: int) -> Any:
    return _sums_by_number(at, weights, max(least, int(at.max(initial=-1)) + 1))


def _sums_by_number(at: Array, weights: Any, n: int) -> Any:
    given = np.ones(1, np.int64) if weights is None else weights
    if min(n, at.size) < 2 or given.dtype not in COPIED:
        return sums_by_number(at, weights, n)
    y = np.empty(n, np.float64 if given.dtype.kind == "f" else given.dtype)
    kernel = _counting(given.dtype, y.dtype, weights is not None)
    return y if _run(kernel, at.size, [given, at, y]) else sums_by_number(at, weights, n)


@functools.cache
def _counting(dtype: np.dtype[Any], total: np.dtype[Any], is_weighted: bool) -> Kernel:
    b = Builder(1, 1)
    weight = b.load("weights", (0,) if is_weighted else (), dtype).to(total)
    sums = Scatter(weight, (b.load("at", (0,), INT64),), "sum", Beyond.LEFT_OUT)
    return b.kernel([(sums, (-1,), "sum", total)])[0]


@lowering("histogram")
def _histogram(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> NativeReturning:
    """Find each bin by a quotient, which edges correct by one, as numpy does."""

    def compiled(xs: Sequence[Any]) -> Sequence[Any]:
        (x,) = xs
        ends = op.range
        if x.size and ends is None:
            ends = float(x.min()), float(x.max())
        is_taken = x.dtype in COPIED and min(x.size, op.bins) > 1
        if not (is_taken and all(map(math.isfinite, ends))):
            return op.forward(x)  # type: ignore[no-any-return]
        edges = np.histogram_bin_edges(np.empty(0), op.bins, ends)
        low, high = edges[0], edges[-1]
        numbers = {"low": low, "high": high, "scale": op.bins / (high - low), "most": op.bins - 1.0}
        given = {k: np.full(1, number) for k, number in numbers.items()}
        given |= {"x": x.reshape(-1), "edges": edges}
        kernel, reads = _binning(x.dtype)
        at = np.empty(x.size, np.int64)
        if not _run(kernel, x.size, [*(given[k] for k in reads), at]):
            return op.forward(x)  # type: ignore[no-any-return]
        counts = _sums_by_number(at, None, op.bins)
        return [counts, edges.astype(x.dtype)]

    return NativeReturning(lambda xs: op.forward(*xs), compiled)


@functools.cache
def _binning(dtype: np.dtype[Any]) -> tuple[Kernel, list[str]]:
    b = Builder(1, 1)
    x = b.load("x", (0,), dtype).to(FLOAT64)
    low, high, scale, most = (b.load(k, (), FLOAT64) for k in ("low", "high", "scale", "most"))
    edges = Table(b, "edges", (-1,), FLOAT64)
    near = (x - low) * scale
    k = where(near > 0.0, call("minimum", near, most), 0.0).to(INT64)  # 0 for NaN, too
    less, more = x < edges.at(k), (x >= edges.at(k + 1)) & (k < most.to(INT64))
    k = where(less, k - 1, where(more, k + 1, k))
    k = where((x >= low) & (x <= high), k, -1)
    return b.kernel([(k, (0,), "set", INT64)])


def _run(kernel: Kernel, n: int, arrays: Sequence[Array]) -> bool:
    """Run a kernel over n elements; False where it does not take the arrays."""
    calls = bind_kernel(kernel, (n,), arrays)
    if calls is None:
        return False
    chain([(call.address, call.block.ctypes.data) for call in calls])()
    return True
