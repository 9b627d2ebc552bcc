"""Batches that are on the device before a step asks: the next is copied while one is used.

host         fill ┐      give the one before     wait for the copy, fill ┐
copy stream       └ copy                                                 └ copy
steps                                    compute …
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwright.spec import TensorSpec

from .array import Block, DeviceArray
from .staging import APART, Pinned
from .there import OnDevice

if TYPE_CHECKING:
    from .gpu import Gpu


class Ahead:
    """Copies batches to a device, on a stream beside its steps, through a block of pinned memory.

    Who is given a batch need not wait: it has been copied before the next one is begun.
    """

    def __init__(self, device: Gpu) -> None:
        self._device, self._stream = device, device.copying
        self._block: Pinned | None = None

    def of(self, batches: Iterable[Mapping[Any, Any]]) -> Iterator[dict[Any, Any]]:
        """Yield batches whose arrays are on the device."""
        before: dict[Any, Any] | None = None
        try:
            for batch in batches:
                begun = self._begun(batch)
                if before is not None:
                    yield before
                before = begun
        finally:
            self._device.cuda.wait(self._stream)  # who drops a batch gives its memory to others
        if before is not None:
            yield before

    def _begun(self, batch: Mapping[Any, Any]) -> dict[Any, Any]:
        """Begin to copy a batch; what is no array of numbers is left as it is."""
        device, cuda = self._device, self._device.cuda
        arrays = {
            k: a for k, a in batch.items() if isinstance(a, np.ndarray) and a.dtype.kind in "biufcV"
        }
        places, at = {}, 0
        for key, array in arrays.items():
            places[key] = at
            at += -(-array.nbytes // APART) * APART
        block = self._free_block(at)
        found = dict(batch)
        for key, array in arrays.items():
            spec = TensorSpec(array.shape, array.dtype)
            block.view(places[key], spec)[...] = array
            held = Block(device.pool, spec.nbytes)
            there = DeviceArray(held.address, spec, name=str(key), held=held)
            cuda.copy_in(held.address, block.address + places[key], spec.nbytes, self._stream)
            found[key] = OnDevice(device, there)
        return found

    def _free_block(self, nbytes: int) -> Pinned:
        """Return the block, when what it was filled with has been copied."""
        self._device.cuda.wait(self._stream)
        if self._block is None or self._block.nbytes < nbytes:
            self._block = Pinned(self._device.cuda, nbytes)
        return self._block
