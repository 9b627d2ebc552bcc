"""Reductions over axes, and sums that run along one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....spec import TensorSpec, kind
from ..node import OnnxNode, cast, ints, one, op, open_dims, open_ranks, reads


def reduced(node: OnnxNode, x: TensorSpec, axes: TensorSpec | None = None) -> list[TensorSpec]:
    """Return the result's spec while it is not known which axes go."""
    if node.flag("keepdims", True) or axes is None:
        return [open_dims(x.rank, x.dtype)]
    every = 0 if node.flag("noop_with_empty_axes") else x.rank
    return [open_ranks(axes, lambda n: x.rank - (n or every), x.dtype)]


def _extreme(name: str, lowest: bool) -> Callable[[Any, Any, bool], Any]:
    def reduce(x: Any, axes: Any, keepdims: bool) -> Any:
        over = range(x.rank) if axes is None else [a % x.rank for a in axes]
        if any(x.shape[a] == 0 for a in over):
            shape = [
                1 if i in over else d for i, d in enumerate(x.shape) if keepdims or i not in over
            ]
            return op(
                "full", shape=tuple(shape), fill_value=_limit(x.dtype, lowest), dtype=x.dtype
            )()
        if kind(x.dtype) == "b":
            return op("any" if lowest else "all", axis=axes, keepdims=keepdims)(x)
        return op(name, axis=axes, keepdims=keepdims)(x)

    return reduce


def _limit(d: np.dtype[Any], lowest: bool) -> Any:
    if kind(d) == "f":
        return -np.inf if lowest else np.inf
    if kind(d) == "b":
        return not lowest
    limits = np.iinfo(d)
    return int(limits.min if lowest else limits.max)


def _simple(name: str) -> Callable[[Any, Any, bool], Any]:
    return lambda x, axes, keepdims: op(name, axis=axes, keepdims=keepdims)(x)


def _sum(x: Any, axes: Any, keepdims: bool) -> Any:
    return op("sum", axis=axes, keepdims=keepdims)(x)


REDUCTIONS: dict[str, Callable[[Any, Any, bool], Any]] = {
    "ReduceSum": _sum,
    "ReduceMean": _simple("mean"),
    "ReduceProd": _simple("prod"),
    "ReduceMax": _extreme("max", True),
    "ReduceMin": _extreme("min", False),
    "ReduceLogSumExp": _simple("logsumexp"),
    "ReduceL1": lambda x, axes, keepdims: _sum(op("abs")(x), axes, keepdims),
    "ReduceL2": lambda x, axes, keepdims: op("sqrt")(_sum(x * x, axes, keepdims)),
    "ReduceLogSum": lambda x, axes, keepdims: op("log")(_sum(x, axes, keepdims)),
    "ReduceSumSquare": lambda x, axes, keepdims: _sum(x * x, axes, keepdims),
}
_EXACT = ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare")


def _reduce(node: OnnxNode, x: Any, axes: Any, noop: bool) -> Any:
    found = ints(axes)
    if not found:
        if noop and node.op_type in (
            "ReduceSum",
            "ReduceMean",
            "ReduceProd",
            "ReduceMax",
            "ReduceMin",
        ):
            return op("identity")(x)
        found = () if noop else None
    wide = x
    if kind(x.dtype) in "iu" and node.op_type not in _EXACT:
        wide = cast(x, "float64")
    return cast(REDUCTIONS[node.op_type](wide, found, node.flag("keepdims", True)), x.dtype)


@reads(*REDUCTIONS, since=1)
def reduce_attributes(node: OnnxNode, x: Any) -> Any:
    return _reduce(node, x, node.get("axes"), False)


@reads("ReduceSum", since=13, values=(1,), outputs=reduced)
@reads(
    *(name for name in REDUCTIONS if name != "ReduceSum"), since=18, values=(1,), outputs=reduced
)
def reduce(node: OnnxNode, x: Any, axes: Any = None) -> Any:
    return _reduce(node, x, axes, node.flag("noop_with_empty_axes"))


@reads("ArgMax", "ArgMin", since=1)
def arg_extreme(node: OnnxNode, x: Any) -> Any:
    axis, keepdims = node.get("axis", 0), node.flag("keepdims", True)
    find = op(node.op_type.lower(), axis=axis, keepdims=keepdims)
    if not node.flag("select_last_index"):
        return find(x)
    return op("size_of", axis=axis)(x) - 1 - find(op("flip", axis=axis)(x))


@reads("CumSum", since=11, values=(1,))
def cumsum(node: OnnxNode, x: Any, axis: Any) -> Any:
    return _running("cumsum", node, x, axis)


@reads("CumProd", since=26, values=(1,))
def cumprod(node: OnnxNode, x: Any, axis: Any) -> Any:
    return _running("cumprod", node, x, axis)


def _running(name: str, node: OnnxNode, x: Any, axis: Any) -> Any:
    flags = {"exclusive": node.flag("exclusive"), "reverse": node.flag("reverse")}
    return cast(op(name, axis=int(one(axis)), **flags)(x), x.dtype)
