"""FitProgress: how far a fit is, how it ended, and how long the rest will take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


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
    """``"running"``, ``"finished"``, ``"stopped"`` or ``"failed"``."""
    error: str
    """What a failed fit raised."""
    steps: int
    """Steps of this fit that are done."""
    total: int | None
    """Steps it was asked for; None where the data does not tell its length."""
    per_epoch: int | None
    """Steps of an epoch, where known."""
    epoch: int
    """Number of the present epoch, counted over all fits."""
    epochs: int
    """Number of the last epoch it was asked for."""
    seconds: float
    """Time spent, without pauses."""
    left: float | None
    """Seconds to go at the mean pace so far, validation included once it has been timed."""


class Fit:
    """The bookkeeping of one fit, from its first step to its end."""

    def __init__(
        self,
        where: Callable[[], tuple[int, int, int, float]],
        epochs: int,
        total: int | None,
        per_epoch: int | None,
    ) -> None:
        self._where, self._total, self._per_epoch = where, total, per_epoch
        self._first_step, first_epoch, _, self._began = where()
        self._last_epoch = first_epoch + epochs
        self._validation, self._validations = 0.0, 0
        self._final: FitProgress | None = None

    def validated(self, seconds: float) -> None:
        """Note how long a validation took."""
        self._validation += seconds
        self._validations += 1

    def end(self, stopped: bool, error: BaseException | None = None) -> None:
        """Note how the fit ended."""
        outcome, text = "stopped" if stopped else "finished", ""
        if isinstance(error, Exception):
            outcome, text = "failed", f"{type(error).__name__}: {error}"
        self._final = self._now(outcome, text)

    def report(self) -> FitProgress:
        """Return where the fit is, or where it ended."""
        return self._final or self._now("running", "")

    def _now(self, outcome: str, error: str) -> FitProgress:
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
            steps=steps,
            total=self._total,
            per_epoch=self._per_epoch,
            epoch=min(epoch + 1, self._last_epoch),
            epochs=self._last_epoch,
            seconds=seconds,
            left=left,
        )
