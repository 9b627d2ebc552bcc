"""Accumulation: the gradients of several batches are one update, as if they were one batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import TrainingError
from ...graph import Tensor
from ...ops.core.choice import Maximum, Where
from ...ops.core.movement import cast_to
from ...ops.core.reduce import Sum
from ...spec import TensorSpec, at_least_float32
from ...spec.rows import INT64
from ..slots import Slots
from .rows import Named
from .window import WINDOW, Window

Array = np.ndarray[Any, Any]
WEIGHT = f"{WINDOW}weight"
"""The variable that holds the weight of what a window has gathered."""
SUMS = "accumulated/"
"""What the names of the variables begin with that hold the sums."""


class Sums:
    """Weighted sums of gradients, in the graph: variables, and what a batch makes of them.

    Of tables whose rows are ``kept``, windows of so many ``batches`` are rows.
    """

    def __init__(
        self, state: Slots, params: list[Tensor], kept: Mapping[Tensor, Named], batches: int
    ) -> None:
        self.weight = state.variable(WEIGHT, TensorSpec((), "float64"))
        self.of = {
            p: state.variable(f"{SUMS}{p.name}", TensorSpec(p.shape, wide(p)), of=p)
            for p in params
            if p not in kept
        }
        self.rows = {p: Window.of(state, found, batches) for p, found in kept.items()}
        self._before = state.variable(f"{WINDOW}batches", TensorSpec((), INT64)) if kept else None

    def with_batch(
        self, grads: Mapping[Tensor, Tensor], weight: Tensor, named: Mapping[Tensor, Named]
    ) -> tuple[dict[Tensor, Tensor], Tensor]:
        """Return the sums with one more batch, and their weight; of tables, rows are written."""
        added = {}
        for p, held in self.of.items():
            if (rows := named.get(p)) is None:
                added[p] = _with(held, weight, grads[p])
            else:
                added[p] = rows.put(held, _with(rows.taken(held), weight, rows.grad))
        return added, self.weight + weight

    def with_rows(self, weight: Tensor, named: Mapping[Tensor, Named]) -> dict[Tensor, Tensor]:
        """Return what windows of rows become with one more batch."""
        if self._before is None:
            return {}
        found = {self._before: self._before + 1}
        for p, window in self.rows.items():
            found |= window.with_batch(named[p], weight, self._before)
        return found

    def in_rows(
        self, total: Tensor, weight: Tensor, named: Mapping[Tensor, Named]
    ) -> dict[Tensor, Named]:
        """Return the gradients that windows of rows stand for, with a last batch if it is given."""
        total = Maximum()(total, 1e-30)
        return {p: w.named(total, named.get(p), weight) for p, w in self.rows.items()}

    def means(self, sums: Mapping[Tensor, Tensor], weight: Tensor) -> dict[Tensor, Tensor]:
        """Return the gradients that sums stand for; where nothing weighs anything, zeros."""
        total = Maximum()(weight, 1e-30)
        return {p: s / cast_to(s.dtype, total) for p, s in sums.items()}

    @property
    def variables(self) -> list[Tensor]:
        """All that a new window finds at 0, the weight first."""
        rows = [window.rows for window in self.rows.values()]
        before = [] if self._before is None else [self._before]
        return [self.weight, *before, *rows, *self.of.values()]


def _with(held: Tensor, weight: Tensor, grad: Tensor) -> Tensor:
    """Return a sum with one more gradient."""
    found: Tensor = held + cast_to(held.dtype, weight) * cast_to(held.dtype, grad)
    return found


def wide(param: Tensor) -> Any:
    """Return the dtype that gradients of a parameter are summed up in."""
    return at_least_float32(param.dtype)


def counted(tokens: Tensor) -> Tensor:
    """Return how many tokens a batch holds: the sum of a mask, or a count itself; NaN below 0."""
    total: Tensor = cast_to(np.dtype("float64"), tokens)
    total = Sum()(total) if tokens.rank else total
    found: Tensor = Where()(total < 0, math.nan, total)
    return found


class GradientAccumulator:
    """Weighted means of gradients for loops of one's own: sums in float32 at least.

    g = Σₖ wₖ·gₖ / Σₖ wₖ

    >>> import gradwright as gw, numpy as np
    >>> window = gw.GradientAccumulator()
    >>> window.add({"w": np.array([1.0, 2.0])}, weight=2)
    >>> window.add({"w": np.array([4.0, 8.0])}, weight=1)
    >>> window.batches, window.weight, window.take()["w"].tolist()
    (2, 3.0, [2.0, 4.0])
    >>> window.batches
    0
    """

    def __init__(self) -> None:
        self.batches = 0
        """How many batches the sums hold."""
        self.weight = 0.0
        """What they weigh together."""
        self._sums: dict[str, Array] = {}

    def add(self, grads: Mapping[str, Any], weight: float = 1.0) -> None:
        """Add the gradients of a batch, all or none.

        Raises TrainingError for other names or shapes than before, a weight that is not positive,
        and gradients that are not finite.
        """
        if not 0.0 < weight < np.inf:
            raise TrainingError(f"a batch cannot weigh {weight!r}", need="a finite number > 0")
        if self.batches and grads.keys() != self._sums.keys():
            raise TrainingError(
                f"these are gradients of {', '.join(grads)}", need=", ".join(self._sums)
            )
        added = {}
        for name, grad in grads.items():
            array = np.asarray(grad)
            array = array.astype(at_least_float32(array.dtype), copy=False)
            held = self._sums.get(name)
            if held is not None and held.shape != array.shape:
                raise TrainingError(
                    f"the gradient of {name!r} is {list(array.shape)}", need=str(list(held.shape))
                )
            if not np.isfinite(array).all():
                raise TrainingError(
                    f"the gradient of {name!r} is not finite", hint="leave the batch out"
                )
            part = array * array.dtype.type(weight)
            added[name] = part if held is None else held + part
        self._sums, self.weight, self.batches = added, self.weight + weight, self.batches + 1

    def take(self) -> dict[str, Array]:
        """Return the means and begin anew; raises TrainingError where nothing was added."""
        if not self.batches:
            raise TrainingError("there are no gradients to take", hint="add those of a batch")
        means = {n: np.asarray(s / s.dtype.type(self.weight)) for n, s in self._sums.items()}
        self._sums, self.weight, self.batches = {}, 0.0, 0
        return means
