"""Exits: how results leave a bound segment, as arrays that nobody else holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Tensor
from ..program.memory import LARGE
from .binder import Binder
from .memory import Memory
from .places import Fixed, Moving, address

Array = np.ndarray[Any, Any]


class Exits:
    """The results of a body or a tail.

    What is small, or lies within another value, is copied out; what is large is written into an
    array of its own; what Python made is given away as it is. No value is given away twice:
    ``given`` are those that have been.
    """

    def __init__(
        self, tensors: Sequence[Tensor], binder: Binder, device: Memory, given: set[int]
    ) -> None:
        program = binder.program
        self._fresh: list[tuple[Tensor, Moving, Callable[[], Array]]] = []
        self._handed: list[tuple[Tensor, Any]] = []
        self._copied: list[tuple[Tensor, Array]] = []
        self._shared: list[tuple[Tensor, list[Any], Callable[[], Array] | None]] = []
        for t in tensors:
            number = program.numbers[t]
            spec, place = program.specs[number], binder.places.get(binder.owner[number])
            is_own = binder.owner[number] == number and number in binder.elsewhere
            is_large = spec.is_concrete and not spec.by_reference and spec.nbytes >= LARGE
            take = device.results(spec)
            if is_own and number not in given and not binder.is_view(number):
                self._handed.append((t, place))
                if isinstance(place, Moving) and number in binder.written:
                    self._fresh.append((t, place, take))
            elif isinstance(place, Fixed) and not is_large:
                self._copied.append((t, binder.arrays[number]))
            else:
                arguments: list[Any] = [None]
                binder.use(number, arguments, 0)
                self._shared.append((t, arguments, take if is_large else None))
            given.add(number)

        self.is_empty = not tensors
        self.lent: Mapping[Tensor, Array] = {}
        """Arrays that the next run writes instead of some of its own, dense and aligned."""

    def begin(self) -> None:
        """Provide arrays for large results."""
        for t, place, take in self._fresh:
            array = self.lent[t] if t in self.lent else take()
            place.place(array, address(array))

    def collect(self, env: dict[Tensor, Array]) -> None:
        """Add the results to ``env``."""
        lent = self.lent
        for t, array in self._copied:
            if lent and t in lent:
                lent[t][...] = array
                env[t] = lent[t]
            else:
                env[t] = array.copy()
        for t, place in self._handed:
            env[t] = place.array
        for t, (array,), take in self._shared:
            if take is None:
                env[t] = array.copy()
            else:
                result = env[t] = take()
                result[...] = array
