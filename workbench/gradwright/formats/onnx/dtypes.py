"""Element types of ONNX and dtypes, and tensors of ONNX as arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArchiveError, DTypeError, MemoryLimitError
from ...shared import default_bytes
from ...spec import dtype as as_dtype
from ...spec import dtype_name
from .external.reading import Beside

if TYPE_CHECKING:
    from onnx import SparseTensorProto, TensorProto

Array = np.ndarray[Any, Any]

ELEMENT_TYPES: dict[int, str] = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    8: "str", 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
    14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz",
    21: "uint4", 22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip
"""Number of ``TensorProto.DataType`` -> name of the dtype."""
NARROW = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}
"""Dtypes whose elements share bytes where they are stored -> bits."""
_NUMBERS = {name: number for number, name in ELEMENT_TYPES.items()}


def from_element_type(number: int) -> np.dtype[Any]:
    """Return the dtype of an element type.

    >>> from gradwright.formats.onnx.dtypes import from_element_type
    >>> from_element_type(7)
    dtype('int64')
    """
    if number not in ELEMENT_TYPES:
        raise ArchiveError(f"element type {number} is not known")
    return as_dtype(ELEMENT_TYPES[number])


def element_type(d: np.dtype[Any]) -> int:
    """Return the element type of a dtype."""
    number = _NUMBERS.get(dtype_name(d))
    if number is None:
        raise DTypeError(f"ONNX has no {dtype_name(d)}", hint="gw.cast to one that it has")
    return number


def to_array(tensor: TensorProto, beside: Beside) -> Array:
    """Return a stored tensor, which nobody writes: external data is mapped, and read when used.

    Raises ArchiveError where the data does not fit, lies outside, or is of a type without dtype.
    """
    from onnx import numpy_helper

    where = f"tensor {tensor.name[:60]!r}"
    try:
        d = from_element_type(tensor.data_type)
        if any(n < 0 for n in tensor.dims):
            raise ArchiveError(f"its shape is {tuple(tensor.dims)}")
        if tensor.data_location == tensor.EXTERNAL:
            return _external(tensor, d, beside)
        array = np.asarray(numpy_helper.to_array(tensor))
    except ArchiveError as error:
        error.where = error.where or where
        raise
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise ArchiveError(f"its data does not fit: {error}", where=where) from None
    if tensor.data_type == tensor.STRING:
        return np.array(
            [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in array.flat], d
        ).reshape(array.shape)
    return _usable(array.astype(d, copy=False))


def _external(tensor: TensorProto, d: np.dtype[Any], beside: Beside) -> Array:
    """Return a tensor whose bytes lie in a file beside the model."""
    from onnx import TensorProto, numpy_helper

    if d.kind == "T":
        raise ArchiveError("text cannot lie outside of a model")
    data = beside.data({e.key: e.value for e in tensor.external_data}, stored_bytes(tensor.dims, d))
    if dtype_name(d) in NARROW:
        held = TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data.tobytes())
        return np.asarray(numpy_helper.to_array(held)).astype(d, copy=False)
    return _usable(np.ndarray(tuple(tensor.dims), d, data))


def _usable(array: Array) -> Array:
    """Return an array that kernels can read: bools are 0 or 1, and elements aligned."""
    if array.dtype == bool:
        return np.asarray(array.view(np.uint8) != 0)
    return array if array.flags.aligned else array.copy()


def stored_bytes(dims: Sequence[int], d: np.dtype[Any]) -> int:
    """Return how many bytes a tensor has where it is stored; no file has more than 2^63."""
    nbytes = -(-math.prod(dims) * NARROW.get(dtype_name(d), 8 * d.itemsize) // 8)
    if not 0 <= nbytes < 1 << 63:
        raise ArchiveError("its shape is that of no stored tensor", facts=[str(tuple(dims))[:60]])
    return nbytes


def to_dense(sparse: SparseTensorProto, beside: Beside) -> Array:
    """Return a tensor stored by its elements that are not zero.

    Raises MemoryLimitError where it would take more than a quarter of the memory.
    """
    values, indices = to_array(sparse.values, beside), to_array(sparse.indices, beside)
    shape, where = tuple(sparse.dims), f"tensor {sparse.values.name[:60]!r}"
    nbytes = stored_bytes(shape, values.dtype)
    if nbytes > default_bytes():
        raise MemoryLimitError(
            f"a sparse tensor would have {nbytes:,} bytes", where=where,
            need=f"{default_bytes():,} at most",
        )  # fmt: skip
    try:
        if indices.dtype != np.int64 or values.ndim != 1:
            raise ValueError(f"values {values.shape}, indices {indices.dtype}{indices.shape}")
        if indices.ndim == 2:
            indices = np.ravel_multi_index(tuple(indices.T), shape)
        if indices.shape != values.shape or indices.min(initial=0) < 0:
            raise ValueError(f"{values.size:,} values at {indices.shape} places")
        dense = np.zeros(shape, values.dtype)
        dense.reshape(-1)[indices] = values
    except (ValueError, IndexError, OverflowError, MemoryError) as error:
        raise ArchiveError(f"a sparse tensor does not fit: {error}", where=where) from None
    return dense


def constant_array(attributes: Mapping[str, Any]) -> Array:
    """Return the array of a Constant node, whatever attribute holds it."""
    if len(attributes) != 1:
        raise ArchiveError("a Constant has one attribute", need=f"one, got {len(attributes)}")
    ((key, value),) = attributes.items()
    dtypes = {
        "value_float": "float32", "value_floats": "float32", "value_int": "int64",
        "value_ints": "int64", "value_string": "str", "value_strings": "str",
    }  # fmt: skip
    if key == "value":
        return np.asarray(value)
    if key == "sparse_value":
        return np.asarray(value)
    if key not in dtypes:
        raise ArchiveError(f"a Constant has no attribute {key[:60]!r}")
    return np.array(value, as_dtype(dtypes[key]))
