"""What all schedules share: how they are drawn, combined and checked."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Literal

from ...errors import TrainingError
from ...words.named import Named

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from .composed import ByEpoch, Product, Sequence

Schedule = Callable[[int], float]
"""Anything that maps a step to a number; a plain function will do."""

Anneal = Literal["linear", "cosine"]
"""How a number goes from one value to another: in a straight line, or along half a cosine."""


class Plan(Named):
    """Base of the schedules that are declared: they draw themselves and combine.

    A schedule of your own is a frozen dataclass that derives from this and has ``__call__``.

    >>> import gradwright as gw
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Halving(gw.schedules.Plan):
    ...     '''v / 2ˢ.'''
    ...     value: float
    ...     def __call__(self, step):
    ...         return self.value / 2**step
    >>> (0.1 * Halving(8.0)).then(Halving(1.0), at=2)(3)
    0.5
    """

    def __call__(self, step: int) -> float:
        """Return the number of a step, counted from 0."""
        raise NotImplementedError(f"{type(self).__name__} has no __call__")

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return 100

    def then(self, other: Schedule, at: int) -> Sequence:
        """Return what is this schedule before step ``at`` and from there ``other``, from its 0."""
        from .composed import Sequence

        return Sequence((self, other), (at,))

    def per_epoch(self, steps_per_epoch: int) -> ByEpoch:
        """Return what counts epochs of so many steps where this schedule counts steps."""
        from .composed import ByEpoch

        return ByEpoch(self, steps_per_epoch)

    def __mul__(self, other: Schedule | float) -> Product:
        from .composed import Product

        return Product((self, other))

    def __rmul__(self, other: Schedule | float) -> Product:
        from .composed import Product

        return Product((other, self))

    def plot(self, steps: int | None = None) -> go.Figure:
        """Return a figure of the first ``steps`` steps; by default as many as tell the story."""
        return plot({repr(self): self}, self.span() if steps is None else steps)


def plot(schedules: Mapping[str, Schedule], steps: int | None = None) -> go.Figure:
    """Return a figure that compares schedules by name over ``steps`` steps.

    Raises TrainingError if there is nothing to draw.

    >>> import gradwright as gw
    >>> cosine = gw.schedules.Cosine(1e-3, steps=1000)
    >>> figure = gw.schedules.plot({"cosine": cosine, "half of it": 0.5 * cosine})
    >>> [line.name for line in figure.data]
    ['cosine', 'half of it']
    """
    import plotly.graph_objects as go

    if not schedules:
        raise TrainingError("there is no schedule to draw", need="at least one, by name")
    n = max(span_of(s) for s in schedules.values()) if steps is None else steps
    xs = sorted({round(i * (n - 1) / 999) for i in range(1000)}) if n > 1000 else list(range(n))
    figure = go.Figure()
    for name, schedule in schedules.items():
        figure.add_scatter(
            x=xs, y=[schedule(x) for x in xs], mode="lines", name=html.escape(name, quote=False)
        )
    if len(schedules) == 1:
        figure.update_layout(title=figure.data[0].name)
    figure.update_layout(xaxis_title="step", yaxis_title="learning rate", template="plotly_white")
    return figure


def span_of(schedule: Schedule | float) -> int:
    """Return how many steps tell the story of a schedule.

    >>> import gradwright as gw
    >>> span_of(gw.schedules.Cosine(1.0, steps=1000)), span_of(lambda step: 1.0)
    (1100, 100)
    """
    return schedule.span() if isinstance(schedule, Plan) else 100


def between(start: float, end: float, done: float, how: str) -> float:
    """Return the number when a share ``done`` of the way from ``start`` to ``end`` is gone.

    >>> between(0.0, 2.0, 0.25, "linear"), round(between(0.0, 2.0, 0.25, "cosine"), 4)
    (0.5, 0.2929)
    """
    if how == "linear":
        return start * (1 - done) + end * done  # the ends are met exactly
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2


def check_anneal(how: str) -> None:
    """Raise TrainingError for a way from value to value that is not known.

    >>> check_anneal("linear")
    """
    if how not in ("linear", "cosine"):
        raise TrainingError(f"anneal={how!r} is not known", need="'linear' or 'cosine'")


def check_steps(name: str, value: float, least: int = 1) -> None:
    """Raise TrainingError for what is no number of steps.

    >>> check_steps("every", 10)
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise TrainingError(
            f"{name}={value!r} is not a number of steps", need=f"an int of at least {least}"
        )


def check_finite(**values: float) -> None:
    """Raise TrainingError for what is no finite number.

    >>> check_finite(floor=0.0)
    """
    for name, value in values.items():
        if isinstance(value, str) or callable(value) or not math.isfinite(value):
            raise TrainingError(f"{name}={value!r} is no finite number", need="such as 0.1")


def check_within(steps: int, **phases: int) -> None:
    """Raise TrainingError for phases that are no numbers of steps, or leave none of ``steps``.

    >>> check_within(100, warmup=10)
    """
    check_steps("steps", steps)
    for name, value in phases.items():
        check_steps(name, value, 0)
    if sum(phases.values()) >= steps:
        names = " + ".join(phases)
        given = ", ".join(f"{name}={value}" for name, value in phases.items())
        raise TrainingError(
            f"{given} does not fit into steps={steps}", need=f"0 <= {names} < steps"
        )
