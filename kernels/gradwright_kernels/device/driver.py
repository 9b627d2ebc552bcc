"""The CUDA driver through ctypes: 31 calls of ``libcuda``, no compiler and no other library.

Triton's own launcher needs a C compiler on the user's machine, and torch in some versions. A plan
knows its arguments in advance, so one driver call with a ready parameter block is all there is left
to do. That call is legal while a stream is being captured into a CUDA graph.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from gradwright.errors import LoweringError

from ..compile.compiler import Binary, Call, compile_call
from .cuda import Function, Launch

LIBRARY = "libcuda.so.1"
_OUT_OF_MEMORY, _INVALID_CONTEXT = 2, 201
_OF_KERNELS = range(700, 720)
"""Errors of a kernel, told to who waits next: illegal addresses, timeouts, traps."""
_WHOSE = (
    'a new process; Session(check="replay") waits after each op and names it, and device="cuda-sim"'
    " looks at each access"
)
_COMPUTE_CAPABILITY = (75, 76)
_MAX_DYNAMIC_SHARED = 8
_UNASKED_SHARED = 48 * 1024  # more shared memory than this has to be asked for, kernel by kernel
_NON_BLOCKING, _NO_TIMING = 1, 2
_PORTABLE = 1  # memory of the host for the contexts of all GPUs
_RELAXED = 2  # arrays may die, and other threads allocate, while a graph is being kept

_U, _P, _N, _D = c_uint, c_void_p, c_size_t, c_uint64
SIGNATURES: dict[str, list[Any]] = {
    "cuInit": [_U],
    "cuGetErrorString": [c_int, _P],
    "cuDeviceGetCount": [_P],
    "cuDeviceGet": [_P, c_int],
    "cuDeviceGetAttribute": [_P, c_int, c_int],
    "cuDevicePrimaryCtxRetain": [_P, c_int],
    "cuDevicePrimaryCtxRelease_v2": [c_int],
    "cuCtxSetCurrent": [_P],
    "cuMemGetInfo_v2": [_P, _P],
    "cuMemAlloc_v2": [_P, _N],
    "cuMemFree_v2": [_D],
    "cuMemcpyHtoDAsync_v2": [_D, _P, _N, _P],
    "cuMemcpyDtoHAsync_v2": [_P, _D, _N, _P],
    "cuMemcpyDtoDAsync_v2": [_D, _D, _N, _P],
    "cuMemHostAlloc": [_P, _N, _U],
    "cuMemFreeHost": [_P],
    "cuStreamCreate": [_P, _U],
    "cuStreamSynchronize": [_P],
    "cuStreamWaitEvent": [_P, _P, _U],
    "cuEventCreate": [_P, _U],
    "cuEventRecord": [_P, _P],
    "cuStreamBeginCapture_v2": [_P, _U],
    "cuStreamEndCapture": [_P, _P],
    "cuGraphInstantiateWithFlags": [_P, _P, _D],
    "cuGraphLaunch": [_P, _P],
    "cuGraphExecDestroy": [_P],
    "cuGraphDestroy": [_P],
    "cuModuleLoadData": [_P, c_char_p],
    "cuModuleGetFunction": [_P, _P, c_char_p],
    "cuFuncSetAttribute": [_P, c_int, c_int],
    "cuLaunchKernel": [_P, _U, _U, _U, _U, _U, _U, _U, _P, _P, _P],
}
"""The calls that are made, and what each takes; all return a code, 0 where it worked."""


class Driver:
    """A GPU of this machine, seen through ``libcuda``; see :class:`.cuda.Cuda`.

    The context is the primary one, shared with CuPy, torch and JAX, so their device pointers are
    valid here. Calls of a thread go to the context that it has set; with several GPUs it is set
    before each call, since nobody knows who else has set one.

    Raises:
        LoweringError: there is no NVIDIA driver, or it sees no such GPU.
    """

    is_checked = False

    def __init__(self, ordinal: int = 0, library: str = LIBRARY) -> None:
        try:
            self.library = ctypes.CDLL(library)
        except OSError as error:
            raise LoweringError(
                "device 'cuda' needs an NVIDIA GPU, and this machine has no NVIDIA driver",
                facts=[str(error)],
                hint='device="cpu", or device="cuda-sim", which interprets the kernels',
            ) from error
        self.lock, self.ordinal = threading.RLock(), ordinal
        self._context = c_void_p()
        self._functions: dict[Binary, int] = {}
        count, device, part = c_int(), c_int(), c_int()
        self.count = 0
        """How many GPUs the machine has."""
        self.call("start the NVIDIA driver", "cuInit", 0)
        self.call("count the GPUs", "cuDeviceGetCount", byref(count))
        if count.value == 0:
            raise LoweringError(
                "device 'cuda' needs an NVIDIA GPU, and the driver sees none",
                hint='device="cpu", or look at CUDA_VISIBLE_DEVICES',
            )
        if ordinal >= count.value:
            names = ", ".join(repr(f"cuda:{n}") for n in range(count.value))
            raise LoweringError(
                f"device 'cuda:{ordinal}' is none that the driver sees", need=f"one of {names}"
            )
        self.call("open the GPU", "cuDeviceGet", byref(device), ordinal)
        self.call("open the GPU", "cuDevicePrimaryCtxRetain", byref(self._context), device)
        weakref.finalize(self, self.library.cuDevicePrimaryCtxRelease_v2, device).atexit = False
        self.count = count.value
        self.capability = 0
        for attribute in _COMPUTE_CAPABILITY:  # 9 and 0 make 90
            self.call("identify the GPU", "cuDeviceGetAttribute", byref(part), attribute, device)
            self.capability = 10 * self.capability + part.value

    def call(self, what: str, name: str, *args: Any) -> None:
        """Call a driver function; ``what`` says in the error message what did not work."""
        function = getattr(self.library, name)
        if function.argtypes is None:
            function.argtypes = SIGNATURES[name]
        if self.count > 1:
            self.library.cuCtxSetCurrent(self._context)
        code = function(*args)
        if code == _INVALID_CONTEXT:  # the first call of a thread: contexts are per thread
            self.library.cuCtxSetCurrent(self._context)
            code = function(*args)
        if code:
            text = c_char_p()
            self.library.cuGetErrorString(code, byref(text))
            reason = (text.value or b"unknown error").decode(errors="replace")
            said = f"cannot {what}: {reason} (CUDA driver error {code})"
            if code == _OUT_OF_MEMORY:
                raise MemoryError(said)
            raise LoweringError(said, hint=_WHOSE if code in _OF_KERNELS else "")

    # -- memory ----------------------------------------------------------------------------------

    def memory(self) -> tuple[int, int]:
        """Return how many bytes are free, and how many there are."""
        free, total = c_size_t(), c_size_t()
        self.call("look at the GPU's memory", "cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory, a multiple of 256; raises MemoryError."""
        address, what = c_uint64(), f"allocate {nbytes:,} bytes of GPU memory"
        self.call(what, "cuMemAlloc_v2", byref(address), max(nbytes, 1))
        return address.value

    def free(self, address: int) -> None:
        """Give memory back; nothing that runs may use it."""
        self.call("free GPU memory", "cuMemFree_v2", address)

    def copy_in(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy from the host; the source stays as it is until that is done."""
        self.call("copy to the GPU", "cuMemcpyHtoDAsync_v2", to, source, nbytes, stream)

    def copy_out(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy to the host, which reads it when it has waited."""
        self.call("copy from the GPU", "cuMemcpyDtoHAsync_v2", to, source, nbytes, stream)

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy within the device."""
        self.call("copy on the GPU", "cuMemcpyDtoDAsync_v2", to, source, nbytes, stream)

    def forget(self, address: int, nbytes: int, stream: int) -> None:
        """Do nothing: no GPU looks at what is read."""

    def host_memory(self, nbytes: int) -> int:
        """Return the address of memory of the host that copies go to and from at full speed."""
        address, what = c_void_p(), f"pin {nbytes:,} bytes of the host's memory"
        self.call(what, "cuMemHostAlloc", byref(address), max(nbytes, 1), _PORTABLE)
        return address.value or 0

    def free_host_memory(self, address: int) -> None:
        """Give memory of the host back."""
        self.call("free pinned memory", "cuMemFreeHost", address)

    # -- streams and events ----------------------------------------------------------------------

    def make_stream(self) -> int:
        """Return a stream that runs beside the default one."""
        return self._made("make a stream", "cuStreamCreate", _NON_BLOCKING)

    def wait(self, stream: int) -> None:
        """Wait until all is done that the stream was given."""
        self.call("wait for the GPU", "cuStreamSynchronize", stream)

    def make_event(self) -> int:
        """Return an event, which marks a point in a stream."""
        return self._made("make an event", "cuEventCreate", _NO_TIMING)

    def record(self, event: int, stream: int) -> None:
        """Let an event be what the stream was given last."""
        self.call("record an event", "cuEventRecord", event, stream)

    def wait_event(self, stream: int, event: int) -> None:
        """Let a stream go on only when an event is past."""
        self.call("wait for an event", "cuStreamWaitEvent", stream, event, 0)

    def _made(self, what: str, name: str, flags: int) -> int:
        handle = c_void_p()
        self.call(what, name, byref(handle), flags)
        return handle.value or 0

    # -- graphs ----------------------------------------------------------------------------------

    def begin_graph(self, stream: int) -> None:
        """Have a stream keep what it is given from now on, instead of doing it."""
        self.call("begin a graph", "cuStreamBeginCapture_v2", stream, _RELAXED)

    def end_graph(self, stream: int) -> int:
        """Return what a stream has been given as a graph, and have it work again."""
        kept, ready = c_void_p(), c_void_p()
        self.call("end a graph", "cuStreamEndCapture", stream, byref(kept))
        try:
            self.call("prepare a graph", "cuGraphInstantiateWithFlags", byref(ready), kept, 0)
        finally:
            self.call("forget a graph", "cuGraphDestroy", kept)
        return ready.value or 0

    def launch_graph(self, graph: int, stream: int) -> None:
        """Do all of a graph, in its order, with the addresses that it was made with."""
        self.call("launch a graph", "cuGraphLaunch", graph, stream)

    def free_graph(self, graph: int) -> None:
        """Forget a graph."""
        self.call("forget a graph", "cuGraphExecDestroy", graph)

    # -- kernels ---------------------------------------------------------------------------------

    def load(self, call: Call) -> Function:
        """Return a kernel, compiled for this GPU and loaded; equal ones are loaded once."""
        binary = compile_call(call, self.capability)
        if binary not in self._functions:
            self._functions[binary] = self._load(binary)
        handle = self._functions[binary]
        return Function(call, handle, binary.types, binary.threads, binary.shared_bytes)

    def launch(self, launch: Launch, stream: int) -> None:
        """Run all programs of a kernel."""
        f = launch.function
        shape = (*f.call.grid, f.threads, 1, 1, f.shared_bytes)
        what = f"launch {launch.name}"
        self.call(what, "cuLaunchKernel", f.handle, *shape, stream, launch.block, None)

    def _load(self, binary: Binary) -> int:
        module, function = c_void_p(), c_void_p()
        what = f"load {binary.name}"
        self.call(what, "cuModuleLoadData", byref(module), binary.cubin)
        self.call(what, "cuModuleGetFunction", byref(function), module, binary.name.encode())
        if binary.shared_bytes > _UNASKED_SHARED:
            what = f"give {binary.name} {binary.shared_bytes} bytes of shared memory"
            size = binary.shared_bytes
            self.call(what, "cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, size)
        return function.value or 0
