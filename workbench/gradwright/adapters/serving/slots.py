"""Slots: the memory that a `PerRow` reads, into which one adapter after another is written.

The memory is ours, and the variables of the graph lie in it: an adapter is written where it is
read, at the cost of a copy of it alone, and no plan changes. Who writes has the slot for himself
(see `cache`), so no run reads what is half written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import GraphError, ShapeError
from ...models.decoder.weights import Given
from ..adapted import Adapted
from ..low_rank import LowRank

Array = np.ndarray[Any, Any]


class Slots:
    """The stacks of an adapter in a graph whose method is ``PerRow``: all slots are zero at first.

    The last slot of each stack is never written: it is that of no adapter.
    """

    def __init__(self, adapted: Adapted) -> None:
        self._values = adapted.graph.values
        self._stacks: dict[str, dict[str, Array]] = {}
        self._ranks: dict[str, list[int]] = {}
        """By place, how many ranks of each slot may not be zero."""
        self._names: list[str] = []
        for place in adapted.places:
            held = self._stacks[place.name] = {}
            for leaf, t in adapted.variables[place.name].items():
                stack = np.array(self._values.array(t.name))
                self._values.pack(t.name, Given(stack))
                self._names.append(t.name)
                held[leaf] = stack
            if place.kind == "embedding":  # its stack is looked up by rows
                held["lora_A"] = held["lora_A"].swapaxes(1, 2)
            self._ranks[place.name] = [0] * len(held["scale"])

    @property
    def nbytes(self) -> int:
        """Bytes of all stacks."""
        return sum(stack.nbytes for held in self._stacks.values() for stack in held.values())

    def fitted(self, place: str, part: LowRank) -> LowRank:
        """Return a copy of what an adapter does at a place, as slots take it.

        Raises ShapeError for a rank above theirs, and GraphError for factors that they have not.
        """
        held = self._stacks[place]
        most, dtype = held["lora_B"].shape[1], held["lora_B"].dtype
        part = part.within(most)
        if part.rank > most:
            raise ShapeError(
                f"it is of rank {part.rank} at {place!r}, and slots are of rank {most}",
                hint=f"gw.adapters.serve(..., r={part.rank})",
            )
        for leaf, what, hint in (
            ("gain", "gives", "gains=True"),
            ("input_gain", "is given", f"inputs=({place!r},)"),
        ):
            if getattr(part, leaf) is not None and leaf not in held:
                raise GraphError(
                    f"it multiplies what {place!r} {what}, and slots do not",
                    hint=f"gw.adapters.serve(..., {hint})",
                )

        def copy(array: Array | None) -> Any:
            return None if array is None else np.array(array, dtype, order="C")

        factors = copy(part.gain), copy(part.offset), copy(part.input_gain)
        return LowRank(copy(part.a), copy(part.b), part.scale, *factors)

    def write(self, slot: int, adapter: Mapping[str, LowRank]) -> None:
        """Let a slot be an adapter, given by place: zeros beyond its rank, and where it is not."""
        for name, held in self._stacks.items():
            part, before = adapter.get(name, _NOTHING), self._ranks[name][slot]
            r = self._ranks[name][slot] = part.rank
            to_a, to_b = held["lora_A"][slot], held["lora_B"][slot]
            if r:
                to_a[:r], to_b[:r] = part.a, part.b.T
            to_a[r:before], to_b[r:before] = 0.0, 0.0
            held["scale"][slot] = part.scale
            for leaf, nothing in (("gain", 1.0), ("offset", 0.0), ("input_gain", 1.0)):
                if leaf in held:
                    given = getattr(part, leaf)
                    held[leaf][slot] = nothing if given is None else given
        self._values.overwritten(self._names)


_NOTHING = LowRank(np.empty((0, 0)), np.empty((0, 0)), 0.0)
