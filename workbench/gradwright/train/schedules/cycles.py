"""Schedules of a whole training: warm-up, a long way down, cycles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ...errors import TrainingError
from ...words.jsonable import jsonable
from .base import Anneal, Plan, between, check_anneal, check_finite, check_steps, check_within
from .decays import Points


class _WarmedUp(Plan):
    """Rises to a peak in a straight line; the first step is not lost, its number is above zero."""

    peak: float
    steps: int
    warmup: int

    def _rising(self, step: int) -> float:
        return self.peak * (step + 1) / (self.warmup + 1)

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return self.steps + self.steps // 10


@dataclass(frozen=True)
class _Annealed(_WarmedUp):
    """Rises to ``peak``, then goes down to ``floor`` as ``anneal`` says."""

    peak: float
    steps: int
    warmup: int = 0
    floor: float = 0.0
    anneal: ClassVar[Anneal]

    def __post_init__(self) -> None:
        check_finite(peak=self.peak, floor=self.floor)
        check_within(self.steps, warmup=self.warmup)

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        if step < self.warmup:
            return self._rising(step)
        done = min(1.0, (step - self.warmup) / (self.steps - self.warmup))
        return between(self.peak, self.floor, done, self.anneal)


@jsonable
@dataclass(frozen=True)
class Cosine(_Annealed):
    """Linear warm-up to ``peak``, then half a cosine down to ``floor`` at step ``steps``.

    lr(s) = peak · (s + 1) / (w + 1)                                     for s < w
    lr(s) = floor + (peak − floor) · (1 + cos(π (s − w) / (n − w))) / 2  for w ≤ s < n, then floor

    The first step is not lost: its learning rate is above zero. Without warm-up this is the
    schedule of SGDR (Loshchilov & Hutter 2017, arXiv:1608.03983).

    >>> import gradwright as gw
    >>> schedule = gw.schedules.Cosine(1e-3, steps=1000, warmup=99)
    >>> [round(schedule(s), 6) for s in (0, 49, 99, 1000, 5000)]
    [1e-05, 0.0005, 0.001, 0.0, 0.0]
    """

    anneal = "cosine"


@jsonable
@dataclass(frozen=True)
class Linear(_Annealed):
    """Linear warm-up to ``peak``, then a straight line down to ``floor`` at step ``steps``.

    lr(s) = peak · (s + 1) / (w + 1)                        for s < w
    lr(s) = peak + (floor − peak) · (s − w) / (n − w)       for w ≤ s < n, then floor

    >>> import gradwright as gw
    >>> schedule = gw.schedules.Linear(1.0, steps=10, warmup=3)
    >>> [round(schedule(s), 3) for s in (0, 1, 3, 5, 10)]
    [0.25, 0.5, 1.0, 0.714, 0.0]
    """

    anneal = "linear"


@jsonable
@dataclass(frozen=True)
class WarmupStableDecay(_WarmedUp):
    """Linear warm-up, a long plateau, and a decay over the last ``decay`` of ``steps`` steps.

    lr(s) = peak · (s + 1) / (w + 1)   for s < w
    lr(s) = peak                       for w ≤ s < n − d
    lr(s) = from peak to floor, as ``anneal`` says, for n − d ≤ s < n, then floor

    A training can be prolonged from the plateau (Hu et al. 2024, arXiv:2404.06395).

    >>> import gradwright as gw
    >>> schedule = gw.schedules.WarmupStableDecay(1.0, steps=100, warmup=9, decay=20)
    >>> [round(schedule(s), 2) for s in (0, 9, 79, 90, 100)]
    [0.1, 1.0, 1.0, 0.5, 0.0]
    """

    peak: float
    steps: int
    warmup: int
    decay: int
    floor: float = 0.0
    anneal: Anneal = "linear"

    def __post_init__(self) -> None:
        check_finite(peak=self.peak, floor=self.floor)
        check_anneal(self.anneal)
        check_within(self.steps, warmup=self.warmup, decay=self.decay)

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        if step < self.warmup:
            return self._rising(step)
        if step >= self.steps:
            return self.floor
        done = max(0.0, (step - self.steps + self.decay) / self.decay) if self.decay else 0.0
        return between(self.peak, self.floor, done, self.anneal)


@jsonable
@dataclass(frozen=True)
class CosineRestarts(Plan):
    """Half a cosine from ``peak`` to ``floor``, over and over; each period is longer.

    lr(s) = floor + (peak·dⁱ − floor) · (1 + cos(π t / Tᵢ)) / 2,   Tᵢ = period · growthⁱ

    with t steps into cycle i; d is ``decay`` of the peak (Loshchilov & Hutter 2017,
    arXiv:1608.03983).

    >>> import gradwright as gw
    >>> schedule = gw.schedules.CosineRestarts(1.0, period=10, growth=2)
    >>> [round(schedule(s), 2) for s in (0, 5, 10, 20, 30)]
    [1.0, 0.5, 1.0, 0.5, 1.0]
    """

    peak: float
    period: int
    growth: int = 1
    floor: float = 0.0
    decay: float = 1.0

    def __post_init__(self) -> None:
        check_finite(peak=self.peak, floor=self.floor, decay=self.decay)
        check_steps("period", self.period)
        check_steps("growth", self.growth)

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        if self.growth == 1:
            cycle, into = divmod(step, self.period)
            length = self.period
        else:
            cycle, begun, length = 0, 0, self.period
            while step >= begun + length:  # as many rounds as the step has digits, at most
                cycle, begun, length = cycle + 1, begun + length, length * self.growth
            into = step - begun
        return between(self.peak * self.decay**cycle, self.floor, into / length, "cosine")

    def span(self) -> int:
        """Return how many steps a plot shows: four cycles."""
        return self.period * sum(int(self.growth**i) for i in range(4))


@jsonable
@dataclass(frozen=True)
class OneCycle(Plan):
    """Up from ``peak / divide`` to ``peak`` and down to far below where it began.

    The way up takes ``warmup`` of all steps, the way down ends at ``peak/divide/final_divide``;
    with ``three_phases`` it goes down to where it began as fast as it came up, and then further
    (Smith & Topin 2018, arXiv:1708.07120). Steps after the last stay at its number.

    ``momentum()`` is what goes with it: momentum falls while the learning rate rises. A callback
    sets it between steps: ``trainer.optimizer.momentum = momentum(trainer.steps_done)``.

    >>> import gradwright as gw
    >>> schedule = gw.schedules.OneCycle(1.0, steps=100)
    >>> round(schedule(0), 4), schedule(29), round(schedule(99), 8)
    (0.04, 1.0, 4e-06)
    >>> schedule.momentum()(29)
    0.85
    """

    peak: float
    steps: int
    warmup: float = 0.3
    divide: float = 25.0
    final_divide: float = 1e4
    anneal: Anneal = "cosine"
    three_phases: bool = False

    def __post_init__(self) -> None:
        check_finite(peak=self.peak, divide=self.divide, final_divide=self.final_divide)
        check_anneal(self.anneal)
        check_steps("steps", self.steps, 2)
        ends = self._ends()
        if not 0 < self.warmup < 1 or list(ends) != sorted(set(ends)) or ends[0] <= 0:
            raise TrainingError(
                f"warmup={self.warmup} of steps={self.steps} leaves no step to a phase",
                need="a share of the steps, below 0.5 with three phases, and enough steps",
            )
        if self.divide <= 0 or self.final_divide <= 0:
            raise TrainingError(
                f"divide={self.divide}, final_divide={self.final_divide}", need="numbers > 0"
            )
        begin = self.peak / self.divide
        end = begin / self.final_divide
        levels = (self.peak, begin, end) if self.three_phases else (self.peak, end)
        path = Points(((0, begin), *zip(ends, levels, strict=True)), self.anneal)
        object.__setattr__(self, "_path", path)

    def _ends(self) -> tuple[float, ...]:
        """Return the steps at which the phases end; they need not be whole."""
        up, last = self.warmup * self.steps, self.steps - 1
        return (up - 1, 2 * up - 2, last) if self.three_phases else (up - 1, last)

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        path: Points = self._path  # type: ignore[attr-defined]  # set in __post_init__
        return path(step)

    def momentum(self, low: float = 0.85, high: float = 0.95) -> Points:
        """Return the momentum that goes with it: ``high``, ``low`` at the peak, ``high`` again."""
        levels = (low, high, high)[: len(self._ends())]
        return Points(((0, high), *zip(self._ends(), levels, strict=True)), self.anneal)

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return math.ceil(self.steps * 1.05)
