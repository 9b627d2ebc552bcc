"""What passes between host and device, through memory of the host that a GPU copies by itself."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwright.graph import Tensor
from gradwright.program.executor import Env
from gradwright.spec import TensorSpec

from .array import DeviceArray, laid
from .cuda import Cuda
from .there import OnDevice, feed, kept

if TYPE_CHECKING:
    from .gpu import Gpu

Array = np.ndarray[Any, Any]
APART = 256
"""What arrays in a block are apart at least."""
SMALL = 1 << 20
"""Bytes of a result from which it goes to the host's own memory: losses and norms are less."""


class Pinned:
    """A block of the host's memory that stays where it is; given back when nobody holds it.

    A copy from other memory goes through a buffer of the driver's first, and holds up the host.

    >>> from gradwright_kernels.device.simulated.driver import Simulated
    >>> block = Pinned(Simulated(), 64)
    >>> view = block.view(16, TensorSpec((2,)))
    >>> view[...] = [1.0, 2.0]
    >>> view.ctypes.data - block.address, view.tolist()
    (16, [1.0, 2.0])
    """

    def __init__(self, cuda: Cuda, nbytes: int) -> None:
        self.nbytes, self.address = nbytes, cuda.host_memory(nbytes)
        self._bytes: Any = (ctypes.c_uint8 * max(nbytes, 1)).from_address(self.address)
        weakref.finalize(self, cuda.free_host_memory, self.address).atexit = False

    def view(self, offset: int, spec: TensorSpec) -> Array:
        """Return an array that lies there; it does not hold the memory."""
        shape: Any = spec.shape
        return np.ndarray(shape, spec.dtype, self._bytes, offset)


class Traffic:
    """What a program takes from the host and gives to it, each with a place in a pinned block.

    ``feeds`` lie one after the other on the device, so that one copy brings them all. None among
    the results is whether all was well.
    """

    def __init__(
        self,
        device: Gpu,
        feeds: Sequence[tuple[Tensor, DeviceArray]],
        results: Mapping[Tensor | None, DeviceArray],
    ) -> None:
        self._device, self._cuda, self._stream = device, device.cuda, device.stream
        self._start = feeds[0][1].address if feeds else 0
        ends = [a.address + a.extent - self._start for _, a in feeds]
        self._taken = at = ends[-1] if ends else 0
        places: dict[Tensor | None, int] = {}
        for t, array in results.items():
            if array.extent <= SMALL:
                places[t] = at = -(-at // APART) * APART
                at += array.extent
        pinned = device.pinned(at)
        self._pinned = weakref.ref(pinned)
        self._feeds = [
            (t, a, pinned.view(a.address - self._start, TensorSpec(a.shape, a.dtype)))
            for t, a in feeds
        ]
        self._arrays = results
        self._raw = {
            t: pinned.view(place, TensorSpec((results[t].extent,), "uint8"))
            for t, place in places.items()
        }

    @property
    def is_there(self) -> bool:
        """Whether the block is still that of the device."""
        return self._pinned() is not None

    def enter(self, env: Env) -> None:
        """Begin to copy feeds to the device; what lies there already is copied within it."""
        there: list[tuple[OnDevice, DeviceArray]] = []
        for t, array, view in self._feeds:
            value: Any = env[t]
            if isinstance(value, OnDevice):
                there.append((value, array))
            else:
                view[...] = value
        if not there and self._feeds:
            self._copy_in(self._start, self._taken)
            return
        for value, array in there:
            feed(self._device, value, array)
        for t, array, _ in self._feeds:
            if not isinstance(env[t], OnDevice):
                self._copy_in(array.address, array.extent)

    def _copy_in(self, address: int, nbytes: int) -> None:
        pinned = self._pinned()
        assert pinned is not None, "it is bound anew when the block is gone"
        source = pinned.address + address - self._start
        self._cuda.copy_in(address, source, nbytes, self._stream)

    def fetch(self, results: Sequence[Tensor | None]) -> None:
        """Begin to copy small results to the block; graphs may keep that."""
        for t in results:
            if t in self._raw:
                self._copy(self._arrays[t], self._raw[t])

    def leave(self, env: Env, results: Sequence[Tensor], stay: Collection[Tensor]) -> None:
        """Copy the others, wait for all that was begun, and give the host what it asked for.

        Those that ``stay`` on the device are copied there, to memory of their own.
        """
        left: Any = {t: kept(self._device, self._arrays[t]) for t in results if t in stay}
        env.update(left)
        results = [t for t in results if t not in stay]
        large = {
            t: np.empty(self._arrays[t].extent, np.uint8) for t in results if t not in self._raw
        }
        for t, raw in large.items():
            self._copy(self._arrays[t], raw)
        self._device.wait_for_all()
        for t in results:
            raw = large[t] if t in large else self._raw[t].copy()
            env[t] = laid(raw, self._arrays[t])

    def was_well(self) -> bool:
        """Tell whether all was well, when that has been fetched and waited for."""
        return None not in self._raw or bool(self._raw[None][0])

    def _copy(self, array: DeviceArray, to: Array) -> None:
        at = array.address + array.low
        self._cuda.copy_out(to.ctypes.data, at, array.extent, self._stream)
