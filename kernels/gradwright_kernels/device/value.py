"""Variables that live on a device: the host has copies, made when somebody asks."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwright.spec import TensorSpec
from gradwright.spec.buffer import Living

from .array import Block, DeviceArray, get
from .cuda import Cuda

Array = np.ndarray[Any, Any]


class DeviceValue(Living):
    """The value of a variable, in memory of its own.

    >>> from gradwright_kernels.device.simulated.driver import Simulated
    >>> value = DeviceValue(Simulated(), 0, TensorSpec((2,)), "w")
    >>> value.load(np.array([1.0, 2.0], "f4"))
    >>> value.host().tolist(), value.nbytes
    ([1.0, 2.0], 8)
    """

    def __init__(self, cuda: Cuda, stream: int, spec: TensorSpec, name: str) -> None:
        self.cuda, self._stream, self.spec = cuda, stream, spec
        block = Block(cuda, spec.nbytes)
        self.array = DeviceArray(block.address, spec, name=name, held=block)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes on the device."""
        return self.spec.nbytes

    def host(self) -> Array:
        """Return what it is now, when all that was begun before is done."""
        return get(self.cuda, self.array, self._stream)

    def load(self, array: Array) -> None:
        """Take over the numbers of an array."""
        dense = np.ascontiguousarray(array)
        self.cuda.copy_in(self.array.address, dense.ctypes.data, dense.nbytes, self._stream)
        self.cuda.wait(self._stream)
