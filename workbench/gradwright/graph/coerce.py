"""What the user gives becomes an array of a spec: numbers, text, sequences, optionals."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..errors import DTypeError, ShapeError
from ..spec import BOXED, Dim, TensorSpec, dtype, dtype_name, kind, spec_of
from ..spec.containers import (
    ContainerSpec,
    OptionalSpec,
    SequenceSpec,
    box,
    box_sequence,
    to_python,
)
from ..spec.rounding import rounded

Array = np.ndarray[Any, Any]


def coerce(value: Any, spec: TensorSpec, label: str) -> Array:
    """Return ``value`` as an array of ``spec``; converts to floats from floats and ints only.

    A list becomes a sequence, None an optional that holds nothing.
    """
    if isinstance(spec, ContainerSpec):
        return _boxed(value, spec, label)
    array = np.asarray(value)
    if kind(spec.dtype) == "s":
        array = _text(array, spec, label)
    if array.dtype != spec.dtype:
        if array.dtype == object or array.dtype.kind in "SUmM":
            raise DTypeError(f"{label} cannot hold {array.dtype}", need=str(spec))
        allowed = {"b": "b", "i": "bui", "u": "bui", "f": "buif", "c": "buifc"}[kind(spec.dtype)]
        foreign = array.dtype.isbuiltin == 2  # of ml_dtypes, which numpy calls V
        came = kind(dtype(array.dtype)) if foreign else array.dtype.kind
        if came not in allowed:
            raise DTypeError(
                f"{label} is {dtype_name(spec.dtype)} and cannot take {array.dtype}",
                need=str(spec),
                hint=f"array.astype({dtype_name(spec.dtype)!r})",
            )
        array = _cast(array, spec.dtype, label)
    if array.shape != spec.shape:
        raise ShapeError(f"{label} has another shape", need=str(spec), facts=[f"got {array.shape}"])
    return array


def _boxed(value: Any, spec: ContainerSpec, label: str) -> Array:
    """Return the value of a container, made of items that nobody else has."""
    if isinstance(value, np.ndarray) and value.dtype == BOXED and not value.ndim:
        value = to_python(value)
    if isinstance(spec, OptionalSpec):
        if value is None:
            return box(spec, ())
        inner = _item(value, spec.element, label)
        return box(OptionalSpec(spec_of(inner)), (inner,))
    if not isinstance(value, (list, tuple)) or not isinstance(spec, SequenceSpec):
        raise DTypeError(
            f"{label} is no list but {type(value).__name__}", need=str(spec), hint="[a, b, ...]"
        )
    shape = spec.item_shape
    items = []
    for i, v in enumerate(value):
        stated = np.shape(v) if shape is None else shape
        items.append(_item(v, TensorSpec(stated, spec.item_dtype), f"item {i} of {label}"))
    return box_sequence(items, spec)


def _item(value: Any, spec: TensorSpec, label: str) -> Array:
    if isinstance(spec, ContainerSpec):
        return _boxed(value, spec, label)
    array = np.asarray(value)
    if array.ndim != spec.rank or any(
        d != n for d, n in zip(spec.shape, array.shape, strict=True) if not isinstance(d, Dim)
    ):
        raise ShapeError(f"{label} has another shape", need=str(spec), facts=[f"got {array.shape}"])
    return coerce(array, TensorSpec(array.shape, spec.dtype), label).copy()


def _text(array: Array, spec: TensorSpec, label: str) -> Array:
    """Return text of any kind that numpy has; a list of str comes as one of its widths."""
    if not array.size or (array.dtype.kind == "O" and all(isinstance(v, str) for v in array.flat)):
        return array.astype(spec.dtype)  # [] is of no type, and float64 to numpy
    if array.dtype.kind not in "UT" or getattr(array.dtype, "na_object", None) is not None:
        raise DTypeError(f"{label} cannot hold {array.dtype}", need=f"text, {spec}")
    return array.astype(spec.dtype, copy=False)


def _cast(array: Array, target: np.dtype[Any], label: str) -> Array:
    check_range(array, target, f"{label}: values do")
    return rounded(array, target)


def check_range(array: Array, target: np.dtype[Any], what: str) -> None:
    """Refuse numbers that an integer dtype does not hold: a cast would wrap them silently."""
    if kind(target) in "iu" and array.size:
        limits = ml_dtypes.iinfo(target)  # type: ignore[no-untyped-call]
        if not (limits.min <= array.min() and array.max() <= limits.max):
            raise DTypeError(
                f"{what} not fit into {dtype_name(target)}", need=f"{limits.min} to {limits.max}"
            )
