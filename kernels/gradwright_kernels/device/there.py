"""Arrays that stay on a device: results that are read when somebody asks, and what others lend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradwright.errors import LoweringError
from gradwright.spec import TensorSpec
from gradwright.spec.buffer import There

from . import dlpack
from .array import Block, DeviceArray, get

if TYPE_CHECKING:
    from .gpu import Gpu

Array = np.ndarray[Any, Any]


class OnDevice(There):
    """An array on a device, which torch, JAX and CuPy take as it lies, and numpy as a copy.

    A session gives it with ``results="device"``, and takes it as a feed, as it takes what others
    have on its GPU. It is copied to the host when that is asked for, and never before.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None,))
    >>> with gw.Session(g, device="cuda-sim", results="device") as session:
    ...     y = session.run(x + 1.0, {x: [1.0, 2.0]})
    ...     z = session.run(x * 2.0, {x: y})
    >>> y, np.asarray(z).tolist(), np.from_dlpack(z).sum().item()
    (<OnDevice f32[2] on cuda-sim>, [4.0, 6.0], 10.0)
    """

    def __init__(self, device: Gpu, array: DeviceArray) -> None:
        self._device, self.array = device, array
        self.shape, self.dtype = array.shape, array.dtype
        self.ndim, self.nbytes = len(array.shape), TensorSpec(array.shape, array.dtype).nbytes

    def lies_on(self, device: Gpu) -> bool:
        """Tell whether it is memory of this device."""
        return self._device.cuda is device.cuda

    def copy(self) -> Array:
        """Return it as an array of the host's, when what makes it is done."""
        return get(self._device.cuda, self.array, self._device.stream)

    def item(self) -> Any:
        """Return its only element."""
        return self.copy().item()

    def tolist(self) -> Any:
        """Return its elements in lists."""
        return self.copy().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"{self!r} is copied to the host")
        return self.copy() if dtype is None else self.copy().astype(dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError(f"{self!r} has no length")
        return self.shape[0]

    def __format__(self, how: str) -> str:
        return format(self.item(), how) if how else repr(self)

    def __float__(self) -> float:
        return float(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device.dlpack

    def __dlpack__(self, *, stream: int | None = None, copy: bool | None = None, **how: Any) -> Any:
        """Return a capsule; work of ``stream`` comes after what makes the array.

        On a simulated GPU it is memory of the host.
        """
        cuda, mine = self._device.cuda, self._device.stream
        array = kept(self._device, self.array).array if copy else self.array
        if self._device.dlpack[0] == dlpack.CPU:
            cuda.wait(mine)
        elif stream != -1:  # -1: it does not matter
            cuda.record(self._device.event, mine)
            cuda.wait_event(stream or 0, self._device.event)
        return dlpack.lend(array, self._device.dlpack)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self._device.dlpack[0] == dlpack.CPU:
            raise AttributeError("memory of a simulated GPU is none of CUDA's")
        return {**self.array.__cuda_array_interface__, "stream": self._device.stream}

    def __repr__(self) -> str:
        return f"<OnDevice {TensorSpec(self.shape, self.dtype)} on {self._device.name}>"


def taken(device: Gpu, value: Any) -> OnDevice | None:
    """Return what lies on a device as it may be fed; None: the host has it.

    Raises LoweringError for memory of another GPU.
    """
    if isinstance(value, OnDevice):
        is_ready = value.lies_on(device) and value.array.flags.c_contiguous
        return value if is_ready else None
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
        return None
    kind, number = map(int, value.__dlpack_device__())
    if kind != dlpack.CUDA or device.dlpack[0] != dlpack.CUDA:
        return None
    if number != device.dlpack[1]:
        raise LoweringError(
            f"what is fed lies on GPU {number}, and the session is on GPU {device.dlpack[1]}",
            hint=f'Session(device="cuda:{number}")',
        )
    return OnDevice(device, dlpack.borrow(value.__dlpack__(stream=device.stream)))


def kept(device: Gpu, array: DeviceArray) -> OnDevice:
    """Return a copy of what a step has computed, in memory of its own."""
    block = Block(device.pool, array.extent)
    device.cuda.copy(block.address, array.address + array.low, array.extent, device.stream)
    spec = TensorSpec(array.shape, array.dtype)
    at = block.address - array.low
    made = DeviceArray(at, spec, array.strides, name=array.name, held=block)
    return OnDevice(device, made)


def feed(device: Gpu, found: OnDevice, to: DeviceArray) -> None:
    """Begin to copy what lies on a device to where a step reads it.

    Raises LoweringError where its elements do not lie one after the other.
    """
    array = found.array
    if not array.flags.c_contiguous:
        raise LoweringError(
            f"{to.name!r} is fed with elements that are not dense on the device",
            hint="x.contiguous(), of torch, say",
        )
    device.cuda.copy(to.address, array.address, to.extent, device.stream)
