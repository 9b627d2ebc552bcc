"""Averages of weights: what a training passes through is often better than where it stands."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Tensor
from ...op import find_op
from ...ops.core.choice import Where
from ...ops.core.comparison import LogicalAnd
from ...spec import TensorSpec, at_least_float32
from ...spec.rounding import rounded
from ..settings import Average
from ..slots import Slots

AVERAGED = ("averaged", "averaging")
"""What the names of the averages of variables begin with, and those of what counts updates."""


def add_average(
    average: Average,
    variables: Sequence[Tensor],
    updates: dict[Tensor, Tensor],
    state: Slots,
    decay: Tensor | None,
) -> None:
    """Have a step update the averages of variables, with what ``updates`` makes of these.

    ``decay`` is that of an exponential average.
    """
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
        keep = Where()(due, average.kept(counted, decay), 1.0)
        updates[seen] = number
        updates[counted] = counted + due.astype("int64")
        for v in variables:
            held = held_average(state, average.name, v)
            updates[held] = ema()(held, updates.get(v, v), keep)


def held_average(state: Slots, name: str, v: Tensor) -> Tensor:
    """Return the average of a variable; it begins as the value, which it has been so far."""
    full = f"averaged/{name}/{v.name}"
    new = f"{state.scope}/{full}" not in state.values
    held = state.variable(full, TensorSpec(v.shape, at_least_float32(v.dtype)), of=v)
    if new:
        first = rounded(state.values.array(v.name), held.dtype)
        state.values.commit({held.name: first.copy()})
    return held
