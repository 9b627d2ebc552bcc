"""ReduceLROnPlateau: the learning rate falls when a metric improves no more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import TrainingError
from ..direction import falls
from ..history import Record
from ..optim import Optimizer
from ..schedules import Product, Schedule
from ..training import Training
from .stopping import Remembering, measured


class ReduceLROnPlateau(Remembering):
    """Multiply the learning rate by ``factor`` when a metric has not improved for some epochs.

    After more than ``patience`` epochs in a row without improvement, lr ← max(factor·lr, min_lr),
    for every optimizer, unless that is a fall of ``eps`` at most; as torch's scheduler of this
    name. A rate that is a schedule is multiplied as a whole, and floored as it is at that step.
    Reduced rates are settings of the trainer, which ``gw.resume`` takes over.

    Args:
        monitor: a name in the records of epochs, such as ``"val_loss"``.
        factor: from 0 to below 1.
        patience: how many epochs without improvement are let go by.
        threshold: what counts as improvement on the best b: with ``"rel"`` less than
            b·(1 − threshold), or more than b·(1 + threshold); with ``"abs"`` b ∓ threshold.
        threshold_mode: ``"rel"`` or ``"abs"``.
        cooldown: epochs after a reduction in which none counts as bad.
        min_lr: no rate falls below this.
        eps: a smaller fall is none.
        mode: ``"min"`` or ``"max"``; needed where the name does not tell, as ``"val_mse"`` does.

    Raises TrainingError for numbers out of range, and at the end of an epoch that does not measure
    ``monitor``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=1.0)
    >>> plateau = gw.train.ReduceLROnPlateau("loss", factor=0.5, patience=0)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(1.0), callbacks=[plateau])
    >>> history = trainer.fit([{}], epochs=4, progress=False)       # w: -1, 1, 0, 0
    >>> history.steps["learning_rate"].tolist(), plateau.reductions
    ([1.0, 1.0, 0.5, 0.25], 2)
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        *,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0.0,
        eps: float = 1e-8,
        mode: str | None = None,
    ) -> None:
        if not 0 <= factor < 1:
            raise TrainingError(f"factor={factor!r} reduces nothing", need="0 <= factor < 1")
        for name, value in {"patience": patience, "cooldown": cooldown}.items():
            if type(value) is not int or value < 0:
                raise TrainingError(f"{name}={value!r} are no epochs", need="an int >= 0")
        for name, number in {"threshold": threshold, "min_lr": min_lr, "eps": eps}.items():
            if not 0 <= number < math.inf:
                raise TrainingError(f"{name}={number!r} is out of range", need=f"{name} >= 0")
        if threshold_mode not in ("rel", "abs") or mode not in (None, "min", "max"):
            raise TrainingError(
                f"threshold_mode={threshold_mode!r}, mode={mode!r} make no sense",
                need="threshold_mode 'rel' or 'abs'; mode None, 'min' or 'max'",
            )
        self.monitor, self.factor, self.patience = monitor, factor, patience
        self.threshold, self.threshold_mode, self.cooldown = threshold, threshold_mode, cooldown
        self.min_lr, self.eps = min_lr, eps
        self.mode = "min" if falls(monitor, mode) else "max"
        self.forget()

    def forget(self) -> None:
        """Forget the best epoch; rates stay as they are."""
        self.best = math.inf if self.mode == "min" else -math.inf
        self.bad_epochs, self.cooling = 0, 0
        self.reductions = 0
        """How often the rate was to be reduced."""

    def on_epoch_end(self, trainer: Training, record: Record) -> None:
        """Compare with the best so far, and reduce the rate where that is due."""
        value = measured(record, self.monitor, "ReduceLROnPlateau")
        if self._is_better(value):
            self.best, self.bad_epochs = value, 0
        else:
            self.bad_epochs += 1
        if self.cooling:
            self.cooling, self.bad_epochs = self.cooling - 1, 0
        if self.bad_epochs > self.patience:
            self._reduce(trainer)
            self.cooling, self.bad_epochs = self.cooldown, 0
            self.reductions += 1

    def _is_better(self, value: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        if self.threshold_mode == "rel":
            bound = self.best * (1.0 + sign * self.threshold)
        else:
            bound = self.best + sign * self.threshold
        return value < bound if self.mode == "min" else value > bound

    def _reduce(self, trainer: Training) -> None:
        config, step = trainer.config, trainer.steps_done
        groups = [
            g if g.optimizer is None else replace(g, optimizer=self._reduced(g.optimizer, step))
            for g in config.groups
        ]
        trainer.config = config.but(
            optimizer=self._reduced(config.optimizer, step), groups=tuple(groups)
        )

    def _reduced(self, optimizer: Optimizer, step: int) -> Optimizer:
        """Return an optimizer with its rate reduced, as far as that is possible."""
        rate: float | Schedule = optimizer.learning_rate
        present = optimizer.rate(step)
        lower = max(present * self.factor, self.min_lr)
        if not present - lower > self.eps:
            return optimizer
        if not callable(rate):
            return replace(optimizer, learning_rate=lower)
        first, *rest = rate.factors if isinstance(rate, Product) else (1.0, rate)
        if callable(first):
            first, rest = 1.0, [first, *rest]
        return replace(optimizer, learning_rate=Product((first * lower / present, *rest)))

    def state_dict(self) -> dict[str, Any]:
        """Return the best value, and how long it has been."""
        counts = self.best, self.bad_epochs, self.cooling, self.reductions
        return {"plateau": np.array(counts, np.float64)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` returned."""
        best, *counts = np.asarray(state["plateau"], np.float64).tolist()
        self.bad_epochs, self.cooling, self.reductions = map(int, counts)
        self.best, self._trainer = best, None

    def __repr__(self) -> str:
        return f"<ReduceLROnPlateau on {self.monitor!r}, {self.mode}: best {self.best:.4g}>"
