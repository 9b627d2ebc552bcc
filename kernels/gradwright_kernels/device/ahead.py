"""Batches that are on the device before a step asks: the next is copied while one is used.

host         fill a block ┐             fill the other ┐
copy stream               └ copy, event                └ copy, event
steps                      wait for the event, compute …
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
    """Copies batches to a device, on a stream of its own, through two blocks of pinned memory."""

    def __init__(self, device: Gpu) -> None:
        self._device, self._stream = device, device.cuda.make_stream()
        self._events = [device.cuda.make_event() for _ in range(2)]
        self._blocks: list[Pinned | None] = [None, None]

    def of(self, batches: Iterable[Mapping[Any, Any]]) -> Iterator[dict[Any, Any]]:
        """Yield batches whose arrays are on the device, or on their way there."""
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
        block, event = self._free_block(at), self._events[0]
        found = dict(batch)
        for key, array in arrays.items():
            spec = TensorSpec(array.shape, array.dtype)
            block.view(places[key], spec)[...] = array
            held = Block(device.pool, spec.nbytes)
            there = DeviceArray(held.address, spec, name=str(key), held=held)
            cuda.copy_in(held.address, block.address + places[key], spec.nbytes, self._stream)
            found[key] = OnDevice(device, there, event)
        cuda.record(event, self._stream)
        return found

    def _free_block(self, nbytes: int) -> Pinned:
        """Return the block that was filled the time before last, when it has been copied."""
        self._device.cuda.wait(self._stream)
        self._blocks.reverse()
        self._events.reverse()
        block = self._blocks[0]
        if block is None or block.nbytes < nbytes:
            block = self._blocks[0] = Pinned(self._device.cuda, nbytes)
        return block
