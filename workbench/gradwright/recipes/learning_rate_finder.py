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
from ..train.history import History

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ..train.trainer import Trainer

Array = np.ndarray[Any, Any]
EXPLODED = 4.0
"""The test ends when the smoothed loss is so many times above its lowest, as far as it has fallen
from the first one, or half of that one."""
SWEEP = 100
"""More steps than this are several sweeps, each from where the trainer stands and with every n-th
rate: the loss falls with the sum of the rates, so in a sweep of 1000 it falls at a tenth of the
rate that it takes in one of 100, and the answer would hang on the number of steps."""
DONE = 0.9
"""The suggestion is the rate where so much of the fall of the smoothed loss is done: beyond, it may
be flat for long, and divergence is near. The steepest descent, the rule in common use, is noise
where there are many steps: for a digits network, 50 to 1000 steps and six orders of the data it
differed 10⁶-fold, and this rule 5-fold."""
SURE = 2.0
"""A fall counts that is so many times the standard error of the smoothed loss."""


@dataclass(frozen=True, repr=False)
class LearningRates:
    """What a range test has found: ``gw.train.find_learning_rate`` returns one."""

    rates: Array
    """f64[n]."""
    losses: Array
    """f64[n], of the batch of each step, before the step."""
    smooth: Array
    """f64[n], their means, weighted by how near in log(rate) they are. What is above twice the
    first losses counts as twice, so that one explosion is not all that is seen."""
    suggestion: float
    """Where nine tenths of the fall of the smoothed loss are done; NaN if it never falls."""
    reason: str = ""
    """Why there is no suggestion, or what to know of it."""

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
        found = f"suggestion {self.suggestion:.2g}" if math.isfinite(self.suggestion) else "none"
        because = f", {self.reason}" if self.reason else ""
        return (
            f"<LearningRates {self.rates[0]:.2g} to {self.rates[-1]:.2g} in {len(self.rates)} "
            f"steps: {found}{because}>"
        )


def find_learning_rate(
    trainer: Trainer,
    data: Any,
    low: float = 1e-7,
    high: float = 10.0,
    steps: int = 100,
    *,
    batch_size: int | None = None,
    smoothing: float = 0.5,
) -> LearningRates:
    """Take ``steps`` steps with rates that grow from ``low`` to ``high``, and take all back.

    rateₖ = low·(high/low)^(k/(steps−1)). The test ends early when the loss explodes. More than 150
    steps are several sweeps over the rates, from the same values on, with other batches. The losses
    are smoothed with a bell whose standard deviation is ``smoothing`` decades of the rate; a good
    rate is where nine tenths of their fall are done; where they are lowest is too much. There is no
    suggestion where the loss never falls by more than its noise; ``reason`` says so. Values,
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
    if not 0 < low < high < math.inf or steps < 3 or not 0 < smoothing < math.inf:
        raise TrainingError(
            f"low={low}, high={high}, steps={steps}, smoothing={smoothing} make no sense",
            need="0 < low < high; steps >= 3; 0 < smoothing < inf",
        )
    if trainer.status != "idle":
        raise TrainingError(f"the trainer is {trainer.status}", hint="trainer.stop()")
    rates = np.geomspace(low, high, steps)
    taken = _endless(trainer, data, batch_size)
    losses, sweeps = np.full(steps, np.nan), max(1, round(steps / SWEEP))
    for sweep in range(sweeps):
        with untouched(trainer):
            losses[sweep::sweeps] = _sweep(trainer, taken, rates[sweep::sweeps], smoothing)
    losses = losses[: int(np.argmax(np.isnan(np.append(losses, np.nan))))]
    if len(losses) < 3:
        raise TrainingError(
            f"the loss was finite in {len(losses)} steps only, from rate {low:.3g} on",
            need="at least 3 steps",
            hint="a lower low=",
        )
    return _concluded(rates[: len(losses)], losses, smoothing, len(losses) < steps)


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


def _sweep(trainer: Trainer, taken: Iterator[Feeds], rates: Array, width: float) -> Array:
    """Take a step at each rate and return the losses, NaN from where they have exploded."""
    losses = np.full(len(rates), np.nan)
    lowest = math.inf
    for k, rate in enumerate(rates.tolist()):
        trainer.optimizer = replace(trainer.optimizer, learning_rate=rate)
        losses[k] = _loss(trainer, taken)
        if not math.isfinite(losses[k]):
            losses[k] = math.nan
            break
        latest = _smoothed(rates[: k + 1], losses[: k + 1], width, last=True).item()
        lowest = min(lowest, latest)
        if latest > lowest + EXPLODED * max(losses[0] - lowest, 0.5 * abs(losses[0])):
            break
    return losses


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


def _concluded(rates: Array, losses: Array, width: float, exploded: bool) -> LearningRates:
    """Return what the losses say: the rate where most of their fall is done, if they fall."""
    start = float(np.median(losses[: max(3, len(losses) // 10)]))
    held = np.minimum(losses, start + abs(start))
    smooth = _smoothed(rates, held, width)
    at = int(np.argmin(smooth))
    # a bell that is wide by so many steps is a mean of 2·√π times as many, and half a bell of half
    per_step = math.log10(rates[1] / rates[0])
    many = max(math.sqrt(math.pi) * width / per_step, 1.0)
    noise = float(np.std(np.diff(held[: at + 1]))) / math.sqrt(2 * many) if at else 0.0
    fall = float(smooth[0] - smooth[at])
    if fall <= SURE * noise:
        reason = f"the loss falls by {fall:.2g}, which is no more than noise"
        return LearningRates(rates, losses, smooth, math.nan, reason)
    last = at == len(rates) - 1 and not exploded
    reason = (
        "the loss still falls at the highest rate: a higher high= may find more" if last else ""
    )
    done = int(np.argmax(smooth <= smooth[at] + (1 - DONE) * fall))
    return LearningRates(rates, losses, smooth, float(rates[done]), reason)


def _smoothed(rates: Array, losses: Array, width: float, *, last: bool = False) -> Array:
    """Return the means of the losses under a bell over log10(rate), or the last of them alone."""
    x = np.log10(rates)
    middle = x[-1:] if last else x
    weights = np.exp(-0.5 * ((x - middle[:, None]) / width) ** 2)
    means: Array = weights @ losses / weights.sum(1)
    return means
