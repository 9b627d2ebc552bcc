"""Launchers: kernels made ready when a plan is made, and bound to arrays once.

A lowering asks for launchers and returns a function that calls them with arrays. What a call does
is the runtime's concern: :class:`Eager` launches at once; a plan writes the launches down, and from
then on a run goes through that table without a lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwright.errors import LoweringError
from gradwright.spec import TensorSpec

from ..compile.compiler import Call
from .array import Block, DeviceArray, put
from .cuda import Cuda, Function, Launch, cell

_MOST = (2**31 - 1, 65_535, 65_535)


def _nobody(launch: Launch) -> None:
    """Take a launch that is not to be made."""


class Launcher:
    """A loaded kernel; called with device arrays in the kernel's order."""

    def __init__(self, function: Function, take: Callable[[Launch], None] = _nobody) -> None:
        self._function, self._take = function, take
        for axis, n, most in zip("xyz", function.call.grid, _MOST, strict=True):
            if not 0 < n <= most:
                name = function.call.kernel.__name__
                raise LoweringError(
                    f"{name} has {n:,} programs along {axis}", need=f"1 to {most:,}"
                )

    def __call__(self, *arrays: DeviceArray) -> None:
        """Hand the kernel, bound to these arrays, to whom it was prepared for."""
        self._take(self.bind(arrays))

    def bind(self, arrays: tuple[DeviceArray, ...]) -> Launch:
        """Return the launch on these arrays; refuses what the code was not made for."""
        function, call = self._function, self._function.call
        call.check(arrays)
        for (name, _), array in zip(call.pointers, arrays, strict=True):
            if array.address % 16 and name not in call.loose:
                raise LoweringError(
                    f"cannot launch {call.kernel.__name__}: {name} is misaligned",
                    facts=[f"address {array.address:#x}"],
                    need="a multiple of 16 bytes, as loads are up to 16 bytes wide",
                )
        left = iter(arrays)
        cells = [
            cell(kind)(next(left).address if isinstance(value, np.dtype) else value)
            for kind, value in zip(function.types, call.runtime_values(), strict=True)
        ]
        tensors = tuple((array.name, array.low, array.extent) for array in arrays)
        return Launch.of(function, cells, tensors)


class Eager:
    """A runtime that launches at once, on one stream; kernels are tried with it."""

    def __init__(self, cuda: Cuda, stream: int = 0) -> None:
        self.cuda, self.stream = cuda, stream

    def prepare(self, call: Call) -> Launcher:
        """Compile and load the call."""
        return Launcher(self.cuda.load(call), lambda launch: self.cuda.launch(launch, self.stream))

    def workspace(self, spec: TensorSpec) -> DeviceArray:
        """Return memory for what one kernel leaves to the next; freed with the last reference."""
        block = Block(self.cuda, spec.nbytes)
        return DeviceArray(block.address, spec, name="workspace", held=block)

    def alarm(self, spec: TensorSpec, operands: Sequence[int] = ()) -> DeviceArray:
        """Return memory that nobody looks at."""
        return self.workspace(spec)

    def constant(self, array: np.ndarray[Any, Any]) -> DeviceArray:
        """Return a copy of these numbers on the device."""
        return put(self.cuda, array, self.stream, "constant")

    def generated(self, source: str) -> None:
        """Keep no text."""
