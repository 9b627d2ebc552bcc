"""Bins that elements fall into, found by a kernel; numpy counts them as fast as one would."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...fuse.builder import FLOAT64, INT64, Builder, Table, call, where
from ...fuse.ir import Kernel
from ...program.lowering import lowering
from ...spec import TensorSpec
from ..call import NativeReturning
from ..llvm.bind import COPIED, bind_kernel
from ..llvm.chain import chain
from .common import Specs

Array = np.ndarray[Any, Any]
LEAST = 1 << 15
"""Elements from which on it pays to bind a kernel in each run, which takes 0.15 ms."""


@lowering("histogram")
def _histogram(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> NativeReturning:
    """Find each bin by a quotient, which edges correct by one, as numpy does."""

    def compiled(xs: Sequence[Any]) -> Sequence[Any]:
        (x,) = xs
        if x.size < LEAST or x.dtype not in COPIED or op.bins < 2:
            return op.forward(x)  # type: ignore[no-any-return]
        ends = op.range or (float(x.min()), float(x.max()))
        if not math.isfinite(ends[1] - ends[0]):
            return op.forward(x)  # type: ignore[no-any-return]
        edges = np.histogram_bin_edges(np.empty(0), op.bins, ends)
        low, high = edges[0], edges[-1]
        numbers = {"low": low, "high": high, "scale": op.bins / (high - low), "most": op.bins - 1.0}
        given = {k: np.full(1, number) for k, number in numbers.items()}
        given |= {"x": x.reshape(-1), "edges": edges}
        kernel, reads = _binning(x.dtype)
        at = np.empty(x.size, np.int64)
        calls = bind_kernel(kernel, at.shape, [*(given[k] for k in reads), at])
        if calls is None:
            return op.forward(x)  # type: ignore[no-any-return]
        chain([(call.address, call.block.ctypes.data) for call in calls])()
        counts = np.bincount(at, minlength=op.bins + 1)[: op.bins].astype(np.int64)
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
    k = where((x >= low) & (x <= high), k, most.to(INT64) + 1)
    return b.kernel([(k, (0,), "set", INT64)])
