"""Limits: a training ends after so many steps, so much time, at a score, or when it diverges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import TrainingError
from ..direction import falls
from ..history import Record
from ..training import Training
from .stopping import Stopping, measured

FLOOR = 0.01
"""A loss that has fallen below this part of the first one may rise from there to any multiple."""


class MaxSteps(Stopping):
    """Stop when the training has taken ``steps`` steps, those of earlier fits included.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> trainer = gw.Trainer(g, w * w, callbacks=[gw.train.MaxSteps(3)])
    >>> trainer.fit([{}, {}], epochs=9, progress=False).steps.rows
    3
    """

    def __init__(self, steps: int) -> None:
        if steps < 1:
            raise TrainingError(f"steps={steps} is no number of steps", need="at least 1")
        self.steps = steps

    def on_step_end(self, trainer: Training, record: Record) -> None:
        """Stop at the last one."""
        if record.step >= self.steps:
            self.end(trainer, f"{record.step:,} steps are done")


class TimeLimit(Stopping):
    """Stop when training has taken ``seconds``, without pauses, those of earlier fits included.

    The step that is running then is finished.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> limit = gw.train.TimeLimit(0.01)
    >>> trainer = gw.Trainer(g, w * w, callbacks=[limit])
    >>> history = trainer.fit([{}] * 1000, epochs=1000, progress=False)
    >>> trainer.progress.outcome, limit.reason[-10:]
    ('stopped', ' have gone')
    """

    def __init__(self, seconds: float) -> None:
        if not 0 < seconds < math.inf:
            raise TrainingError(f"seconds={seconds} is no time", need="a positive number")
        self.seconds = seconds

    def on_step_end(self, trainer: Training, record: Record) -> None:
        """Stop when the time is over."""
        if record.seconds >= self.seconds:
            self.end(trainer, f"{self.seconds:g} s have gone")

    def on_epoch_end(self, trainer: Training, record: Record) -> None:
        """Count the validation, too."""
        self.on_step_end(trainer, record)


class ScoreReached(Stopping):
    """Stop after the first epoch in which a metric is as good as ``target``.

    ``mode`` is ``"min"`` or ``"max"``; it is needed where the name does not tell which is better,
    as ``"val_mse"`` does. Raises TrainingError at the end of an epoch that does not measure
    ``monitor``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> reached = gw.train.ScoreReached("loss", 0.5)
    >>> sgd = gw.optim.SGD(0.25)                            # halves w in each step
    >>> trainer = gw.Trainer(g, w * w, optimizer=sgd, callbacks=[reached])
    >>> trainer.fit([{}], epochs=9, progress=False).epochs["loss"].tolist(), reached.reason
    ([4.0, 1.0, 0.25], 'loss = 0.25 has reached 0.5')
    """

    def __init__(self, monitor: str, target: float, *, mode: str | None = None) -> None:
        if mode not in (None, "min", "max") or not math.isfinite(target):
            raise TrainingError(
                f"target={target}, mode={mode!r} make no sense",
                need="a finite target; mode None, 'min' or 'max'",
            )
        self.monitor, self.target = monitor, target
        self.mode = "min" if falls(monitor, mode) else "max"

    def on_epoch_end(self, trainer: Training, record: Record) -> None:
        """Compare with the target."""
        value = measured(record, self.monitor, "ScoreReached")
        if (value <= self.target) if self.mode == "min" else (value >= self.target):
            self.end(trainer, f"{self.monitor} = {value:.4g} has reached {self.target:.4g}")

    def __repr__(self) -> str:
        return f"<ScoreReached on {self.monitor!r}, {self.mode}: target {self.target:.4g}>"


class Divergence(Stopping):
    """Stop when the loss explodes, or when no step can be taken any more.

    The loss l is smoothed, sₜ = 0.9·sₜ₋₁ + 0.1·lₜ, without the bias to 0 of the first steps; it
    explodes when s > m + (factor − 1)·max(|m|, |l₁|/100), m being the lowest s so far: when it is
    ``factor`` times the lowest, unless that is next to nothing.

    Args:
        factor: over 1.
        after: steps at the begin in which a loss may rise as it likes.
        skips: so many steps in a row that were skipped, as ``nonfinite="skip"`` does with those
            whose loss or gradient is not finite. A loss scale that is still too large skips a few.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=1.0)
    >>> watch = gw.train.Divergence(factor=4, after=0)
    >>> sgd = gw.optim.SGD(1.1)                            # multiplies w by -1.2
    >>> trainer = gw.Trainer(g, w * w, optimizer=sgd, callbacks=[watch])
    >>> trainer.fit([{}] * 99, progress=False).steps.rows, watch.reason
    (7, 'the loss explodes: about 4.39, the lowest was 1')
    """

    def __init__(self, factor: float = 10.0, *, after: int = 50, skips: int = 20) -> None:
        if not 1 < factor < math.inf or after < 0 or skips < 1:
            raise TrainingError(
                f"factor={factor}, after={after}, skips={skips} make no sense",
                need="factor > 1; after >= 0; skips >= 1",
            )
        self.factor, self.after, self.skips = factor, after, skips
        self.forget()
        self._row = 0

    def forget(self) -> None:
        """Forget the losses so far."""
        self._seen, self._sum, self._first, self._lowest = 0, 0.0, 0.0, math.inf

    def on_fit_start(self, trainer: Training) -> None:
        """Count the steps that are skipped from here on."""
        super().on_fit_start(trainer)
        self._row = 0

    def on_step_end(self, trainer: Training, record: Record) -> None:
        """Compare the smoothed loss with its lowest."""
        loss = record.metrics["loss"]
        if not (math.isfinite(loss) and math.isfinite(record.metrics["grad_norm"])):
            self._row += 1
            if self._row >= self.skips:
                self.end(trainer, f"{self._row} steps in a row were not finite")
            return
        self._row = 0
        if not self._seen:
            self._first = loss
        self._seen += 1
        self._sum = 0.9 * self._sum + 0.1 * loss
        smooth = self._sum / (1 - 0.9**self._seen)
        room = (self.factor - 1) * max(abs(self._lowest), FLOOR * abs(self._first))
        if self._seen > max(1, self.after) and smooth > self._lowest + room:
            self.end(
                trainer,
                f"the loss explodes: about {smooth:.3g}, the lowest was {self._lowest:.3g}",
            )
        self._lowest = min(self._lowest, smooth)

    def state_dict(self) -> dict[str, Any]:
        """Return the smoothed loss and its lowest."""
        return {"loss": np.array([self._seen, self._sum, self._first, self._lowest])}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` returned."""
        seen, *rest = np.asarray(state["loss"], np.float64).tolist()
        self._seen, (self._sum, self._first, self._lowest) = int(seen), rest
        self._trainer = None
