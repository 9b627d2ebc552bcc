"""Where the kernels of a test run: on a simulated GPU, which looks at each access, or a real one.

``GRADWRIGHT_GPU=1``, as ``make gpu-test`` has it, takes this machine's GPU.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwright.op import Op, infer_specs
from gradwright.program.declined import DeclinedError
from gradwright.spec import TensorSpec, spec_of
from gradwright_kernels.device.array import DeviceArray, get, put
from gradwright_kernels.device.cuda import Cuda
from gradwright_kernels.device.driver import Driver
from gradwright_kernels.device.launcher import Eager
from gradwright_kernels.device.simulated.driver import Simulated
from gradwright_kernels.launch import Strided, find, use

Array = np.ndarray[Any, Any]
IS_REAL = os.environ.get("GRADWRIGHT_GPU") == "1"
FENCE, MARK = 32, 99
"""Elements before and behind an output, and what they hold."""


@functools.cache
def cuda() -> Cuda:
    """Return what tests launch on, opened once."""
    return Driver() if IS_REAL else Simulated()


def launched(op: Op, xs: Sequence[Array | None]) -> list[Array] | None:
    """Run an op's lowering; None: it declines."""
    xs = [None if x is None else np.asarray(x) for x in xs]
    ins = [None if x is None else spec_of(x) for x in xs]
    outs = infer_specs(op, ins)
    with use(Eager(cuda())):
        launch = find(op, ins, outs)
        if isinstance(launch, Strided):
            try:
                launch = launch.bind(xs, [np.empty(s.shape, s.dtype) for s in outs])
            except DeclinedError:
                return None
        return None if launch is None else run(launch, xs, outs)


def run(
    launch: Callable[..., None], xs: Sequence[Array | None], outs: Sequence[TensorSpec]
) -> list[Array]:
    """Return what a launch writes; nothing beside its outputs, nor any input, may change."""
    fenced = [put(cuda(), np.full(s.size + 2 * FENCE, MARK, s.dtype)) for s in outs]
    given = [None if x is None else lying(x, f"input {n}") for n, x in enumerate(xs)]
    launch(given, [within(f, s) for f, s in zip(fenced, outs, strict=True)])
    found = [get(cuda(), f) for f in fenced]
    for f in found:
        mark = f.dtype.type(MARK)
        assert (f[:FENCE] == mark).all(), "wrote before its output"
        assert (f[-FENCE:] == mark).all(), "wrote behind its output"
    for x, g in zip(xs, given, strict=True):
        assert x is None or get(cuda(), g).tobytes() == x.tobytes(), "wrote into an input"
    return [f[FENCE : FENCE + s.size].reshape(s.shape) for f, s in zip(found, outs, strict=True)]


def lying(x: Array, name: str) -> DeviceArray:
    """Return a copy on the device whose elements lie as those of a view do in its base."""
    if x.flags.c_contiguous or x.base is None:
        return put(cuda(), x, name=name)
    base = x.base
    held = put(cuda(), base)
    at = held.address + x.ctypes.data - base.ctypes.data
    return DeviceArray(at, spec_of(x), x.strides, name=name, held=held)


def within(fenced: DeviceArray, spec: TensorSpec) -> DeviceArray:
    """Return what lies between fences, as the simulated GPU takes it: not written yet."""
    at = fenced.address + FENCE * spec.dtype.itemsize
    cuda().forget(at, spec.nbytes, 0)
    return DeviceArray(at, spec, name="output", held=fenced)


def placed(xs: Sequence[Array]) -> tuple[list[DeviceArray], Callable[[], list[Array]]]:
    """Return arrays where kernels run, and a function that returns what they hold by then."""
    held = [put(cuda(), x) for x in xs]
    return held, lambda: [get(cuda(), h) for h in held]
