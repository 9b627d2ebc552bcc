"""What goes into a session of ONNX Runtime and comes out of it: types, shapes, and values."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ....errors import DTypeError, FeedError, GradwrightError
from ....graph import coerce
from ....spec import AnyDim, Dim, TensorSpec, dtype_name
from ....spec import dtype as as_dtype
from ..dtypes import ELEMENT_TYPES, element_type

if TYPE_CHECKING:
    from onnxruntime import OrtValue

Array = np.ndarray[Any, Any]
Kind = Literal["tensor", "sequence", "map", "optional"]
_KINDS: dict[str, Kind] = {"tensor": "tensor", "seq": "sequence", "optional": "optional"}


@dataclass(frozen=True)
class ValueInfo:
    """An input or output: a tensor, a sequence of tensors or of maps, a map, or an optional."""

    name: str
    kind: Kind
    dtype: np.dtype[Any]
    """Of its numbers, or of the values of a map."""
    shape: tuple[AnyDim, ...] | None
    """Sizes and symbols; None where none are stated: it is no tensor, 0-d, or of any rank."""
    type: str
    """As ONNX writes it: ``tensor(float)``, ``seq(map(int64,tensor(float)))``."""
    is_optional: bool = False
    """Whether the model has a value of its own for it."""

    @property
    def spec(self) -> TensorSpec | None:
        """Dtype and shape as a spec; None where no shape is stated."""
        return None if self.shape is None else TensorSpec(self.shape, self.dtype)

    def __str__(self) -> str:
        return self.type if self.spec is None else str(self.spec)

    def __repr__(self) -> str:
        return f"<{self.name!r}: {self}>"


@functools.cache
def _dtype_names() -> dict[str, str]:
    """Return dtypes by what types call them, such as ``double``."""
    from onnx import TensorProto

    return {TensorProto.DataType.Name(n).lower(): name for n, name in ELEMENT_TYPES.items()}


def value_info(arg: Any, *, is_optional: bool = False) -> ValueInfo:
    """Return what ONNX Runtime says of an input or output."""
    words = re.findall(r"\w+", arg.type)
    kind: Kind = "map" if words[0] == "map" else _KINDS.get(words[0], "tensor")
    dtype = as_dtype(_dtype_names().get(words[-1], words[-1]))
    shape = None
    if kind == "tensor" and arg.shape:  # [] stands for no axes and for any
        sizes = enumerate(arg.shape)
        shape = tuple(s if isinstance(s, int) else _symbol(s, arg.name, i) for i, s in sizes)
    return ValueInfo(arg.name, kind, dtype, shape, arg.type, is_optional)


def _symbol(text: str | None, name: str, axis: int) -> Dim:
    symbol = re.sub(r"\W", "_", text or f"{name}_{axis}", flags=re.ASCII)
    return Dim.symbol(symbol if symbol.isidentifier() else f"_{symbol}")


# -- in --------------------------------------------------------------------------------------------


def is_ortvalue(value: Any) -> bool:
    """Tell whether a value is ONNX Runtime's own."""
    return hasattr(value, "data_ptr") and hasattr(value, "is_tensor_sequence")


def as_ortvalue(info: ValueInfo, value: Any) -> OrtValue:
    """Return what is fed to a tensor as ONNX Runtime's value, on the same memory where it fits.

    That is so for an ``OrtValue``, for what has ``__dlpack__``, such as a tensor of torch, and for
    contiguous arrays of the input's dtype.
    """
    from onnxruntime import OrtValue

    if is_ortvalue(value):
        check(info, value.shape(), ortvalue_dtype(value))
        return value
    if not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__"):
        try:
            made = OrtValue.from_dlpack(value)
        except Exception:  # such as strides, or a tensor that needs its gradient
            made = None
        if made is not None:
            check(info, made.shape(), ortvalue_dtype(made))
            return made
    return of_array(as_array(info, value))


def of_array(array: Array) -> OrtValue:
    """Return an array as ONNX Runtime's value, on the same memory if it is contiguous.

    It is lent: the value keeps the array, whoever writes into one writes into the other.
    """
    from onnxruntime import OrtValue

    array = array if array.flags.c_contiguous else np.ascontiguousarray(array)
    if array.dtype.isbuiltin == 1:  # others are of ml_dtypes, which ONNX Runtime does not know
        return OrtValue.ortvalue_from_numpy(array)
    if dtype_name(array.dtype).startswith(("int", "uint", "float4")):
        raise DTypeError(
            f"ONNX Runtime packs {dtype_name(array.dtype)}, two or four in a byte",
            hint="store it in the model as an initializer",
        )
    raw = array.view({1: np.uint8, 2: np.uint16}[array.dtype.itemsize])
    return OrtValue.ortvalue_from_numpy_with_onnx_type(raw, element_type(array.dtype))


def as_array(info: ValueInfo, value: Any) -> Array:
    """Return what is fed to a tensor as an array of its dtype, by the rules of ``Session.run``."""
    try:
        array = np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise FeedError(
            f"input {info.name!r} is fed with no array: {error}", need=str(info)
        ) from None
    if array.dtype != info.dtype:
        try:
            array = coerce(array, TensorSpec(array.shape, info.dtype), f"input {info.name!r}")
        except DTypeError as error:
            raise FeedError(error.problem, need=str(info), hint=error.hint) from None
    check(info, array.shape, array.dtype)
    return array


def as_plain(info: ValueInfo, value: Any) -> Any:
    """Return what is fed as what ``InferenceSession.run`` takes: arrays, lists, dicts."""
    if info.kind == "tensor":
        array = as_array(info, to_array(value) if is_ortvalue(value) else value)
        return array.astype(object) if array.dtype.kind == "T" else array
    if info.kind == "map":
        if not isinstance(value, Mapping):
            raise _other(info, value, "a dict")
        return dict(value)
    if info.kind == "sequence":
        if not isinstance(value, list | tuple):
            raise _other(info, value, "a list")
        if "map(" in info.type:
            return [dict(item) for item in value]
        item = ValueInfo(info.name, "tensor", info.dtype, None, info.type)
        return [as_plain(item, v) for v in value]
    return None if value is None else as_plain(_element(info), value)


def _element(info: ValueInfo) -> ValueInfo:
    inner = info.type.removeprefix("optional(")[:-1]
    kind: Kind = "sequence" if inner.startswith("seq") else "tensor"
    return ValueInfo(info.name, kind, info.dtype, None, inner)


def _other(info: ValueInfo, value: Any, need: str) -> FeedError:
    return FeedError(
        f"input {info.name!r} is fed with a {type(value).__name__}", need=f"{need}, {info}"
    )


def check(info: ValueInfo, shape: Sequence[int], dtype: np.dtype[Any], what: str = "input") -> None:
    """Raise FeedError where memory of this shape and dtype cannot be an input or output."""
    wrong = ""
    if dtype != info.dtype:
        wrong = f"is {dtype_name(info.dtype)} and is lent {dtype_name(dtype)}"
    elif info.shape is not None and len(shape) != len(info.shape):
        wrong = f"has rank {len(info.shape)} and is lent rank {len(shape)}"
    elif info.shape is not None:
        for axis, (stated, size) in enumerate(zip(info.shape, shape, strict=True)):
            if not isinstance(stated, Dim) and stated != size:
                wrong = wrong or f"is lent size {size} on axis {axis}"
    if wrong:
        got = f"got {dtype_name(dtype)}{list(shape)}"
        raise FeedError(f"{what} {info.name!r} {wrong}", need=str(info), facts=[got])


def ortvalue_dtype(value: Any) -> np.dtype[Any]:
    """Return the dtype of a tensor of ONNX Runtime."""
    word = re.findall(r"\w+", value.data_type())[-1]
    return as_dtype(_dtype_names().get(word, word))


# -- out -------------------------------------------------------------------------------------------


def to_array(value: OrtValue) -> Array:
    """Return a tensor of ONNX Runtime as an array on the same memory; from a device, a copy."""
    try:
        dtype = ortvalue_dtype(value)
    except GradwrightError:
        return np.asarray(value.numpy())
    if dtype.isbuiltin == 1 or value.device_name() != "cpu":
        return np.asarray(value.numpy())
    shape = tuple(value.shape())
    raw = {1: ctypes.c_uint8, 2: ctypes.c_uint16}[dtype.itemsize]
    n = int(np.prod(shape, dtype=np.int64))
    if not n:
        return np.empty(shape, dtype)
    block: Any = (raw * n).from_address(value.data_ptr())
    block.owner = value  # whose memory it is
    return np.ctypeslib.as_array(block).view(dtype).reshape(shape)


def to_plain(info: ValueInfo, value: Any) -> Any:
    """Return a result of ``InferenceSession.run`` as ours: text as text, not as objects."""
    if info.kind == "tensor" and isinstance(value, np.ndarray) and value.dtype == object:
        return value.astype(info.dtype)
    return value
