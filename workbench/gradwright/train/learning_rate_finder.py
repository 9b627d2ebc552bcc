"""The learning-rate range test: the loss while the rate rises, on a training left as it was."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import Feeds, batches
from ..errors import TrainingError
from .history import History

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from .trainer import Trainer

Array = np.ndarray[Any, Any]
EXPLODED = 4.0
"""The test ends when the smoothed loss is so many times above its lowest, as far as it has fallen
from the first one."""


@dataclass(frozen=True, repr=False)
class LearningRates:
    """What a range test has found: ``gw.train.find_learning_rate`` returns one."""

    rates: Array
    """f64[n]."""
    losses: Array
    """f64[n], of the batch of each step, before the step."""
    smooth: Array
    """f64[n], their exponential average without bias to 0."""
    suggestion: float
    """Where the smoothed loss falls most steeply over log(rate); NaN where it never falls.

    Its first 1/(1−smoothing) values do not count: they are means of a few batches, and fall or rise
    as those happen to be easy or hard."""

    def plot(self) -> go.Figure:
        """Return a figure: the loss over the rate, and the suggestion."""
        import plotly.graph_objects as go

        figure = go.Figure()
        for name, ys, width in (("loss", self.losses, 1), ("smoothed", self.smooth, 2)):
            figure.add_scatter(x=self.rates, y=ys, name=name, mode="lines", line={"width": width})
        if math.isfinite(self.suggestion):
            figure.add_vline(
                x=self.suggestion, line_dash="dash", annotation_text=f"{self.suggestion:.2g}"
            )
        figure.update_layout(
            template="plotly_white",
            xaxis={"title": "learning rate", "type": "log", "exponentformat": "power"},
            yaxis_title="loss",
            margin={"t": 40},
        )
        return figure

    def __repr__(self) -> str:
        return (
            f"<LearningRates {self.rates[0]:.2g} to {self.rates[-1]:.2g} in {len(self.rates)} "
            f"steps: suggestion {self.suggestion:.2g}>"
        )


def find_learning_rate(
    trainer: Trainer,
    data: Any,
    low: float = 1e-7,
    high: float = 10.0,
    steps: int = 100,
    *,
    batch_size: int | None = None,
    smoothing: float = 0.9,
) -> LearningRates:
    """Take ``steps`` steps with rates that grow from ``low`` to ``high``, and take all back.

    rateₖ = low·(high/low)^(k/(steps−1)). The test ends early when the loss explodes. A good rate is
    where the loss falls most steeply, or somewhat below; where it is lowest is too much. Values,
    optimizer state, counters and history of the trainer are afterwards what they were, to the bit,
    and its callbacks see nothing. Data that is shorter begins again. Groups that have an optimizer
    of their own keep its rate.

    Raises TrainingError for arguments that make no sense, for a trainer that is running, and where
    not even three steps could be taken. Smith 2017, "Cyclical Learning Rates for Training Neural
    Networks", section 3.3.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x, t = g.placeholder("x", (None,)), g.placeholder("t", (None,))
    >>> w = g.variable("w", ())
    >>> trainer = gw.Trainer(g, gw.mean((x * w - t) ** 2.0), optimizer=gw.optim.SGD(0.1))
    >>> xs = np.linspace(-1, 1, 64)
    >>> found = gw.train.find_learning_rate(trainer, {"x": xs, "t": 3 * xs}, steps=60)
    >>> 0.01 < found.suggestion < 2.0, g.values["w"].item(), trainer.steps_done
    (True, 0.0, 0)
    """
    if not 0 < low < high < math.inf or steps < 3 or not 0 <= smoothing < 1:
        raise TrainingError(
            f"low={low}, high={high}, steps={steps}, smoothing={smoothing} make no sense",
            need="0 < low < high; steps >= 3; 0 <= smoothing < 1",
        )
    if trainer.status != "idle":
        raise TrainingError(f"the trainer is {trainer.status}", hint="trainer.stop()")
    rates = np.geomspace(low, high, steps)
    losses: list[float] = []
    smooth: list[float] = []
    total, lowest = 0.0, math.inf
    with untouched(trainer):
        taken = _endless(trainer, data, batch_size)
        for rate in rates.tolist():
            trainer.optimizer = replace(trainer.optimizer, learning_rate=rate)
            loss = _loss(trainer, taken)
            if not math.isfinite(loss):
                break
            total = smoothing * total + (1 - smoothing) * loss
            losses.append(loss)
            smooth.append(total / (1 - smoothing ** len(losses)))
            lowest = min(lowest, smooth[-1])
            room = max(smooth[0] - lowest, 0.1 * abs(smooth[0]))
            if smooth[-1] > lowest + EXPLODED * room:
                break
    if len(losses) < 3:
        raise TrainingError(
            f"the loss was finite in {len(losses)} steps only, from rate {low:.3g} on",
            need="at least 3 steps",
            hint="a lower low=",
        )
    done = rates[: len(losses)]
    settled = min(round(1 / (1 - smoothing)), len(losses) // 3)
    suggestion = _steepest(done, smooth, settled)
    return LearningRates(done, np.array(losses), np.array(smooth), suggestion)


@contextlib.contextmanager
def untouched(trainer: Trainer) -> Iterator[None]:
    """Let a block train as it likes, steps that are not finite included, and take all back."""
    state = trainer.state_dict()
    values = {t.name: trainer.values[t.name] for t in trainer.graph.variables}
    config, history, feeds = trainer.config, trainer.history, trainer.last_feeds
    callbacks = trainer.callbacks
    for callback in callbacks:
        trainer.remove_callback(callback)
    trainer.history, trainer.nonfinite = History(), "skip"
    try:
        yield
    finally:
        trainer.config = config
        trainer.load_state_dict(state)
        trainer.history, trainer.last_feeds = history, feeds
        trainer.values.restore(values)
        for callback in callbacks:
            trainer.add_callback(callback)


def _loss(trainer: Trainer, taken: Iterator[Feeds]) -> float:
    """Take one step, of as many batches as it accumulates, and return its loss; NaN at the end."""
    for feeds in taken:
        record = trainer.step(feeds)
        if record is not None:
            return record.metrics["loss"]
    return math.nan


def _endless(trainer: Trainer, data: Any, batch_size: int | None) -> Iterator[Feeds]:
    """Yield batches of shuffled epochs, one epoch after the other."""
    fed = trainer.placeholders
    source = batches(trainer.graph, data, fed, batch_size, shuffle=True, seed=trainer.seed)
    for epoch in itertools.count():
        empty = True
        for feeds, _ in source.epoch(epoch):
            empty = False
            yield feeds
        if empty:
            return


def _steepest(rates: Array, smooth: list[float], first: int) -> float:
    """Return where the loss falls most steeply over log(rate), from ``first`` to its lowest."""
    fall = np.gradient(np.array(smooth), np.log(rates))
    upto = max(first + 2, int(np.argmin(smooth)) + 1)
    at = first + int(np.argmin(fall[first:upto]))
    return float(rates[at]) if fall[at] < 0 else math.nan
