"""The CUDA driver through ctypes: load a cubin, bind its arguments once, launch it.

Triton's own launcher needs a C compiler on the user's machine, and torch in some versions. A plan
knows its arguments in advance, so one driver call with a ready parameter block is all there is left
to do. That call is legal while a stream is being captured into a CUDA graph.
"""

from __future__ import annotations

import ctypes
import types
import weakref
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

import numpy as np

from gradwright.errors import LoweringError
from gradwright.spec import TensorSpec

from ..compile.compiler import Binary, Call, compile_call

_INVALID_CONTEXT = 201
_COMPUTE_CAPABILITY = (75, 76)
_MAX_DYNAMIC_SHARED = 8
_UNASKED_SHARED = 48 * 1024  # more shared memory than this has to be asked for, kernel by kernel
_CELLS: dict[str, Any] = {"i32": c_int32, "i64": c_int64}


class Driver:
    """The first GPU of this machine, seen through ``libcuda``.

    Launches go to ``stream``, a raw stream handle; 0 is the default stream. The context is the
    primary one, shared with CuPy, torch and JAX, so their device pointers are valid here.

    Raises:
        LoweringError: there is no NVIDIA driver, or it sees no GPU.
    """

    def __init__(self, library: str = "libcuda.so.1") -> None:
        try:
            cuda = ctypes.CDLL(library)
        except OSError as error:
            raise LoweringError(
                "device 'cuda' needs an NVIDIA GPU, and this machine has no NVIDIA driver",
                facts=[str(error)],
                hint='device="cpu"',
            ) from error
        u, p = c_uint, c_void_p
        cuda.cuLaunchKernel.argtypes = [p, u, u, u, u, u, u, u, p, p, p]
        cuda.cuModuleLoadData.argtypes = [p, c_char_p]
        cuda.cuModuleGetFunction.argtypes = [p, p, c_char_p]
        cuda.cuMemAlloc_v2.argtypes = [p, c_size_t]
        cuda.cuMemFree_v2.argtypes = [c_uint64]
        self.cuda, self.stream = cuda, 0
        self._context = c_void_p()
        self._functions: dict[Binary, c_void_p] = {}

        count, device, part = c_int(), c_int(), c_int()
        self.call("start the NVIDIA driver", cuda.cuInit, 0)
        self.call("count the GPUs", cuda.cuDeviceGetCount, byref(count))
        if count.value == 0:
            raise LoweringError(
                "device 'cuda' needs an NVIDIA GPU, and the driver sees none",
                hint='device="cpu", or look at CUDA_VISIBLE_DEVICES',
            )
        self.call("open the GPU", cuda.cuDeviceGet, byref(device), 0)
        self.call("open the GPU", cuda.cuDevicePrimaryCtxRetain, byref(self._context), device)
        self.capability = 0
        for attribute in _COMPUTE_CAPABILITY:  # 9 and 0 make 90
            self.call("identify the GPU", cuda.cuDeviceGetAttribute, byref(part), attribute, device)
            self.capability = 10 * self.capability + part.value

    def call(self, what: str, function: Callable[..., int], *args: Any) -> None:
        """Call a driver function; ``what`` says in the error message what did not work."""
        code = function(*args)
        if code == _INVALID_CONTEXT:  # the first call of a thread: contexts are per thread
            self.cuda.cuCtxSetCurrent(self._context)
            code = function(*args)
        if code:
            text = c_char_p()
            self.cuda.cuGetErrorString(code, byref(text))
            reason = (text.value or b"unknown error").decode(errors="replace")
            raise LoweringError(f"cannot {what}: {reason} (CUDA driver error {code})")

    def prepare(self, call: Call) -> Launcher:
        """Compile the call for this GPU and load it."""
        binary = compile_call(call, self.capability)
        if binary not in self._functions:
            self._functions[binary] = self._load(binary)
        return Launcher(self, call, binary, self._functions[binary])

    def workspace(self, spec: TensorSpec) -> DeviceArray:
        """Return memory for what one kernel leaves to the next; freed with the last reference."""
        address, what = c_uint64(), f"allocate {spec.nbytes} bytes of GPU memory"
        self.call(what, self.cuda.cuMemAlloc_v2, byref(address), spec.nbytes)
        array = DeviceArray(address.value, spec)
        free = ("free GPU memory", self.cuda.cuMemFree_v2, address.value)
        weakref.finalize(array, self.call, *free).atexit = False
        return array

    def _load(self, binary: Binary) -> c_void_p:
        module, function, cuda = c_void_p(), c_void_p(), self.cuda
        what = f"load {binary.name}"
        self.call(what, cuda.cuModuleLoadData, byref(module), binary.cubin)
        self.call(what, cuda.cuModuleGetFunction, byref(function), module, binary.name.encode())
        if binary.shared_bytes > _UNASKED_SHARED:
            what = f"give {binary.name} {binary.shared_bytes} bytes of shared memory"
            self.call(
                what, cuda.cuFuncSetAttribute, function, _MAX_DYNAMIC_SHARED, binary.shared_bytes
            )
        return function


class DeviceArray:
    """Contiguous memory on the GPU, described as ``__cuda_array_interface__`` does."""

    flags = types.SimpleNamespace(c_contiguous=True)

    def __init__(self, address: int, spec: TensorSpec) -> None:
        self.dtype = spec.dtype
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": spec.shape,
            "typestr": spec.dtype.str,
            "version": 3,
        }


class Launcher:
    """A loaded kernel and its parameter block; called with device arrays in the kernel's order.

    Addresses are read and checked when the arrays change, so a plan that passes the same buffers
    again pays for the driver call only. For one thread at a time, like the plan it belongs to.
    """

    def __init__(self, driver: Driver, call: Call, binary: Binary, function: c_void_p) -> None:
        self._driver, self._call, self._what = driver, call, f"launch {binary.name}"
        self._start = driver.cuda.cuLaunchKernel
        cells = [_CELLS.get(t, c_uint64)(0) for t in binary.types]
        self._pointers = []
        for cell, value in zip(cells, call.runtime_values(), strict=True):
            if isinstance(value, np.dtype):
                self._pointers.append(cell)
            else:
                cell.value = value
        self._cells = [*cells, c_uint64(0), c_uint64(0)]  # the last two: scratch, never used
        block = (c_void_p * len(self._cells))(*map(ctypes.addressof, self._cells))
        shape = (*call.grid, binary.threads, 1, 1, binary.shared_bytes)
        self._before, self._after = (function, *shape), (block, None)
        self._arrays: tuple[Any, ...] = ()
        self._ids: tuple[int, ...] = ()

    def __call__(self, *arrays: Any) -> None:
        """Start the kernel on the driver's stream."""
        if tuple(map(id, arrays)) != self._ids:
            self._bind(arrays)
        args = *self._before, self._driver.stream, *self._after
        if self._start(*args):  # asked again, with a context and with words for what is wrong
            self._driver.call(self._what, self._start, *args)

    def _bind(self, arrays: tuple[Any, ...]) -> None:
        self._call.check(arrays)
        addresses = [array.__cuda_array_interface__["data"][0] for array in arrays]
        for (name, _), address in zip(self._call.pointers, addresses, strict=True):
            if address % 16:
                raise LoweringError(
                    f"cannot {self._what}: {name} is misaligned",
                    facts=[f"address {address:#x}"],
                    need="a multiple of 16 bytes, as loads are up to 16 bytes wide",
                )
        for cell, address in zip(self._pointers, addresses, strict=True):
            cell.value = address
        self._arrays, self._ids = arrays, tuple(map(id, arrays))  # held: ids are not given again
