"""Schedules: the learning rate as a function of the step, counted from 0."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import TrainingError

if TYPE_CHECKING:
    import plotly.graph_objects as go

Schedule = Callable[[int], float]
"""Anything that maps a step to a learning rate; a plain function will do."""


class _Plotted:
    """A schedule that can be drawn."""

    def __call__(self, step: int) -> float:
        raise NotImplementedError

    def plot(self, steps: int | None = None) -> go.Figure:
        """Return a figure of the first ``steps`` steps; by default as many as tell the story."""
        import plotly.graph_objects as go

        n = self.span() if steps is None else steps
        xs = sorted({round(i * (n - 1) / 999) for i in range(1000)}) if n > 1000 else range(n)
        figure = go.Figure(go.Scatter(x=list(xs), y=[self(x) for x in xs], mode="lines"))
        figure.update_layout(
            title=repr(self),
            xaxis_title="step",
            yaxis_title="learning rate",
            template="plotly_white",
        )
        return figure

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return 100


@dataclass(frozen=True)
class Constant(_Plotted):
    """The same learning rate at every step.

    lr(s) = v

    >>> import gradwright as gw
    >>> gw.schedules.Constant(0.1)(1000)
    0.1
    """

    value: float

    def __call__(self, step: int) -> float:
        """Return the learning rate of a step."""
        return self.value


@dataclass(frozen=True)
class Step(_Plotted):
    """A learning rate that falls by ``factor`` every ``every`` steps.

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
        if self.every < 1:
            raise TrainingError(f"every={self.every} is not a number of steps", need="at least 1")

    def __call__(self, step: int) -> float:
        """Return the learning rate of a step."""
        return float(self.initial * self.factor ** (step // self.every))

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return 5 * self.every


@dataclass(frozen=True)
class Cosine(_Plotted):
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

    peak: float
    steps: int
    warmup: int = 0
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.warmup < self.steps:
            raise TrainingError(
                f"warmup={self.warmup} does not fit into steps={self.steps}",
                need="0 <= warmup < steps",
            )

    def __call__(self, step: int) -> float:
        """Return the learning rate of a step."""
        if step < self.warmup:
            return self.peak * (step + 1) / (self.warmup + 1)
        done = min(1.0, (step - self.warmup) / (self.steps - self.warmup))
        return self.floor + (self.peak - self.floor) * (1 + math.cos(math.pi * done)) / 2

    def span(self) -> int:
        """Return how many steps a plot shows."""
        return self.steps + self.steps // 10
