"""A plan's runtime: what a step launches is written down once, and done again in each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwright.spec import TensorSpec, spec_of

from ..compile.compiler import Call
from .array import DeviceArray
from .cuda import Cuda, Launch
from .launcher import Launcher


class Recorder:
    """What one step takes: kernels, memory, and launches when it is bound to arrays.

    Memory has no address before the plan has laid out its arena.
    """

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self.scratch: list[DeviceArray] = []
        """Memory from one of its kernels to the next."""
        self.alarms: list[tuple[DeviceArray, Sequence[int]]] = []
        """Memory in which kernels tell of what is wrong, looked at when the run is done, and of
        which operands of a group its numbers tell."""
        self.constants: list[tuple[DeviceArray, np.ndarray[Any, Any]]] = []
        """Memory that holds numbers, and these."""
        self.launches: list[Launch] = []
        self.source = ""
        """Text that was generated for it."""

    def prepare(self, call: Call) -> Launcher:
        """Compile and load the call."""
        return Launcher(self._cuda.load(call), self.launches.append)

    def workspace(self, spec: TensorSpec) -> DeviceArray:
        """Return memory for what one kernel leaves to the next."""
        self.scratch.append(DeviceArray(0, spec, name="workspace"))
        return self.scratch[-1]

    def alarm(self, spec: TensorSpec, operands: Sequence[int] = ()) -> DeviceArray:
        """Return memory for what is wrong: all zero when nothing is."""
        made = DeviceArray(0, spec, name="alarm")
        self.alarms.append((made, operands))
        return made

    def constant(self, array: np.ndarray[Any, Any]) -> DeviceArray:
        """Return memory that holds these numbers, from the time when the plan is bound."""
        made = DeviceArray(0, spec_of(array), name="constant")
        self.constants.append((made, array))
        return made

    def generated(self, source: str) -> None:
        """Keep the text of a kernel, for who wants to read it; of several, one after the other."""
        self.source += ("\n\n" if self.source else "") + source

    def record(self, run: Any, xs: list[Any], ys: list[Any]) -> list[Launch]:
        """Return the launches of a step on arrays."""
        self.launches.clear()
        run(xs, ys)
        return list(self.launches)
