"""Schedules that follow one formula: constant, stairs, exponential, inverse, polynomial ..."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass

from ...errors import TrainingError
from ...words.jsonable import jsonable
from .base import Anneal, Plan, between, check_anneal, check_finite, check_steps


@jsonable
@dataclass(frozen=True)
class Constant(Plan):
    """The same number at every step.

    lr(s) = v

    >>> import gradwright as gw
    >>> gw.schedules.Constant(0.1)(1000)
    0.1
    """

    value: float

    def __post_init__(self) -> None:
        check_finite(value=self.value)

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        return self.value


@jsonable
@dataclass(frozen=True)
class Step(Plan):
    """A number that falls by ``factor`` every ``every`` steps.

    lr(s) = v · f^⌊s / n⌋

    >>> import gradwright as gw
    >>> schedule = gw.schedules.Step(0.1, every=100, factor=0.5)
    >>> schedule(99), schedule(100), schedule(250)
    (0.1, 0.05, 0.025)
    """

    initial: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        check_finite(initial=self.initial, factor=self.factor)
        check_steps("every", self.every)

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        return float(self.initial * self.factor ** (step // self.every))

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return 5 * self.every


@jsonable
@dataclass(frozen=True)
class Exponential(Plan):
    """A number that falls smoothly, by ``factor`` over ``every`` steps.

    lr(s) = max(v · f^(s / n), floor)

    >>> import gradwright as gw
    >>> schedule = gw.schedules.Exponential(0.8, factor=0.5)
    >>> schedule(0), schedule(1), schedule(3)
    (0.8, 0.4, 0.1)
    """

    initial: float
    factor: float
    every: int = 1
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_finite(initial=self.initial, factor=self.factor, floor=self.floor)
        check_steps("every", self.every)
        if self.factor <= 0:
            raise TrainingError(f"factor={self.factor} has no powers", need="factor > 0")

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        return float(max(self.initial * self.factor ** (step / self.every), self.floor))

    def span(self) -> int:
        """Return how many steps a plot shows: down to a thousandth."""
        halved = math.log(1e-3) / math.log(self.factor) if 0 < self.factor < 1 else 5.0
        return max(2, math.ceil(halved * self.every))


@jsonable
@dataclass(frozen=True)
class Inverse(Plan):
    """A number that falls as a power of the step.

    lr(s) = v / (1 + γ·s)^p

    >>> import gradwright as gw
    >>> schedule = gw.schedules.Inverse(0.1, gamma=1.0, power=0.5)
    >>> schedule(0), schedule(3), schedule(99)
    (0.1, 0.05, 0.01)
    """

    initial: float
    gamma: float
    power: float = 1.0

    def __post_init__(self) -> None:
        check_finite(initial=self.initial, gamma=self.gamma, power=self.power)
        if self.gamma < 0:
            raise TrainingError(f"gamma={self.gamma} divides by zero on the way", need="gamma >= 0")

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        return float(self.initial / (1 + self.gamma * step) ** self.power)

    def span(self) -> int:
        """Return how many steps a plot shows: ten times those that halve the base."""
        return max(100, math.ceil(10 / self.gamma)) if self.gamma else 100


@jsonable
@dataclass(frozen=True)
class Polynomial(Plan):
    """A number that decays to ``floor`` at step ``steps``, along a power.

    lr(s) = floor + (v − floor) · (1 − s/n)^p  for s < n, then floor

    >>> import gradwright as gw
    >>> schedule = gw.schedules.Polynomial(1.0, steps=10, power=2.0)
    >>> schedule(0), schedule(5), schedule(10), schedule(11)
    (1.0, 0.25, 0.0, 0.0)
    """

    initial: float
    steps: int
    power: float = 1.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_finite(initial=self.initial, power=self.power, floor=self.floor)
        check_steps("steps", self.steps)
        if self.power <= 0:
            raise TrainingError(f"power={self.power} does not decay", need="power > 0")

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        left = max(0.0, 1 - step / self.steps)
        return float(self.floor + (self.initial - self.floor) * left**self.power)

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return self.steps + self.steps // 10


@jsonable
@dataclass(frozen=True)
class Sigmoid(Plan):
    """A number that goes over from 0 to ``value`` around step ``center``, or back for γ < 0.

    lr(s) = v / (1 + e^(−γ·(s − c)))

    >>> import gradwright as gw
    >>> schedule = gw.schedules.Sigmoid(0.2, gamma=-0.1, center=100)
    >>> round(schedule(0), 4), schedule(100), round(schedule(10_000), 4)
    (0.2, 0.1, 0.0)
    """

    value: float
    gamma: float
    center: int

    def __post_init__(self) -> None:
        check_finite(value=self.value, gamma=self.gamma, center=self.center)

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        z = self.gamma * (step - self.center)
        small = math.exp(-abs(z))  # never overflows
        return self.value * (1.0 if z >= 0 else small) / (1 + small)

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return max(100, 2 * self.center)


@jsonable
@dataclass(frozen=True)
class Map(Plan):
    """Piecewise constant: each value counts from its step to the next; step 0 is required.

    lr(s) = values[max {k : k ≤ s}]

    >>> import gradwright as gw
    >>> schedule = gw.schedules.Map({0: 0.1, 100: 0.01, 200: 0.001})
    >>> schedule(99), schedule(100), schedule(5000)
    (0.1, 0.01, 0.001)
    """

    values: Mapping[int, float] | tuple[tuple[int, float], ...]
    """Value by step; kept as pairs in the order of steps."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _pairs("values", self.values))
        for step, _ in self._knots:
            check_steps("a step of the map", step, 0)
        if not self.values or self._knots[0][0] != 0:
            raise TrainingError(
                "the map says nothing of step 0", need="a value for step 0: {0: 0.1, ...}"
            )

    @property
    def _knots(self) -> tuple[tuple[float, float], ...]:
        return self.values  # type: ignore[return-value]  # pairs since __post_init__

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        return self._knots[bisect.bisect_right(self._knots, float(step), key=lambda k: k[0]) - 1][1]

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return max(100, int(self._knots[-1][0] * 1.25))


@jsonable
@dataclass(frozen=True)
class Points(Plan):
    """Goes from value to value at given steps; before the first and after the last it stays.

    ``anneal`` says how: ``"linear"``, or ``"cosine"`` along half a cosine.

    >>> import gradwright as gw
    >>> momentum = gw.schedules.Points({0: 0.95, 300: 0.85, 1000: 0.95})
    >>> [round(momentum(s), 3) for s in (0, 150, 300, 650, 2000)]
    [0.95, 0.9, 0.85, 0.9, 0.95]
    """

    values: Mapping[float, float] | tuple[tuple[float, float], ...]
    """Value by step, which need not be whole; kept as pairs in the order of steps."""
    anneal: Anneal = "linear"

    def __post_init__(self) -> None:
        check_anneal(self.anneal)
        object.__setattr__(self, "values", _pairs("values", self.values))
        if not self.values:
            raise TrainingError("there are no points", need="{0: 0.1, 100: 0.01}, at least one")

    @property
    def _knots(self) -> tuple[tuple[float, float], ...]:
        return self.values  # type: ignore[return-value]  # pairs since __post_init__

    def __call__(self, step: int) -> float:
        """Return the number of a step."""
        knots = self._knots
        right = bisect.bisect_left(knots, float(step), key=lambda k: k[0])
        if right == 0 or right == len(knots):
            return knots[min(right, len(knots) - 1)][1]
        (a, start), (b, end) = knots[right - 1 : right + 1]
        return between(start, end, (step - a) / (b - a), self.anneal)

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return max(2, math.ceil(self._knots[-1][0] * 1.1))


def _pairs(name: str, given: object) -> tuple[tuple[float, float], ...]:
    """Return a mapping, or pairs, as pairs in the order of their keys."""
    items = given.items() if isinstance(given, Mapping) else given
    try:
        pairs = tuple((k, float(v)) for k, v in items)  # type: ignore[attr-defined]
        for key, value in pairs:
            check_finite(**{f"{name}[{key}]": value, "step": key})
    except (TypeError, ValueError):
        raise TrainingError(
            f"{name}={given!r} does not say a value by step", need="{0: 0.1, 100: 0.01}"
        ) from None
    if len({k for k, _ in pairs}) < len(pairs):
        raise TrainingError(f"{name} says two values for one step", facts=[repr(pairs)])
    return tuple(sorted(pairs))
