"""Averages of weights: what a training passes through is often better than where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import TrainingError
from ...graph import Tensor
from ...op import find_op
from ...ops.core.choice import Where
from ...ops.core.comparison import LogicalAnd
from ...spec import TensorSpec, at_least_float32
from ...spec.rounding import rounded
from ...words.jsonable import jsonable
from ..slots import OptimizerState
from .groups import check_number

AVERAGED = ("averaged", "averaging")
"""What the names of the averages of variables begin with, and those of what counts updates."""


@jsonable
@dataclass(frozen=True)
class EMA:
    """Exponential moving average of the weights (Polyak & Juditsky 1992).

    a ← w at update ``start``; then, every ``every`` updates,  a ← d·a + (1 − d)·w

    It is kept in float32 at least. A variable that is not trained is not averaged; ``buffers``
    averages what updates of the graph set, such as running means, too.

    Args:
        decay: d; 0.999 remembers about 1000 updates.
        start: the first update that counts.
        every: how many updates lie between two that count.
        buffers: whether to average running means and the like.

    Raises TrainingError for numbers out of range.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=4.0)
    >>> trainer = gw.Trainer(g, w * 1.0, optimizer=gw.optim.SGD(1.0), ema=gw.EMA(0.5))
    >>> history = trainer.fit([{}], epochs=2, progress=False)       # w: 3, 2
    >>> with trainer.averaged("ema"):
    ...     g.values["w"].item()
    2.5
    """

    decay: float = 0.999
    start: int = 1
    every: int = 1
    buffers: bool = False
    name = "ema"

    def __post_init__(self) -> None:
        check_number("EMA: decay", self.decay, most=1.0)
        _check_counts(self)

    def kept(self, averaged: Tensor) -> Tensor:
        """Return the share of the average that stays, after ``averaged`` updates that counted."""
        later = averaged.graph.constant(self.decay, dtype="float64")
        kept: Tensor = Where()(averaged > 0, later, 0.0)
        return kept


@jsonable
@dataclass(frozen=True)
class SWA:
    """Equal average of the weights of many updates (Izmailov et al. 2018, arXiv:1803.05407).

    a ← (n·a + w)/(n + 1),  from update ``start`` on, every ``every`` updates

    Args are those of ``EMA``. Raises TrainingError for numbers out of range.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=4.0)
    >>> trainer = gw.Trainer(g, w * 1.0, optimizer=gw.optim.SGD(1.0), swa=gw.SWA())
    >>> history = trainer.fit([{}], epochs=3, progress=False)       # w: 3, 2, 1
    >>> with trainer.averaged("swa"):
    ...     g.values["w"].item()
    2.0
    """

    start: int = 1
    every: int = 1
    buffers: bool = False
    name = "swa"

    def __post_init__(self) -> None:
        _check_counts(self)

    def kept(self, averaged: Tensor) -> Tensor:
        """Return the share of the average that stays, after ``averaged`` updates that counted."""
        n = averaged.astype("float64")
        return n / (n + 1.0)


Average = EMA | SWA


def add_average(
    average: Average,
    variables: Sequence[Tensor],
    updates: dict[Tensor, Tensor],
    state: OptimizerState,
) -> None:
    """Have a step update the averages of variables, with what ``updates`` makes of these."""
    ema = find_op("ema_update")
    seen, counted = (
        state.variable(f"averaging/{average.name}/{name}", TensorSpec((), "int64"))
        for name in ("seen", "counted")
    )
    with state.graph.deriving(f"{state.scope}/averaging/{average.name}"):
        number = seen + 1
        due = number >= average.start
        if average.every > 1:
            on_time = (number - average.start) % average.every == 0
            due = LogicalAnd()(due, on_time)
        keep = Where()(due, average.kept(counted), 1.0)
        updates[seen] = number
        updates[counted] = counted + due.astype("int64")
        for v in variables:
            held = held_average(state, average.name, v)
            updates[held] = ema()(held, updates.get(v, v), keep)


def held_average(state: OptimizerState, name: str, v: Tensor) -> Tensor:
    """Return the average of a variable; it begins as the value, which it has been so far."""
    full = f"averaged/{name}/{v.name}"
    new = f"{state.scope}/{full}" not in state.values
    held = state.variable(full, TensorSpec(v.shape, at_least_float32(v.dtype)))
    if new:
        first = rounded(state.values.array(v.name), held.dtype)
        state.values.commit({held.name: first.copy()})
    return held


def _check_counts(average: Average) -> None:
    for name in ("start", "every"):
        value = getattr(average, name)
        if type(value) is not int or value < 1:
            raise TrainingError(
                f"{type(average).__name__}: {name}={value!r} is no number of updates",
                need="an int >= 1",
            )
