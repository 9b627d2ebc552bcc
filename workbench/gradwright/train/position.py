"""Position: where a training stands, and how far a fit is, how it ended, how long it will take."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import Terminated, TrainingError
from .stateful import beneath

Totals = dict[str, Any]
"""What batches have measured, summed up by metric."""
LOG = logging.getLogger("gradwright.train")
COUNTERS = ("steps", "epochs", "batches", "skipped", "gathered", "taken")


@dataclass
class Begun:
    """An epoch that has begun, and the window of batches that wait for their update in it.

    Totals are never written into, so a shallow copy keeps the place.
    """

    signature: list[int] = field(default_factory=list)
    """Of the data that the epoch has begun on."""
    batches: int = 0
    """How many of them are done."""
    totals: Totals = field(default_factory=dict)
    """What they have measured."""
    gathered: int = 0
    """Batches whose gradients wait in the window."""
    window: Totals = field(default_factory=dict)
    """What these have measured."""


class Position:
    """What a training has counted, and where it stands within an epoch.

    >>> position = Position()
    >>> position.steps = 3
    >>> position.state_dict()["counters"].tolist()
    [3, 0, 0, 0, 0, 0]
    """

    def __init__(self) -> None:
        self.steps = 0
        """Steps taken; the next one has this number in schedules."""
        self.epochs = 0
        """Epochs that are finished."""
        self.skipped = 0
        """Updates that were not committed, since loss or gradient was not finite."""
        self.taken = 0
        """Batches taken in all; the next one has this number in random keys."""
        self.begun = Begun()
        self.is_bound = False
        """Whether the epoch that has begun must be finished on the same data."""

    def has_begun_on(self, signature: list[int]) -> bool:
        """Return whether the epoch has begun on data of this signature.

        Raises TrainingError where it has not, and must be finished on the same data.
        """
        begun = self.begun
        if signature != begun.signature and self.is_bound:
            raise TrainingError(
                f"epoch {self.epochs + 1} has begun on other data, and {begun.batches} batches of "
                "it are done",
                facts=[f"its signature is {begun.signature}, that of this data {signature}"],
                need="the same rows, batch size and order",
                hint="gw.resume(..., allow='data') begins the epoch anew",
            )
        return signature == begun.signature

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        begun = self.begun
        counters = self.steps, self.epochs, begun.batches, self.skipped, begun.gathered, self.taken
        return {
            "counters": np.array(counters),
            "data": np.array(begun.signature, np.int64),
            **{f"totals/{k}": np.array(v) for k, v in begun.totals.items()},
            **{f"window/{k}": np.array(v) for k, v in begun.window.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` returned; raises TrainingError for other counters."""
        counters, signature = (integers(state[key]) for key in ("counters", "data"))
        if len(counters) != len(COUNTERS) or min(counters) < 0:
            raise TrainingError("this is no state of a trainer: it has other counters")
        self.steps, self.epochs, batches, self.skipped, gathered, self.taken = counters
        totals, window = (
            {name: np.array(v) for name, v in beneath(prefix, state).items()}
            for prefix in ("totals/", "window/")
        )
        self.begun = Begun(signature, batches, totals, gathered, window)


def integers(saved: Any) -> list[int]:
    """Return a saved row of integers; raises TrainingError for what is none."""
    array = np.asarray(saved)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array >= 1 << 62).any():
        raise TrainingError(
            f"this is no state of a trainer: {array.dtype}{list(array.shape)} are no counters"
        )
    return [int(n) for n in array]


@dataclass(frozen=True, slots=True)
class FitProgress:
    """What ``trainer.progress`` returns: the present fit, or the last one, as it was when asked.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25))
    >>> history = trainer.fit([{}, {}], epochs=3, steps=5, progress=False)
    >>> now = trainer.progress
    >>> now.outcome, now.steps, now.total, now.epoch, now.epochs, now.left
    ('finished', 5, 5, 3, 3, 0.0)
    """

    outcome: str
    """``"running"``, ``"finished"``, ``"stopped"``, ``"terminated"`` or ``"failed"``."""
    error: str
    """What a failed fit raised."""
    reason: str
    """Why it ended: what was done, what stopped it, or what it raised; empty while it runs."""
    steps: int
    """Steps of this fit that are done."""
    total: int | None
    """Steps it was asked for; None where the data does not tell its length."""
    per_epoch: int | None
    """Steps of an epoch, where known."""
    epoch: int
    """Number of the present epoch, counted over all fits."""
    epochs: int
    """Number of the last epoch it was asked for, or that its steps need; where the data does not
    tell, of the present one."""
    seconds: float
    """Time spent, without pauses."""
    left: float | None
    """Seconds to go at the mean pace so far, validation included once it has been timed."""


class Fit:
    """The bookkeeping of one fit, from its first step to its end."""

    def __init__(
        self,
        where: Callable[[], tuple[int, int, int, float]],
        epochs: int | None,
        total: int | None,
        per_epoch: int | None,
    ) -> None:
        self._where, self._total, self._per_epoch = where, total, per_epoch
        self._first_step, first_epoch, _, self._began = where()
        self._last_epoch = math.inf if epochs is None else first_epoch + epochs
        self._validation, self._validations = 0.0, 0
        self._final: FitProgress | None = None

    def validated(self, seconds: float) -> None:
        """Note how long a validation took."""
        self._validation += seconds
        self._validations += 1

    def end(self, stopped: bool, reason: str, error: BaseException | None = None) -> None:
        """Note how the fit ended, and why where it raises nothing."""
        outcome, text = "stopped" if stopped else "finished", ""
        if isinstance(error, Exception):
            outcome, text = "failed", f"{type(error).__name__}: {error}"
            reason = text.partition("\n")[0]
        elif isinstance(error, Terminated):
            outcome, reason = "terminated", "SIGTERM"
        elif error is not None:
            reason = "Ctrl-C" if isinstance(error, KeyboardInterrupt) else type(error).__name__
        self._final = self._now(outcome, text, reason)
        LOG.debug("fit: %s after %d steps: %s", outcome, self._final.steps, reason)

    def report(self) -> FitProgress:
        """Return where the fit is, or where it ended."""
        return self._final or self._now("running", "", "")

    def _now(self, outcome: str, error: str, reason: str) -> FitProgress:
        step, epoch, batch, clock = self._where()
        steps, seconds, left = step - self._first_step, clock - self._began, None
        if outcome != "running":
            left = 0.0
        elif steps and self._total is not None:
            to_go = self._total - steps
            left = to_go * (seconds - self._validation) / steps
            if self._validations and self._per_epoch:
                ends = (batch + to_go) // self._per_epoch
                left += ends * self._validation / self._validations
        return FitProgress(
            outcome=outcome,
            error=error,
            reason=reason,
            steps=steps,
            total=self._total,
            per_epoch=self._per_epoch,
            epoch=int(min(epoch + 1, self._last_epoch)),
            epochs=epoch + 1 if self._last_epoch == math.inf else int(self._last_epoch),
            seconds=seconds,
            left=left,
        )
