"""Store: what values lie in, arrays and buffers, for the engine alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..spec import TensorSpec
from ..spec.buffer import Buffer, Living

Array = np.ndarray[Any, Any]


class Packed:
    """A value that lies in a buffer, and its array once that has been read.

    So the array is held twice, and no run takes it for free and writes over what may be a file.
    """

    __slots__ = ("array", "buffer")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.array: Array | None = None


class Store(dict[str, Array]):
    """Arrays by name; a buffer is asked for its array when that is first read.

    It costs nothing beside a dict: only what is missing leads to ``packed``.
    """

    def __init__(
        self, arrays: Mapping[str, Array] | None = None, packed: Mapping[str, Packed] | None = None
    ) -> None:
        super().__init__(arrays or {})
        self.packed = dict(packed or {})

    def __missing__(self, name: str) -> Array:
        held = self.packed[name]
        if held.array is None:
            array = held.buffer.host().view()
            array.flags.writeable = False
            held.array = array
        self[name] = held.array
        return held.array

    def copy(self, names: Iterable[str] | None = None) -> Store:
        """Return a store of the same arrays and buffers, or of some, which changes on its own.

        Of buffers that are written over it has what they are now.
        """
        living = [name for name, held in self.packed.items() if isinstance(held.buffer, Living)]
        if names is None and not living:
            return Store(self, self.packed)
        wanted = set(self.names() if names is None else names)
        for name in wanted.intersection(living):
            self[name]  # reads it, and keeps that
        packed = wanted & self.packed.keys() - set(living)
        return Store(
            {name: self[name] for name in wanted if name in self},
            {name: self.packed[name] for name in packed},
        )

    def forget(self, names: Iterable[str]) -> None:
        """Read these buffers anew when they are read next."""
        for name in names:
            held = self.packed.get(name)
            if held is not None and held.array is not None:
                held.array = None
                self.pop(name, None)

    def names(self) -> list[str]:
        """Return the names of all, whether or not their arrays have been read."""
        return list(dict.fromkeys((*self, *self.packed)))

    def spec(self, name: str) -> TensorSpec:
        """Return what a value is, without reading it."""
        held: Any = self.packed[name].buffer.spec if name in self.packed else self[name]
        return TensorSpec(held.shape, held.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of all as they lie."""
        arrays = sum(a.nbytes for name, a in list(self.items()) if name not in self.packed)
        return arrays + sum(held.buffer.nbytes for held in list(self.packed.values()))
