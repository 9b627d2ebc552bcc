"""Every array that numpy allocates while a block runs, those that are freed at once included.

tracemalloc tells what is left, or a peak in which Python's own small objects count; numpy's data
handlers (NEP 49) see each request. Ours counts and passes on to numpy's own; what it hands out is
freed by numpy's own code, so nothing of ours is called after the block.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

_SET, _GET = 304, 305
"""Places of PyDataMem_SetHandler and PyDataMem_GetHandler in numpy's table of functions."""
_VOID, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_SIGNATURES = {
    "malloc": (_VOID, _VOID, _SIZE),
    "calloc": (_VOID, _VOID, _SIZE, _SIZE),
    "realloc": (_VOID, _VOID, _VOID, _SIZE),
}


class _Handler(ctypes.Structure):
    """PyDataMem_Handler of numpy/ndarraytypes.h."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("ctx", _VOID),
        ("malloc", _VOID),
        ("calloc", _VOID),
        ("realloc", _VOID),
        ("free", _VOID),
    )


class Allocations:
    """Sizes, in bytes, of the arrays that were asked for."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = _VOID, [ctypes.py_object, ctypes.c_char_p]
        table = ctypes.cast(pointer(capsule, None), ctypes.POINTER(_VOID))
        as_object = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)
        self._set = as_object(table[_SET])
        own = _Handler.from_address(
            pointer(ctypes.PYFUNCTYPE(ctypes.py_object)(table[_GET])(), b"mem_handler")
        )
        self._handler = _Handler(b"counting", own.version, own.ctx, free=own.free)
        self._calls = {
            name: self._counting(signature, getattr(own, name))
            for name, signature in _SIGNATURES.items()
        }
        for name, call in self._calls.items():
            setattr(self._handler, name, ctypes.cast(call, _VOID))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [_VOID, ctypes.c_char_p, _VOID]
        self._capsule = new(ctypes.addressof(self._handler), b"mem_handler", None)

    def _counting(self, signature: tuple[Any, ...], address: int) -> Any:
        """Return a C function that notes the size and calls the one at an address."""
        own = ctypes.PYFUNCTYPE(*signature)(address)  # numpy's expects to hold the GIL
        is_calloc = len(signature) == 4 and signature[2] is _SIZE

        def call(ctx: int, *given: int) -> int:
            self.sizes.append(math.prod(given[-2:]) if is_calloc else given[-1])
            return own(ctx, *given)  # type: ignore[no-any-return]

        return ctypes.CFUNCTYPE(*signature)(call)

    @contextlib.contextmanager
    def counted(self) -> Iterator[Allocations]:
        """Count what this thread allocates."""
        before = self._set(self._capsule)
        try:
            yield self
        finally:
            self._set(before)

    def above(self, bytes_: int = 1000) -> list[int]:
        """Return the sizes above a limit, largest first."""
        return sorted((s for s in self.sizes if s > bytes_), reverse=True)


_KEPT: list[Allocations] = []


def count_allocations() -> Allocations:
    """Return a counter, which lives as long as the process: arrays point to its handler."""
    _KEPT.append(Allocations())
    return _KEPT[-1]
