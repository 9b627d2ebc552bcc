"""Element types of ONNX and dtypes, and tensors of ONNX as arrays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArchiveError, DTypeError
from ...spec import dtype as as_dtype
from ...spec import dtype_name

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


def to_array(tensor: TensorProto, folder: Path | None) -> Array:
    """Return a stored tensor; external data comes from ``folder``, the model's own.

    Raises ArchiveError where the data does not fit, lies outside, or is of a type without dtype.
    """
    from onnx import numpy_helper

    where = f"tensor {tensor.name[:60]!r}"
    try:
        d = from_element_type(tensor.data_type)
        if any(n < 0 for n in tensor.dims):
            raise ArchiveError(f"its shape is {tuple(tensor.dims)}")
        if tensor.data_location == tensor.EXTERNAL:
            tensor = _with_external_data(tensor, folder)
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
    return array.astype(d, copy=False)


def _with_external_data(tensor: TensorProto, folder: Path | None) -> TensorProto:
    """Return the tensor with its bytes, read from a plain file inside the model's folder."""
    from onnx import TensorProto

    entries = {e.key: e.value for e in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ArchiveError(
            f"its data is in the file {location[:60]!r}", hint="load the model by its path"
        )
    root = folder.resolve()
    path = (root / location).resolve()
    if not location or root not in path.parents or not path.is_file():
        raise ArchiveError(
            f"its data would be in {location[:60]!r}", need="a file in the folder of the model"
        )
    offset, length = (_whole(entries.get(key, ""), key) for key in ("offset", "length"))
    size = path.stat().st_size
    length = size - offset if "length" not in entries else length
    if length < 0 or offset + length > size:
        raise ArchiveError(
            f"its data would be bytes {offset:,} to {offset + length:,} of {location[:60]!r}",
            need=f"at most {size:,}",
        )
    with path.open("rb") as file:
        file.seek(offset)
        data = file.read(length)
    return TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data)


def _whole(text: str, key: str) -> int:
    if text and not (text.isdecimal() and len(text) < 20):
        raise ArchiveError(f"its {key} is {text[:60]!r}", need="a whole number")
    return int(text or 0)


def to_dense(sparse: SparseTensorProto, folder: Path | None) -> Array:
    """Return a tensor stored by its elements that are not zero."""
    values = to_array(sparse.values, folder)
    indices = to_array(sparse.indices, folder)
    shape = tuple(sparse.dims)
    try:
        dense = np.zeros(shape, values.dtype)
        if indices.ndim == 2:
            dense[tuple(indices.T)] = values
        else:
            dense.reshape(-1)[indices] = values
    except (ValueError, IndexError, MemoryError) as error:
        raise ArchiveError(f"a sparse tensor does not fit: {error}") from None
    return dense
