"""Validation: measures held-out data, with the weights that are to be seen."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from ..data import Batches
from ..errors import IdError, TrainingError
from .config import Setup
from .control import Control
from .position import Position, Totals
from .step.refusal import found_in
from .step.taker import Taker


class Weights:
    """Which weights the variables of a training hold: those it trains, or an average of them."""

    def __init__(self, setup: Setup, taker: Taker, control: Control) -> None:
        self._setup, self._keeper, self._control = setup, taker.keeper, control
        self.swapped = ""
        """The average that stands in for the weights, if one does."""

    def check(self) -> None:
        """Raise TrainingError while an average stands in for the weights."""
        if self.swapped:
            raise swapped_out(self.swapped)

    @contextmanager
    def averaged(self, name: str) -> Iterator[None]:
        """Have the variables hold an average inside a ``with`` block; see ``Trainer.averaged``."""
        config, values = self._setup.config, self._setup.session.values
        known = [*config.averages, *["optimizer"] * config.is_averaging]
        if name not in known:
            raise TrainingError(
                f"no average {name!r} of the weights is kept",
                need=" or ".join(map(repr, known)) or "Trainer(ema=gw.EMA())",
            )
        self.check()
        if self._control.is_elsewhere:
            raise TrainingError("the trainer is running", hint="trainer.pause(wait=True)")
        averages = self._keeper.averages(name)
        held = values.snapshot(averages)  # which knows what is renamed meanwhile
        try:
            self.swapped = name
            values.commit(averages)
            yield
        finally:
            values.restore({n: array for n, array in held.items() if n in values})
            self.swapped = ""

    def seen(self, name: str | None) -> AbstractContextManager[None]:
        """Return what makes an evaluation see an average, by default what validation sees."""
        if name is None and not self.swapped:
            name = self._setup.config.evaluated
        return nullcontext() if name in (None, "trained") else self.averaged(name)


class Validation:
    """Measures losses and metrics over data in eval mode, in the precision of the steps."""

    def __init__(self, setup: Setup, taker: Taker, position: Position, weights: Weights) -> None:
        self._setup, self._taker, self._position = setup, taker, position
        self._weights = weights

    def measured(self, source: Batches, weights: str | None = None) -> dict[str, float]:
        """Return loss and metrics over all batches; ``weights`` as in ``Trainer.evaluate``."""
        measures, session = self._taker.measures, self._setup.session
        totals: Totals = {}
        with self._weights.seen(weights):
            fetches = self._taker.in_its_precision(measures.fetches())
            for batch, (feeds, rows) in enumerate(source.epoch(0)):
                try:
                    found = session.run(fetches, feeds, step=self._position.steps)
                except IdError as error:
                    origin = functools.partial(source.origin, 0, batch)
                    error.facts += ["in an evaluation", *found_in(error, feeds, origin)]
                    raise
                totals = measures.add(totals, found, rows)
            return measures.results(totals)


def swapped_out(name: str) -> TrainingError:
    """Return the error of what needs the weights themselves, where an average stands in."""
    return TrainingError(
        f"the variables hold their average {name!r}",
        need="the weights themselves",
        hint="leave the block of trainer.averaged() first",
    )
