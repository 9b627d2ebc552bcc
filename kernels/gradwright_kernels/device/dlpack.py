"""DLPack through ctypes: memory of a device lent to torch, JAX and CuPy, and borrowed from them.

What is lent is held until the other side lets go; so is what is borrowed. Source: the header of
DLPack 0.8, whose capsules are called ``dltensor``, and ``used_dltensor`` once somebody has them.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

from gradwright.errors import DTypeError
from gradwright.spec import TensorSpec, dtype, dtype_name

from .array import DeviceArray

CPU, CUDA = 1, 2
_KINDS = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}
_NEW, _USED = b"dltensor", b"used_dltensor"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_lent: dict[int, Any] = {}
"""What others hold, by the address of what they were given."""
_api = ctypes.pythonapi
_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _api)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_SetName", _api)
)
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _let_go(address: int, lent: dict[int, Any] = _lent) -> None:
    lent.pop(address, None)  # its own: who lets go at the end of Python finds modules empty


def _unused(capsule: int) -> None:
    """Let go of what nobody has taken out of its capsule."""
    if _is_valid(capsule, _NEW):
        _lent.pop(_pointer(capsule, _NEW), None)


_LET_GO, _UNUSED = _Deleter(_let_go), ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_unused)


def lend(array: DeviceArray, device: tuple[int, int]) -> Any:
    """Return a capsule of an array, which is held until who takes it lets go.

    Raises DTypeError for a dtype that DLPack has no name for.
    """
    name, n, size = dtype_name(array.dtype), len(array.shape), array.dtype.itemsize
    kind = "bool" if name == "bool" else name.removesuffix(str(8 * size))
    if kind not in _KINDS:
        raise DTypeError(f"DLPack has no name for {name}", hint="np.asarray(array)")
    numbers = (ctypes.c_int64 * (2 * n + 1))(*array.shape, *(s // size for s in array.strides))
    at = ctypes.addressof(numbers)
    pointer = ctypes.POINTER(ctypes.c_int64)
    shape, strides = (ctypes.cast(at + 8 * skip, pointer) for skip in (0, n))
    tensor = _Tensor(
        array.address, *device, n, _KINDS[kind], 8 * size, 1, shape, strides, 0, None,
        ctypes.cast(_LET_GO, ctypes.c_void_p),
    )  # fmt: skip
    address = ctypes.addressof(tensor)
    _lent[address] = tensor, numbers, array
    return _capsule(address, _NEW, ctypes.cast(_UNUSED, ctypes.c_void_p))


def borrow(capsule: Any) -> DeviceArray:
    """Return what a capsule holds, which is given back when nobody holds the array any more.

    Raises DTypeError for elements that no tensor here has.
    """
    address = _pointer(id(capsule), _NEW)
    tensor = _Tensor.from_address(address)
    kinds = [kind for kind, code in _KINDS.items() if code == tensor.code]
    if not kinds or tensor.lanes != 1:
        raise DTypeError(f"DLPack's type {tensor.code} of {tensor.bits} bits is no dtype here")
    found = dtype("bool" if kinds[0] == "bool" else f"{kinds[0]}{tensor.bits}")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = None
    if tensor.strides:
        strides = tuple(s * found.itemsize for s in tensor.strides[: tensor.ndim])
    _rename(id(capsule), _USED)
    held = _Borrowed(address, tensor.deleter)
    at = (tensor.data or 0) + tensor.byte_offset
    return DeviceArray(at, TensorSpec(shape, found), strides, name="borrowed", held=held)


class _Borrowed:
    """Memory of somebody else."""

    base = None

    def __init__(self, address: int, deleter: int | None) -> None:
        if deleter:
            weakref.finalize(self, _Deleter(deleter), address).atexit = False
