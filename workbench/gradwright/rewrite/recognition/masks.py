"""What a mask says: who is seen, whether that is all that came before, and how low it goes."""

from __future__ import annotations

import math

import numpy as np

from ...graph import Constant
from ...ops.attention.scaled import CausalMask
from ...ops.attention.weights import VisibleKeys
from ...ops.core.creation import Arange, Tril, Triu
from ...ops.core.index import Gather
from ...ops.core.movement import ExpandDims
from ...ops.core.slicing import ALL, StridedSlice
from ...spec import TensorSpec
from .view import View

VISIBLE = 32.0
"""Scores up to this vanish beside a number that hides: their sum with it is that number."""
HIDES = -1e4
"""From here down, a number hides where something else of the row is seen: e to it is 0."""
_STEPS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
_MOVING = (
    "expand_dims",
    "broadcast_to",
    "reshape",
    "squeeze",
    "transpose",
    "cast",
    "strided_slice",
)


def vanishes(number: float, spec: TensorSpec) -> bool:
    """Tell whether usual scores vanish beside a number, as beside the lowest of the dtype."""
    return number < 0 and -number * _STEPS.get(spec.dtype.name, 0.0) >= VISIBLE


def lowest(at: View, value: int | None, depth: int = 16) -> float:
    """Return a number below which no element of a floating mask is; −∞ where none is known.

    Sums that overflow are −∞, as they are in the mask.
    """
    step = at.producer(value)
    number = at.number(value)
    if number is not None:
        return float(number)
    if value is not None and isinstance(at.tensor(value).op, Constant):
        array = at.graph.values.array(at.tensor(value).name)
        return float(array.min()) if array.size and array.dtype.kind != "b" else -math.inf
    if step is None or not depth:
        return -math.inf
    if step.op.name == "where":
        return min(lowest(at, i, depth - 1) for i in step.ins[1:])
    if step.op.name in _MOVING or isinstance(step.op, Gather):
        return lowest(at, step.ins[0], depth - 1)
    if step.op.name == "add":
        low = [lowest(at, i, depth - 1) for i in step.ins]
        with np.errstate(over="ignore"):
            return float(np.array(low, at.spec(value).dtype).sum())
    return -math.inf


def is_causal(at: View, value: int | None, hidden: bool = False) -> bool:
    """Tell whether a bool mask is j ≤ i over its last two axes; if ``hidden``, whether j > i."""
    for _ in range(16):
        step = at.producer(value)
        if step is None:
            return value is not None and _is_triangle(at, value, hidden)
        op, ins = step.op, step.ins
        match op.name:
            case "logical_not":
                value, hidden = ins[0], not hidden
            case "logical_and" if not hidden and any(at.number(i) == np.True_ for i in ins):
                other = ins[1] if at.number(ins[0]) == np.True_ else ins[0]
                if not _keeps_corner(step.node.outputs[0].spec, at.spec(other), op):
                    return False
                value = other
            case "expand_dims" | "broadcast_to" | "reshape" | "strided_slice" | "cast":
                if not _keeps_corner(step.node.outputs[0].spec, at.spec(ins[0]), op):
                    return False
                value = ins[0]
            case "less_equal" | "greater":
                return hidden == (op.name == "greater") and _are_positions(at, *ins[:2])
            case "greater_equal" | "less":
                return hidden == (op.name == "less") and _are_positions(at, *ins[1::-1])
            case "causal_mask":
                return isinstance(op, CausalMask) and not hidden
            case "visible_keys":
                return op == VisibleKeys(is_causal=True) and len(ins) == 1 and not hidden
            case "tril":
                return isinstance(op, Tril) and op.k == 0 and not hidden and at.number(ins[0]) == 1
            case "triu":
                return isinstance(op, Triu) and op.k == 1 and hidden and at.number(ins[0]) == 1
            case _:
                return False
    return False


def _is_triangle(at: View, value: int, hidden: bool) -> bool:
    tensor = at.tensor(value)
    if not isinstance(tensor.op, Constant) or tensor.rank < 2:
        return False
    array = at.graph.values.array(tensor.name)
    wanted = (np.tri(*array.shape[-2:]) == 1) != hidden
    return bool(array.size) and bool((array.astype(bool) == wanted).all()) and array.min() >= 0


def _keeps_corner(spec: TensorSpec, inner: TensorSpec, op: object) -> bool:
    """Tell whether the last two axes stay, or are cut from their start on."""
    if inner.rank < 2:
        return False
    if isinstance(op, StridedSlice):
        cut = [i for i in op.index if i is not None][inner.rank - 2 :]
        whole = (*op.index, *[ALL] * (2 - len(cut)))[-2:]
        return all(isinstance(i, tuple) and i[1] in (None, 0) and i[3] in (None, 1) for i in whole)
    if isinstance(op, ExpandDims):
        axes = op.axis if isinstance(op.axis, tuple) else (op.axis,)
        return all(a % spec.rank < spec.rank - 2 for a in axes)
    return spec.shape[-2:] == inner.shape[-2:]


def _are_positions(at: View, keys: int | None, queries: int | None) -> bool:
    """Tell whether one value counts along the last axis, and the other along the one before."""
    return _counts(at, keys, -1) and _counts(at, queries, -2)


def _counts(at: View, value: int | None, axis: int) -> bool:
    """Tell whether a value is 0, 1, 2 … along an axis, and the same along all others."""
    spec = at.spec(value)
    place = spec.rank + axis
    if place < 0 and axis == -2:
        return False
    for _ in range(16):
        assert value is not None
        tensor, step = at.tensor(value), at.producer(value)
        inner = at.spec(step.ins[0]) if step is not None and step.ins else None
        if isinstance(tensor.op, Constant):
            array = np.moveaxis(at.graph.values.array(tensor.name), place, -1)
            return bool((array == np.arange(array.shape[-1])).all())
        if step is None:
            return False
        if isinstance(step.op, Arange):
            return step.op.bounds()[0] == 0 and step.op.step == 1
        if inner is None:
            return False
        if step.op.name == "broadcast_to":
            place -= tensor.rank - inner.rank
            if place < 0 or inner.shape[place] != tensor.shape[place]:
                return False
        elif isinstance(step.op, ExpandDims):
            axes = step.op.axis if isinstance(step.op.axis, tuple) else (step.op.axis,)
            new = [a % tensor.rank for a in axes]
            if place in new:
                return False
            place -= sum(a < place for a in new)
        elif isinstance(step.op, StridedSlice):
            items = [
                *step.op.index,
                *[ALL] * (inner.rank - sum(i is not None for i in step.op.index)),
            ]
            kept = [i for i in items if not isinstance(i, int)]
            own = kept[place]
            if not isinstance(own, tuple) or own[1] not in (None, 0) or own[3] not in (None, 1):
                return False
            at_item = [n for n, i in enumerate(items) if not isinstance(i, int)][place]
            place = sum(i is not None for i in items[:at_item])
        elif step.op.name == "reshape":
            others = [d for i, d in enumerate(tensor.shape) if i != place]
            if inner.rank != 1 or any(d != 1 for d in others):
                return False
            place = 0
        elif step.op.name != "cast" or tensor.dtype.itemsize < 4:  # not bool, nor halves
            return False
        value = step.ins[0]
    return False
