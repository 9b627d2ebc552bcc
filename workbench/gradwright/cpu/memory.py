"""Memory of the host: one aligned arena for all plans; ``guard`` catches stray writes."""

from __future__ import annotations

import weakref
from typing import Any

import ml_dtypes
import numpy as np

from ..errors import LoweringError
from ..spec import TensorSpec, kind
from .threads.tuning import Tuning

Array = np.ndarray[Any, Any]
ALIGN = 64
"""Bytes: one cache line, and what AVX-512 loads and Triton's divisibility hints want."""


def aligned(nbytes: int) -> Array:
    """Return an uninitialised byte buffer whose address is a multiple of 64."""
    raw = np.empty(nbytes + ALIGN, np.uint8)
    start = -raw.__array_interface__["data"][0] % ALIGN
    return raw[start : start + nbytes]


class Memory:
    """Host memory: one aligned arena for all plans of a session, which run one at a time.

    A hundred shapes take the memory of the largest, and fault in its pages once.
    """

    name = "cpu"
    guarded = False
    """Whether a plan must run step by step and call ``check`` and ``free``."""

    def __init__(self) -> None:
        self._block = aligned(0)
        self.tuning = Tuning()
        """How many threads calls of its plans use."""

    def arena(self, nbytes: int) -> Array:
        """Return an aligned buffer that a plan divides among its tensors.

        It is part of one that grows by a quarter at least; nothing in it lasts from run to run.
        """
        block = self._block  # the compiler's thread asks, too, while a run may let go of it
        if nbytes > block.nbytes:
            block = self._block = aligned(max(nbytes, block.nbytes + block.nbytes // 4))
        return block[:nbytes]

    def release(self) -> None:
        """Let the arena go as soon as no plan is bound to it."""
        self._block = aligned(0)

    def empty(self, spec: TensorSpec) -> Array:
        """Return a fresh uninitialised array, which the plan gives away or guards."""
        return np.empty(spec.shape, spec.dtype)

    def check(self, what: str) -> None:
        """Raise LoweringError if anything wrote outside its buffer."""

    def free(self, array: Array) -> None:
        """Take back an array that nothing may read any more."""


class Fenced(Memory):
    """Host memory with guard bytes around every buffer, filled with NaN before and after use.

    A lowering that writes outside its output, into an input, or leaves part of its output
    unwritten is named; a plan that reads what it has freed computes NaN.
    """

    name = "guard"
    guarded = True
    FENCE = 64
    MARK = 0xA5

    def __init__(self) -> None:
        super().__init__()
        self._fences: dict[int, tuple[Array, weakref.ref[Array]]] = {}

    def empty(self, spec: TensorSpec) -> Array:
        """Return a poisoned array between two fences; what holds references has none."""
        if spec.by_reference:
            return super().empty(spec)
        raw = aligned(spec.nbytes + 2 * self.FENCE)
        raw[:] = self.MARK
        array: Array = (
            raw[self.FENCE : self.FENCE + spec.nbytes].view(spec.dtype).reshape(spec.shape)
        )
        _poison(array)
        self._fences[id(array)] = raw, weakref.ref(array)
        return array

    def check(self, what: str) -> None:
        """Raise LoweringError if a fence is broken."""
        for key, (raw, held) in list(self._fences.items()):
            array = held()
            if array is None:  # a result that its owner has let go
                del self._fences[key]
                continue
            ends = (raw[: self.FENCE], raw[raw.size - self.FENCE :])
            if any((end != self.MARK).any() for end in ends):
                self._fences.clear()
                raise LoweringError(
                    f"{what} wrote outside a buffer of {array.shape} {array.dtype}",
                    hint="the lowering's masks and output sizes",
                )

    def free(self, array: Array) -> None:
        """Poison the array, so that a late reader shows."""
        if self._fences.pop(id(array), None) is not None:
            _poison(array)


def _poison(array: Array) -> None:
    what = kind(array.dtype)
    if what in "fc":
        array[...] = np.nan
    elif what == "b":
        array.view(np.uint8)[...] = 1
    else:
        array[...] = ml_dtypes.iinfo(array.dtype).max  # type: ignore[no-untyped-call]
