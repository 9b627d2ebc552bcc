"""Reductions, running sums, and order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....spec import Dim, kind, normalize_axes
from ..node import writes
from ..output import Call
from ..versions import CannotExport

_REDUCTIONS = {
    "sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "max": "ReduceMax",
    "min": "ReduceMin", "logsumexp": "ReduceLogSumExp",
}  # fmt: skip


@writes(*_REDUCTIONS)
def reduce(call: Call) -> str:
    x = call.cast(call.xs[0], call.x.dtype, call.y.dtype)
    return _reduced(call, _REDUCTIONS[call.op.name], x)


def _reduced(call: Call, op_type: str, x: str) -> str:
    axes = normalize_axes(call.axis, call.x.rank)
    if not axes:
        return call.add("Identity", x)
    if kind(call.y.dtype) == "c":
        raise CannotExport
    return call.add(op_type, x, call.out.ints(axes), keepdims=int(call.keepdims))


@writes("root_sum_squares")
def length(call: Call) -> str:
    """Write a length as ONNX's, whose programs care for its range, if it is no more than one."""
    x, axes = call.xs[0], normalize_axes(call.axis, call.x.rank)
    if axes and not call.mean and not call.eps:
        return _reduced(call, "ReduceL2", x)
    total = _reduced(call, "ReduceMean" if call.mean else "ReduceSum", call.add("Mul", x, x))
    if call.eps:
        total = call.add("Add", total, call.number(call.eps))
    return call.add("Sqrt", total)


@writes("any", "all")
def any_all(call: Call) -> str:
    """Count the elements that hold, or those that do not."""
    x = call.cast(call.xs[0], call.x.dtype, np.dtype(bool))
    if call.op.name == "all":
        x = call.add("Not", x)
    n = _reduced(call, "ReduceSum", call.cast(x, np.dtype(bool), np.dtype("int64")))
    none = call.add("Equal", n, call.out.constant(np.int64(0)))
    return none if call.op.name == "all" else call.add("Not", none)


@writes("count_nonzero")
def count_nonzero(call: Call) -> str:
    x = call.cast(call.xs[0], call.x.dtype, np.dtype(bool))
    return _reduced(call, "ReduceSum", call.cast(x, np.dtype(bool), call.y.dtype))


@writes("argmax", "argmin")
def arg_extreme(call: Call) -> str:
    op_type = "ArgMax" if call.op.name == "argmax" else "ArgMin"
    x = call.xs[0]
    if call.x.dtype == np.dtype(bool):
        x = call.cast(x, call.x.dtype, np.dtype("int32"))
    last = int(bool(call.op.attributes().get("last") or call.op.attributes().get("select_last")))
    if call.axis is not None:
        return call.add(
            op_type, x, axis=call.axis, keepdims=int(call.keepdims), select_last_index=last
        )
    flat = call.add("Reshape", x, call.out.ints([-1]))
    found = call.add(op_type, flat, axis=0, keepdims=0, select_last_index=last)
    return call.add("Reshape", found, call.out.ints([1] * call.x.rank)) if call.keepdims else found


@writes("cumsum")
def cumsum(call: Call) -> str:
    x = call.cast(call.xs[0], call.x.dtype, call.y.dtype)
    return call.add(
        "CumSum", x, call.out.constant(np.int64(call.axis)),
        exclusive=int(call.exclusive), reverse=int(call.reverse),
    )  # fmt: skip


def _ordered(call: Call, largest: bool, k: Any) -> list[str]:
    if kind(call.x.dtype) not in "fiu":
        raise CannotExport
    size = call.out.dim(k)
    return call.out.add(
        "TopK", [call.xs[0], size], n=2, base=call.name,
        axis=call.axis, largest=int(largest), sorted=1,
    )  # fmt: skip


@writes("top_k")
def top_k(call: Call) -> list[str]:
    return _ordered(call, call.largest, call.k)


@writes("sort", "argsort")
def sort(call: Call) -> Any:
    d = call.x.shape[call.axis]
    if isinstance(d, Dim) and str(d) not in call.out.symbols:
        raise CannotExport
    values, places = _ordered(call, call.descending, d)
    return places if call.op.name == "argsort" else [values, places]


@writes("all_finite")
def all_finite(call: Call) -> str:
    """Count the elements of each tensor that are not finite."""
    counts = []
    for x, spec in zip(call.xs, call.specs, strict=True):
        if spec is None or kind(spec.dtype) != "f":
            raise CannotExport
        odd = call.add("Or", call.add("IsNaN", x), call.add("IsInf", x))
        counts.append(
            call.add("ReduceSum", call.cast(odd, np.dtype(bool), np.dtype("int64")), keepdims=0)
        )
    return call.add("Equal", call.add("Max", *counts), call.out.constant(np.int64(0)))
