"""Where the kernels of a test run: Triton's interpreter on host memory, or this machine's GPU."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwright.spec import TensorSpec, spec_of
from gradwright_kernels.device.driver import DeviceArray, Driver

Array = np.ndarray[Any, Any]
INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"


class Gpu:
    """A GPU through the driver that the kernels are launched by: memory, copies, and times."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.cuda = self.driver.cuda
        there, here, size = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t
        self.cuda.cuMemcpyHtoD_v2.argtypes = [there, here, size]
        self.cuda.cuMemcpyDtoH_v2.argtypes = [here, there, size]
        self.cuda.cuMemcpyDtoD_v2.argtypes = [there, there, size]
        self.cuda.cuMemsetD8_v2.argtypes = [there, ctypes.c_ubyte, size]

    @property
    def name(self) -> str:
        """What the driver calls it."""
        text = ctypes.create_string_buffer(100)
        self.driver.call("name the GPU", self.cuda.cuDeviceGetName, text, 100, 0)
        return text.value.decode()

    def put(self, x: Array) -> DeviceArray:
        """Return a copy on the GPU."""
        array = self.driver.workspace(spec_of(x) if x.size else TensorSpec((1,), x.dtype))
        host = np.ascontiguousarray(x)
        call = self.cuda.cuMemcpyHtoD_v2, address(array), host.ctypes.data, host.nbytes
        self.driver.call("copy to the GPU", *call)
        return array

    def get(self, array: Any, like: Array) -> Array:
        """Return what lies there now, as an array such as ``like``."""
        found = np.empty(like.shape, like.dtype)
        call = self.cuda.cuMemcpyDtoH_v2, found.ctypes.data, address(array), found.nbytes
        self.driver.call("copy from the GPU", *call)
        return found

    def within(self, array: DeviceArray, start: int, spec: TensorSpec) -> DeviceArray:
        """Return a part of an array, from element ``start`` on; the whole one is held by it."""
        part = DeviceArray(address(array) + start * spec.dtype.itemsize, spec)
        part.whole = array  # type: ignore[attr-defined]
        return part

    def milliseconds(self, run: Callable[[], None], times: int = 20) -> float:
        """Return the median time of one run on the GPU; before each its L2 is written over."""
        events = [ctypes.c_void_p() for _ in range(2)]
        for event in events:
            self.driver.call("make an event", self.cuda.cuEventCreate, ctypes.byref(event), 0)
        flushed = self.driver.workspace(TensorSpec((1 << 28,), "uint8"))
        taken = []
        for _ in range(times + 3):
            self.driver.call("fill", self.cuda.cuMemsetD8_v2, address(flushed), 0, 1 << 28)
            self.driver.call("mark", self.cuda.cuEventRecord, events[0], None)
            run()
            self.driver.call("mark", self.cuda.cuEventRecord, events[1], None)
            self.driver.call("wait for the GPU", self.cuda.cuEventSynchronize, events[1])
            found = ctypes.c_float()
            elapsed = ctypes.byref(found), *events
            self.driver.call("read the time", self.cuda.cuEventElapsedTime, *elapsed)
            taken.append(found.value)
        return float(np.median(taken[3:]))


@functools.cache
def the_gpu() -> Gpu:
    """Return this machine's GPU, opened once."""
    return Gpu()


def address(array: Any) -> int:
    """Return where a device array begins."""
    return int(array.__cuda_array_interface__["data"][0])


FENCE, MARK = 32, 99
"""Elements before and behind an output, and what they hold."""


def run(
    launch: Callable[..., None], xs: Sequence[Array | None], outs: Sequence[TensorSpec]
) -> list[Array]:
    """Return what a launch writes; nothing before or behind its outputs, nor any input, may change.

    Outputs end where forbidden memory begins.
    """
    fenced = [np.full(s.size + 2 * FENCE, MARK, s.dtype) for s in outs]
    if INTERPRETING:
        before = [None if x is None else x.copy() for x in xs]
        ys = [f[FENCE : FENCE + s.size].reshape(s.shape) for f, s in zip(fenced, outs, strict=True)]
        launch(xs, ys)
        after = xs
    else:
        gpu, before = the_gpu(), xs
        given = [None if x is None else gpu.put(x) for x in xs]
        held = [gpu.put(f) for f in fenced]
        launch(given, [gpu.within(h, FENCE, s) for h, s in zip(held, outs, strict=True)])
        fenced = [gpu.get(h, f) for h, f in zip(held, fenced, strict=True)]
        pairs = zip(given, xs, strict=True)
        after = [None if x is None or a is None else gpu.get(a, x) for a, x in pairs]
    for f in fenced:
        assert (f[:FENCE] == MARK).all(), "wrote before its output"
        assert (f[-FENCE:] == MARK).all(), "wrote behind its output"
    for x, b in zip(after, before, strict=True):
        assert x is None or b is None or x.tobytes() == b.tobytes(), "wrote into an input"
    return [f[FENCE : FENCE + s.size].reshape(s.shape) for f, s in zip(fenced, outs, strict=True)]


def placed(xs: Sequence[Array]) -> tuple[list[Any], Callable[[], list[Array]]]:
    """Return arrays where kernels run, and a function that returns what they hold by then."""
    if INTERPRETING:
        return list(xs), lambda: list(xs)
    gpu = the_gpu()
    held = [gpu.put(x) for x in xs]
    return held, lambda: [gpu.get(h, x) for h, x in zip(held, xs, strict=True)]
