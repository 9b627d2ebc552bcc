"""Elements of a parameter: the graph's gradient beside differences of the loss, in small pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...graph import Tensor
from ..check.directions import draw_direction, inner, typical_size
from ..check.judging import QUICK, Comparison, quick
from ..check.probe import ElementCheck, Probe
from .program import Program

Array = np.ndarray[Any, Any]
Index = tuple[int, ...] | None
CLOSER = 1e-2
"""A second step is so much smaller: a kink is seldom that near."""


@dataclass
class Elements:
    """One parameter at the values of a program, and its gradient there."""

    program: Program
    parameter: Tensor
    gradient: Array
    rng: np.random.Generator
    rtol: float
    most: int
    """Elements that a direction moves."""
    _probe: list[Probe] = field(default_factory=list)

    def look(self, index: Index) -> Iterator[ElementCheck | None]:
        """Look at an element, or along a direction for None; yields None where it rests."""
        base = self.program.array(self.parameter)
        parts = ("real", "imag") if index is not None and np.iscomplexobj(base) else ("real",)
        for part in parts:
            if index is None:
                v, scale = draw_direction(base, self.rng, self.most), 1.0
            else:
                v = np.zeros_like(base)
                v[index] = 1j if part == "imag" else 1.0
                scale = max(typical_size(base), 1e-3, float(abs(base[index])))
            comparison: Comparison | None = None
            for comparison in self._near(base, v, scale, inner(v, self.gradient)):
                if comparison is None:
                    yield None
            if comparison is not None and comparison.verdict == "ok":
                yield ElementCheck(self.parameter.name, index, part, comparison)
                continue
            yield from self._closely(index, part)

    def _near(
        self, base: Array, v: Array, scale: float, exact: float
    ) -> Iterator[Comparison | None]:
        """Compare at one step, and at a smaller one; the last that is yielded counts."""
        values = {0.0: self.program.value()}
        for size in (scale, CLOSER * scale):
            h = QUICK * size
            for t in (h, -h):
                for value in self.program.moved(self.parameter, base + t * v):
                    if value is None:
                        yield None
                    else:
                        values[t] = value
            found = quick(values.__getitem__, exact, scale=size, rtol=self.rtol)
            yield found
            if found.verdict != "unclear":
                return

    def _closely(self, index: Index, part: str) -> Iterator[ElementCheck | None]:
        """Look as a gradient check does: at the noise, at kinks, and at surrogates."""
        yield None
        if not self._probe:
            self._probe.append(self.program.probe(self.parameter, self.rtol))
            yield None
        probe, name = self._probe[0], self.parameter.name
        if index is None:
            found = probe.direction(name, self.gradient, self.rng, self.most)
        else:
            found = probe.part(name, index, part, self.gradient)
        if found.verdict == "fail":  # or has the gradient lost its own digits?
            yield None
            spread = self.program.spread(self.parameter)
            size = np.maximum(np.abs(probe.base), typical_size(probe.base))
            along = np.linalg.norm(spread * size)
            found = found.given(float(along if index is None else spread[index]))
        yield found
