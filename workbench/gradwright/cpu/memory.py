"""Memory of the host: one aligned arena for all plans; ``guard`` catches stray writes."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ..errors import LoweringError
from ..program.ledger import Ledger, Manager
from ..program.memory import Spares
from ..spec import TensorSpec, kind
from .blocks import LARGER, POOL, Blocks, Fresh, aligned
from .threads.tuning import Tuning

Array = np.ndarray[Any, Any]


class Memory:
    """Host memory: one aligned arena for all plans of a session, which run one at a time.

    A hundred shapes take the memory of the largest, and fault in its pages once. Where ``blocks``
    lend memory instead, plans have it for a run at a time.
    """

    name = "cpu"
    guarded = False
    """Whether a plan must run step by step and call ``check`` and ``free``."""

    def __init__(self) -> None:
        self._block = aligned(0)
        self.ledger = Ledger()
        self.blocks: Blocks | None = None
        """What lends memory to runs; None: plans keep that of the device."""
        self.tuning = Tuning()
        """How many threads calls of its plans use."""

    def manage(self, manager: Manager) -> None:
        """Have memory managed in one of three ways; before there is a plan."""
        self.blocks = {"arena": None, "caching": POOL, "none": Fresh()}[manager]
        self.ledger = Ledger() if self.blocks is None else self.blocks.ledger

    def share(self, inner: Memory) -> None:
        """Have a device for plans inside of plans manage memory as this one does."""
        inner.blocks, inner.ledger = self.blocks, self.ledger

    def arena(self, nbytes: int, what: str = "") -> Array:
        """Return an aligned buffer that a plan divides among its tensors.

        It is part of one that grows by a quarter at least; nothing in it lasts from run to run.
        """
        block = self._block  # the compiler's thread asks, too, while a run may let go of it
        if nbytes > block.nbytes:
            self.ledger.because(block, LARGER)
            block = self._block = aligned(max(nbytes, block.nbytes + block.nbytes // 4))
            self.ledger.took(block, what)
        return block[:nbytes]

    def results(self, spec: TensorSpec) -> Callable[[], Array]:
        """Return what makes arrays for a result; but where nothing is kept, some are used again."""
        if self.ledger.manager == "none":
            return functools.partial(self.empty, spec)
        return Spares(spec, self.empty).take

    def release(self) -> None:
        """Let the arena go as soon as no plan is bound to it."""
        self._block = aligned(0)
        if self.blocks is not None:
            self.blocks.release()

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
