"""Central differences of the loss by many elements of one parameter at once.

The elements lie along a new leading axis of all calls behind the parameter, a block at a time: its
largest array has ``BLOCK`` bytes, which stay in a core's cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..directions import typical_size
from ..judging import QUICK
from .lifting import lifted
from .program import Program

Array = np.ndarray[Any, Any]

BLOCK = 1 << 18
_EPS = float(np.finfo(np.float64).eps)


@dataclass
class Differences:
    """What the differences of some elements found, one entry each."""

    slopes: Array
    rounding: Array
    """Rounding error of each slope."""
    still: Array
    """Whether the loss is the same on both sides and in the middle."""
    bent: Array
    """Whether an output that has a kink somewhere moved unevenly."""
    gap: Array
    """How far apart the slopes on the two sides are."""


class Batch:
    """The calls between one parameter and the loss, for many values of the parameter at once."""

    def __init__(self, program: Program, register: int) -> None:
        self.program, self.register, self.held = program, register, program.held
        self.calls = [step.call for step in program.steps_behind([register])]
        largest = max((self.held[o].size for c in self.calls for o in c.outs), default=1)
        base = self.held[register]
        self.most = max(1, BLOCK // (8 * max(largest, base.size, 1)))
        self.typical = max(typical_size(base), 1e-3)

    def losses(self, at: Array, steps: Array, watched: dict[int, Array]) -> Array:
        """Return the loss where the elements ``at``, by flat number, are moved by ``steps``.

        ``watched`` gets the values of those registers.
        """
        held, count = self.held, len(at)
        moved = np.repeat(held[self.register][None], count, 0)
        moved.reshape(count, -1)[np.arange(count), at] += steps
        stacked = {self.register: moved}
        for call in self.calls:
            xs = [stacked.get(j, held[j]) for j in call.ins]
            ys = lifted(call, xs, [j in stacked for j in call.ins], [held[o] for o in call.outs])
            stacked.update(zip(call.outs, ys, strict=True))
        for register in watched:
            if register in stacked:
                watched[register] = stacked[register]
        found = stacked.get(self.program.loss)
        return np.full(count, float(held[self.program.loss])) if found is None else found

    def all_losses(self, at: Array, steps: Array) -> Array:
        """Return the loss for any number of elements, a block at a time."""
        blocks = range(0, len(at), self.most)
        parts = [self.losses(at[k : k + self.most], steps[k : k + self.most], {}) for k in blocks]
        return np.concatenate(parts)

    def differences(
        self, at: Array, *, step: float = QUICK, watch: Sequence[int] = ()
    ) -> Differences:
        """Return the central differences of some elements, by flat number."""
        base = self.held[self.register].reshape(-1)
        sizes = step * np.maximum(self.typical, np.abs(base[at]))
        parts = [
            self._block(at[k : k + self.most // 2 + 1], sizes[k : k + self.most // 2 + 1], watch)
            for k in range(0, len(at), self.most // 2 + 1)
        ]
        return Differences(*(np.concatenate(rows) for rows in zip(*parts, strict=True)))

    def _block(self, at: Array, step: Array, watch: Sequence[int]) -> tuple[Array, ...]:
        n = len(at)
        watched: dict[int, Array] = dict.fromkeys(watch, np.empty(0))
        losses = self.losses(np.concatenate([at, at]), np.concatenate([step, -step]), watched)
        above, below = losses[:n], losses[n:]
        here = float(self.held[self.program.loss])
        bent = np.zeros(n, bool)
        for register, y in watched.items():
            if y.size:
                y0 = self.held[register]
                rise, fall = y[:n] - y0, y0 - y[n:]
                noise = 50 * _EPS * float(np.max(np.abs(y0), initial=0.0))
                uneven = np.abs(rise - fall) > 0.05 * (np.abs(rise) + np.abs(fall)) + noise
                bent |= uneven.reshape(n, -1).any(1)
        rounding = _EPS * np.maximum(np.abs(above), np.abs(below)) / step
        still = (above == here) & (below == here)
        gap = np.abs(above - 2 * here + below) / step
        return (above - below) / (2 * step), rounding, still, bent, gap
