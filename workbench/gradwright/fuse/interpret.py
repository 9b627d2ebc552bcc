"""A kernel in numpy, value by value: what generated code is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ops.numerics.summing import add_up
from ..spec.rounding import rounded
from .functions import FUNCTIONS
from .ir import Kernel, Value

Array = np.ndarray[Any, Any]

_REDUCERS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def evaluate(kernel: Kernel, arrays: Sequence[Array], shape: Sequence[int]) -> list[Array]:
    """Return the outputs of a kernel over an index space of ``shape``.

    Inputs and outputs have one axis for each of the space's, of size 1 where they stand still; an
    input may be given in any shape that differs from that by axes of size 1.

    >>> from gradwright.fuse.builder import Builder
    >>> builder, f32 = Builder(1, 1), np.dtype("float32")
    >>> x = builder.load("x", (0,), f32)
    >>> kernel, _ = builder.kernel([(x + x, (0,), "set", f32)])
    >>> evaluate(kernel, [np.array([1.0, 2.0], f32)], (2,))[0].tolist()
    [2.0, 4.0]
    """
    space = tuple(shape)
    inputs = [np.asarray(a).reshape(kernel.shape_of(i, space)) for i, a in enumerate(arrays)]
    found: list[Array] = []
    with np.errstate(all="ignore"):
        for value in kernel.values:
            found.append(_value(kernel, value, found, inputs, space))
        return [_stored(kernel, i, found, space) for i in range(len(kernel.outputs))]


def _value(
    kernel: Kernel, value: Value, found: list[Array], inputs: list[Array], space: tuple[int, ...]
) -> Array:
    n_rows = kernel.rank - kernel.n_columns
    args = [found[a] for a in value.args]
    match value.op:
        case "load":
            return inputs[int(value.extra)]
        case "const":
            return np.full((1,) * kernel.rank, rounded(value.extra, value.dtype))
        case "column":
            columns = space[n_rows:]
            numbers = np.arange(int(np.prod(columns)), dtype=np.int64)
            return numbers.reshape((1,) * n_rows + columns)
        case "cast":
            return rounded(args[0], value.dtype)
        case "reduce":
            x = args[0]
            wide = np.broadcast_to(x, x.shape[:n_rows] + space[n_rows:])
            axes = tuple(range(n_rows, kernel.rank))
            reduce: Any = _REDUCERS[value.extra].reduce
            start = _start(value.extra, value.dtype)
            return np.asarray(reduce(wide, axes, keepdims=True, initial=start), value.dtype)
        case name:
            return np.asarray(FUNCTIONS[name].apply(*args), value.dtype)


def _start(reduction: str, dtype: np.dtype[Any]) -> Any:
    """Return what a reduction of no columns is."""
    if reduction in ("sum", "prod"):
        return dtype.type(reduction == "prod")
    if dtype.kind == "b":
        return reduction == "min"
    if dtype.kind == "f":
        return -np.inf if reduction == "max" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if reduction == "max" else limits.max


def _stored(kernel: Kernel, output: int, found: list[Array], space: tuple[int, ...]) -> Array:
    number = kernel.n_inputs + output
    operand, target = kernel.operands[number], kernel.shape_of(number, space)
    y = np.zeros(target, operand.dtype)
    for store in kernel.stores:
        if store.operand != number:
            continue
        x = found[store.value]
        if store.mode == "set":
            y[...] = x
            continue
        n_rows = kernel.rank - kernel.n_columns
        over = space if store.mode == "sum" else space[:n_rows] + (1,) * kernel.n_columns
        still = tuple(i for i, moves in enumerate(operand.moves) if not moves)
        y += add_up(np.broadcast_to(x, over), still, keepdims=True)
    return y
