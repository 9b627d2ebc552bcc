"""A kernel in numpy, value by value: what generated code is compared with."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ops.numerics.summing import add_up
from ..spec.rounding import rounded
from .functions import FUNCTIONS
from .ir import Beyond, Kernel, Store, Value

Array = np.ndarray[Any, Any]

_REDUCERS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def evaluate(
    kernel: Kernel,
    arrays: Sequence[Array],
    shape: Sequence[int],
    outs: Sequence[Sequence[int]] = (),
) -> list[Array]:
    """Return the outputs of a kernel over an index space of ``shape``.

    Inputs and outputs have one axis for each of the space's, of size 1 where they stand still; an
    input may be given in any shape that differs from that by axes of size 1. Outputs of which
    indices name places have the shapes ``outs``.

    Raises IndexError where an index names no place.

    >>> from gradwright.fuse.builder import Builder
    >>> builder, f32 = Builder(1, 1), np.dtype("float32")
    >>> x = builder.load("x", (0,), f32)
    >>> kernel, _ = builder.kernel([(x + x, (0,), "set", f32)])
    >>> evaluate(kernel, [np.array([1.0, 2.0], f32)], (2,))[0].tolist()
    [2.0, 4.0]
    """
    space = tuple(shape)
    found: list[Array] = []
    given = [*arrays, *map(np.empty, outs)]
    with np.errstate(all="ignore"):
        for value in kernel.values:
            found.append(_value(kernel, value, found, given, space))
        return [_stored(kernel, i, found, space, given) for i in range(len(kernel.outputs))]


def _value(
    kernel: Kernel, value: Value, found: list[Array], arrays: list[Array], space: tuple[int, ...]
) -> Array:
    n_rows = kernel.rank - kernel.n_columns
    args = [found[a] for a in value.args]
    match value.op:
        case "load" if args:
            table = _without_ones(np.asarray(arrays[value.extra]))
            return np.asarray(table[_at(kernel, value.extra, args, space)])
        case "load":
            return np.asarray(arrays[value.extra]).reshape(kernel.shape_of(value.extra, space))
        case "place":
            named = value.extra
            axis = kernel.operands[named.operand].named[named.axis]
            return _place(args[0], _without_ones(arrays[named.operand]).shape[axis], named.beyond)
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
            start = nothing(value.extra, value.dtype)
            return np.asarray(reduce(wide, axes, keepdims=True, initial=start), value.dtype)
        case name:
            return np.asarray(FUNCTIONS[name].apply(*args), value.dtype)


def nothing(reduction: str, dtype: np.dtype[Any]) -> Any:
    """Return what a reduction of no columns is."""
    if reduction in ("sum", "prod"):
        return dtype.type(reduction == "prod")
    if dtype.kind == "b":
        return reduction == "min"
    if dtype.kind == "f":
        return -np.inf if reduction == "max" else np.inf
    limits = np.iinfo(dtype)
    return limits.min if reduction == "max" else limits.max


def _without_ones(array: Array) -> Array:
    return array.reshape([n for n in array.shape if n != 1])


def _place(index: Array, n: int, beyond: Beyond) -> Array:
    """Return where an index is along an axis, -1 where it is left out."""
    if beyond is Beyond.LEFT_OUT:
        at = np.maximum(index, -1)
    else:
        at = np.where(index < 0, index + n, index)
    wrong = (at >= n) | ((at < 0) & (beyond is not Beyond.LEFT_OUT))
    if wrong.any():
        raise IndexError(f"index {index[wrong].flat[0]} is out of range for size {n}")
    return np.asarray(at, np.int64)


def _at(kernel: Kernel, number: int, places: list[Array], space: tuple[int, ...]) -> Any:
    """Return what indexes an operand without axes of size 1 over the index space."""
    operand, rank = kernel.operands[number], kernel.rank
    indices = [
        np.arange(space[i]).reshape([-1 if j == i else 1 for j in range(rank)])
        for i, moves in enumerate(operand.moves)
        if moves
    ]
    for axis, place in sorted(zip(operand.named, places, strict=True), key=lambda pair: pair[0]):
        indices.insert(axis, place)
    return tuple(indices)


def _scattered(
    kernel: Kernel, store: Store, found: list[Array], space: tuple[int, ...], y: Array
) -> None:
    """Join a value to what is at its places."""
    over = space[: kernel.rank - kernel.n_columns] if store.by_row else space
    over += (1,) * (kernel.rank - len(over))
    places = [np.broadcast_to(found[p], over) for p in store.places]
    there = functools.reduce(np.logical_and, (p >= 0 for p in places))
    indices = np.broadcast_arrays(*_at(kernel, store.operand, places, over))
    value = np.broadcast_to(found[store.value], over)
    at = tuple(i[there] for i in indices)
    if store.mode == "set":
        _without_ones(y)[at] = value[there]
    else:
        _REDUCERS[store.mode].at(_without_ones(y), at, value[there])


def _stored(
    kernel: Kernel,
    output: int,
    found: list[Array],
    space: tuple[int, ...],
    arrays: Sequence[Array],
) -> Array:
    number = kernel.n_inputs + output
    operand = kernel.operands[number]
    if operand.named:
        (store,) = (s for s in kernel.stores if s.operand == number)
        y = np.empty(arrays[number].shape, operand.dtype)
        y[...] = (
            nothing(store.mode, operand.dtype)
            if store.start is None
            else arrays[store.start].reshape(y.shape)
        )
        _scattered(kernel, store, found, space, y)
        return y
    target = kernel.shape_of(number, space)
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
