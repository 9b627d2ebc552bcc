"""Schedules made of schedules: one after another, multiplied, warmed up, counted in epochs."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass

from ...errors import TrainingError
from ...words.jsonable import jsonable
from .base import Plan, Schedule, check_finite, check_steps, span_of


@jsonable
@dataclass(frozen=True)
class Sequence(Plan):
    """One schedule after another; each counts from 0 where it begins.

    lr(s) = schedulesᵢ(s − boundariesᵢ₋₁)   for boundariesᵢ₋₁ ≤ s < boundariesᵢ

    >>> import gradwright as gw
    >>> warm = gw.schedules.Points({0: 0.0, 10: 1.0})
    >>> schedule = warm.then(gw.schedules.Exponential(1.0, 0.5), at=10)
    >>> schedule(5), schedule(10), schedule(12)
    (0.5, 1.0, 0.25)
    """

    schedules: tuple[Schedule, ...]
    boundaries: tuple[int, ...]
    """The step at which each schedule but the first begins."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedules", tuple(map(_schedule, self.schedules)))
        object.__setattr__(self, "boundaries", tuple(self.boundaries))
        for step in self.boundaries:
            check_steps("a boundary", step)
        if len(self.boundaries) != len(self.schedules) - 1 or list(self.boundaries) != sorted(
            set(self.boundaries)
        ):
            raise TrainingError(
                f"boundaries={self.boundaries} do not part {len(self.schedules)} schedules",
                need="one step less than schedules, rising",
            )

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        i = bisect.bisect_right(self.boundaries, step)
        return self.schedules[i](step - self.boundaries[i - 1] if i else step)

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return (self.boundaries[-1] if self.boundaries else 0) + span_of(self.schedules[-1])


@jsonable
@dataclass(frozen=True)
class Product(Plan):
    """Schedules and numbers multiplied, which is also how one is scaled: ``0.1 * schedule``.

    lr(s) = Πᵢ factorsᵢ(s)

    >>> import gradwright as gw
    >>> s = gw.schedules
    >>> schedule = s.Points({0: 0.5, 10: 1.0}) * s.Step(0.1, every=20, factor=0.5)
    >>> schedule(0), schedule(10), schedule(20)
    (0.05, 0.1, 0.05)
    """

    factors: tuple[Schedule | float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "factors", tuple(self.factors))
        for i, factor in enumerate(self.factors):
            if not callable(factor):
                check_finite(**{f"factors[{i}]": factor})

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        return math.prod(float(f(step)) if callable(f) else f for f in self.factors)

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return max((span_of(f) for f in self.factors if callable(f)), default=100)


@jsonable
@dataclass(frozen=True)
class Ramp(Plan):
    """A schedule with a linear warm-up: its first ``steps`` numbers rise from a part to all.

    lr(s) = base(s) · min(1, (s + 1) / n)

    ``base`` keeps counting from 0 meanwhile; a number stands for itself.

    >>> import gradwright as gw
    >>> schedule = gw.schedules.Ramp(0.5, steps=10)
    >>> schedule(0), schedule(4), schedule(9), schedule(50)
    (0.05, 0.25, 0.5, 0.5)
    """

    base: Schedule | float
    steps: int

    def __post_init__(self) -> None:
        if not callable(self.base):
            check_finite(base=self.base)
        check_steps("steps", self.steps)

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        full = self.base(step) if callable(self.base) else self.base
        return float(full * min(1.0, (step + 1) / self.steps))

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return max(5 * self.steps, span_of(self.base) if callable(self.base) else 0)


@jsonable
@dataclass(frozen=True)
class ByEpoch(Plan):
    """A schedule that counts epochs of ``steps_per_epoch`` steps: it changes between them only.

    lr(s) = schedule(⌊s / steps_per_epoch⌋)

    The number stays a function of the step alone, so a continued training finds it again.

    >>> import gradwright as gw
    >>> schedule = gw.schedules.Step(0.1, every=2, factor=0.5).per_epoch(100)
    >>> schedule(199), schedule(200), schedule(399), schedule(400)
    (0.1, 0.05, 0.05, 0.025)
    """

    schedule: Schedule
    steps_per_epoch: int

    def __post_init__(self) -> None:
        _schedule(self.schedule)
        check_steps("steps_per_epoch", self.steps_per_epoch)

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        return self.schedule(step // self.steps_per_epoch)

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return span_of(self.schedule) * self.steps_per_epoch


def _schedule(given: Schedule) -> Schedule:
    if not callable(given):
        raise TrainingError(
            f"{given!r} is no schedule",
            need="a function of the step",
            hint=f"gw.schedules.Constant({given!r})",
        )
    return given
