"""Arrays on a device: where their elements lie, and nothing that the host could read."""

from __future__ import annotations

import math
import types
import weakref
from typing import Any

import numpy as np

from gradwright.spec import TensorSpec

from .cuda import Cuda

POOLED = 1 << 28
"""Bytes that a pool keeps, at most: some batches and results of a usual size."""


class Pool:
    """Memory of a device for what comes and goes: freed blocks are kept, and given out again.

    A driver frees memory when all is done that runs, and would hold up the steps of a training. Who
    frees a block has waited for what used it. Sizes are rounded up to multiples of 512 bytes.
    """

    def __init__(self, cuda: Cuda, most: int = POOLED) -> None:
        self._cuda, self._most, self.kept = cuda, most, 0
        self._sizes: dict[int, int] = {}
        self._free: dict[int, list[int]] = {}

    def allocate(self, nbytes: int) -> int:
        """Return the address of memory; raises MemoryError."""
        size = max(1, -(-nbytes // 512)) * 512
        try:
            address = self._free[size].pop()
        except (KeyError, IndexError):  # tried, not asked: other threads take blocks, too
            pass
        else:
            self.kept -= size
            return address
        try:
            address = self._cuda.allocate(size)
        except MemoryError:
            self.clear()
            address = self._cuda.allocate(size)
        self._sizes[address] = size
        return address

    def free(self, address: int) -> None:
        """Keep a block, or give it back if there are enough."""
        size = self._sizes[address]
        if self.kept + size > self._most:
            del self._sizes[address]
            self._cuda.free(address)
        else:
            self.kept += size
            self._free.setdefault(size, []).append(address)

    def clear(self) -> None:
        """Give back all that is kept."""
        while self._free:
            _, addresses = self._free.popitem()
            for address in addresses:
                self.kept -= self._sizes.pop(address)
                self._cuda.free(address)


class Block:
    """Memory of a device or a pool, given back when nobody holds it any more."""

    base = None

    def __init__(self, cuda: Cuda | Pool, nbytes: int) -> None:
        self.nbytes, self.address = nbytes, cuda.allocate(nbytes)
        weakref.finalize(self, cuda.free, self.address).atexit = False


class DeviceArray:
    """Elements on a device, described as ``__cuda_array_interface__`` does.

    ``held`` is what keeps the memory, if that is not others' business.
    """

    def __init__(
        self,
        address: int,
        spec: TensorSpec,
        strides: tuple[int, ...] | None = None,
        *,
        name: str = "",
        held: Any = None,
    ) -> None:
        shape: Any = spec.shape
        self.address, self.shape, self.dtype = address, tuple(shape), spec.dtype
        dense = dense_strides(self.shape, self.dtype.itemsize)
        self.strides = dense if strides is None else strides
        self.name, self.held = name, held
        axes = zip(self.shape, self.strides, dense, strict=True)
        is_dense = 0 in self.shape or all(n == 1 or s == d for n, s, d in axes)
        self.flags = types.SimpleNamespace(c_contiguous=is_dense)

    @property
    def low(self) -> int:
        """Where its lowest byte is, from the first element on: below 0 where a stride is."""
        steps = zip(self.shape, self.strides, strict=True)
        return 0 if 0 in self.shape else int(sum((n - 1) * min(s, 0) for n, s in steps))

    @property
    def extent(self) -> int:
        """Bytes from the lowest to the end of the highest element."""
        if 0 in self.shape:
            return 0
        steps = zip(self.shape, self.strides, strict=True)
        return int(sum((n - 1) * abs(s) for n, s in steps)) + self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "data": (self.address, False),
            "shape": self.shape,
            "strides": None if self.flags.c_contiguous else self.strides,
            "typestr": self.dtype.str,
            "version": 3,
        }

    def __repr__(self) -> str:
        of = f" {self.name!r}" if self.name else ""
        return f"<DeviceArray{of}: {TensorSpec(self.shape, self.dtype)} at {self.address:#x}>"


def dense_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides in bytes of elements that lie one after the other.

    >>> dense_strides((2, 3), 4)
    (12, 4)
    """
    return tuple(itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def put(cuda: Cuda, array: np.ndarray[Any, Any], stream: int = 0, name: str = "") -> DeviceArray:
    """Return a copy of an array on a device; waits until it is there."""
    dense = np.ascontiguousarray(array)
    block = Block(cuda, dense.nbytes)
    cuda.copy_in(block.address, dense.ctypes.data, dense.nbytes, stream)
    cuda.wait(stream)
    spec = TensorSpec(array.shape, array.dtype)
    return DeviceArray(block.address, spec, name=name, held=block)


def get(cuda: Cuda, array: DeviceArray, stream: int = 0) -> np.ndarray[Any, Any]:
    """Return what a device holds now, dense; waits for what was begun."""
    raw = np.empty(array.extent, np.uint8)
    cuda.copy_out(raw.ctypes.data, array.address + array.low, raw.nbytes, stream)
    cuda.wait(stream)
    return laid(raw, array)


def laid(raw: np.ndarray[Any, Any], array: DeviceArray) -> np.ndarray[Any, Any]:
    """Return the bytes of an array as an array of the host, dense and of its own."""
    if 0 in array.shape:
        return np.empty(array.shape, array.dtype)
    if array.flags.c_contiguous:
        return raw.view(array.dtype).reshape(array.shape)
    return np.ndarray(array.shape, array.dtype, raw, -array.low, array.strides).copy()
