"""Probes of many elements that share their evaluations of the loss.

A probe asks for the loss at dozens of steps, and most elements ask for the same ones, relative to
their sizes. So what one asks for is computed for all that are still to come (``batched``): the
verdicts are those of a ``Probe``, each of which would run the loss for itself alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..judging import QUICK
from ..numeric import FINER, NOISE_POINTS, NOISE_STEPS, STEPS
from ..probe import ElementCheck, Kink, Probe
from .batched import Batch
from .program import Program

Array = np.ndarray[Any, Any]

MOST = 64
"""Elements that share; the first of them has to wait for all. Where a loop runs for each of them,
as it may where nothing is known of a dependence, there is nothing to gain."""


def _rounded(step: float) -> float:
    """Return a step without the rounding that sizes bring to it."""
    return float(f"{step:.12g}")


_TOGETHER = [
    *(np.append(steps, -steps) for steps in (FINER, STEPS, np.array([QUICK]))),
    *(np.append(step * np.arange(1, NOISE_POINTS + 1), -step) for step in NOISE_STEPS),
]
_BUNCHES = {_rounded(s): steps.tolist() for steps in _TOGETHER for s in steps}
"""The steps, relative to a size, that are asked for together; of two such lists the later one."""


class Grouped(Probe):
    """Probes of the elements of one real parameter; ``smooth`` says that nothing behind has a kink.

    Then there are none to be looked for where an element is wrong.
    """

    def __init__(self, program: Program, k: int, rtol: float, *, smooth: bool) -> None:
        program.refresh()
        super().__init__(program.run, program.copies[k], program.loss_copy, rtol)
        self.batch, self.smooth = Batch(program, program.parameters[k]), smooth
        self._at = np.empty(0, int)
        self._place = 0
        self._sizes = self._scales = self._own = np.empty(0)
        self._known: dict[tuple[bool, float], tuple[int, Array]] = {}

    def elements(
        self, name: str, at: Array, analytic: Array, most: int = MOST
    ) -> Iterator[ElementCheck]:
        """Check elements one after the other, by flat number; ``most`` of them share."""
        for first in range(0, len(at), most):
            self._at, self._known = at[first : first + most], {}
            self._own = np.abs(self.base.reshape(-1)[self._at])
            self._scales = np.fmax(self.typical, self._own)
            for place, flat in enumerate(self._at):
                self._place = place
                index = tuple(map(int, np.unravel_index(flat, analytic.shape)))
                yield self.part(name, index if analytic.ndim else (), "real", analytic)

    def _check(
        self, check: ElementCheck, place: Callable[[float], Array], exact: float, scale: float
    ) -> ElementCheck:
        is_first = scale == self._scales[self._place]
        self._sizes = self._scales if is_first else self._own
        return super()._check(check, place, exact, scale)

    def loss(self, place: Callable[[float], Array]) -> Callable[[float], float]:
        """Return the loss at ``place(t)``, which is looked up where an element asked before."""
        sizes, alone = self._sizes, super().loss(place)

        def f(t: float) -> float:
            step = t / float(sizes[self._place])
            if not math.isfinite(step):  # the element is no number itself
                return alone(t)
            key = sizes is self._scales, _rounded(step)
            if key not in self._known:
                try:
                    self._find(step, sizes)
                except (ArithmeticError, ValueError):  # outside of a domain for one of them
                    return alone(t)
            first, losses = self._known[key]
            return float(losses[self._place - first])

        return f

    def _find(self, step: float, sizes: Array) -> None:
        """Compute the loss of all elements to come, at a step and those that go with it."""
        steps = _BUNCHES.get(_rounded(step), (step,))
        moves = np.multiply.outer(steps, sizes[self._place :])
        at = np.broadcast_to(self._at[self._place :], moves.shape)
        losses = self.batch.all_losses(at.ravel(), moves.ravel()).reshape(moves.shape)
        for each, row in zip(steps, losses, strict=True):
            self._known[sizes is self._scales, _rounded(each)] = self._place, row

    def _kinks(self, place: Callable[[float], Array]) -> list[Kink]:
        return [] if self.smooth else super()._kinks(place)
