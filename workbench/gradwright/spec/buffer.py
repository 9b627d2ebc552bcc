"""Buffers: values that do not lie in memory as the engine's arrays do."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..errors import GraphError
from .tensor import TensorSpec

Array = np.ndarray[Any, Any]


@runtime_checkable
class Buffer(Protocol):
    """What stands for an array: quantised blocks, a range of a mapped file, memory of a device.

    >>> import numpy as np
    >>> from gradwright.spec import TensorSpec
    >>> class Halves:
    ...     '''float32 that is kept in 16 bits.'''
    ...     def __init__(self, array):
    ...         self.spec = TensorSpec(array.shape, "float32")
    ...         self.load(array)
    ...     def load(self, array):
    ...         self.held = array.astype(np.float16)
    ...     def host(self):
    ...         return self.held.astype(np.float32)
    ...     @property
    ...     def nbytes(self):
    ...         return self.held.nbytes
    >>> held: Buffer = Halves(np.array([1.0, 2.5]))
    >>> held.host().tolist(), held.nbytes, held.spec.nbytes
    ([1.0, 2.5], 4, 8)
    """

    @property
    def spec(self) -> TensorSpec:
        """What the array is."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes as it lies."""

    def host(self) -> Array:
        """Return the array: a view where the memory is the host's, else a copy."""

    def load(self, array: Array) -> None:
        """Take over the numbers of an array, as far as the buffer keeps them."""


class Living:
    """Base of buffers that are written over while they are a value, as a device does its memory.

    What has been read of them is a copy, which stays as it was.
    """


class There:
    """Base of arrays that lie on a device and are fed to it as they are.

    They have ``shape``, ``ndim`` and ``dtype``, and a ``copy`` of the host's.
    """

    shape: tuple[int, ...]
    ndim: int
    dtype: np.dtype[Any]

    def copy(self) -> Array:
        """Return it as an array of the host's."""
        raise NotImplementedError


class Zeros:
    """What a variable begins as whose value comes before anybody reads it: no memory is taken.

    >>> Zeros(TensorSpec((2, 3), "float32")).nbytes
    0
    """

    nbytes = 0

    def __init__(self, spec: TensorSpec) -> None:
        self.spec = spec

    def host(self) -> Array:
        """Return zeros."""
        return np.zeros(self.spec.shape, self.spec.dtype)

    def load(self, array: Array) -> None:
        """Raise: it keeps no numbers."""
        raise GraphError("zeros are not written", hint="graph.values[name] = array")
