"""Stopping: a training ends when a metric improves no more; what else ends one builds on this."""

from __future__ import annotations

import difflib
import math
import weakref
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ...errors import TrainingError
from ..direction import falls
from ..history import Record
from ..stateful import beneath
from ..training import Training
from .base import Callback

Arrays = Mapping[str, np.ndarray[Any, Any]]
KEPT = ("value/", "average/", "last/", "last_average/")
"""What names begin with in the state of early stopping: of the values of the best epoch and of the
state of the average that is validated, and of both as they were when the epochs ran out."""


class Remembering(Callback):
    """Base of callbacks with state of one training: another trainer begins afresh."""

    _trainer: weakref.ref[Training] | None = None
    """Whose state this is; None for that of whichever trainer comes next."""

    def on_fit_start(self, trainer: Training) -> None:
        """Forget all that was of another trainer."""
        if self._trainer is not None and self._trainer() is not trainer:
            self.forget()
        self._trainer = weakref.ref(trainer)

    def forget(self) -> None:
        """Begin afresh; what has state sets it to its beginning."""


class Stopping(Remembering):
    """Base of callbacks that end a training; ``reason`` says why, and is empty if they did not.

    >>> import gradwright as gw
    >>> class Once(gw.train.Stopping):
    ...     def on_step_end(self, trainer, record): self.end(trainer, "one step is enough")
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> once = Once()
    >>> trainer = gw.Trainer(g, w * w, callbacks=[once])
    >>> trainer.fit([{}], epochs=5, progress=False).steps.rows, once.reason
    (1, 'one step is enough')
    """

    reason = ""

    def on_fit_start(self, trainer: Training) -> None:
        """Forget why an earlier fit ended, and all that was of another trainer."""
        self.reason = ""
        super().on_fit_start(trainer)

    def end(self, trainer: Training, reason: str) -> None:
        """Have ``fit`` return after the present step."""
        self.reason = reason
        trainer.stop()


def measured(record: Record, monitor: str, what: str) -> float:
    """Return a number of a record; raises TrainingError, with what is measured, if it has none."""
    value = record.metrics.get(monitor)
    if value is None:
        raise TrainingError(
            f"{what} watches {monitor!r}, which is not measured",
            facts=["measured: " + ", ".join(record.metrics)],
            hint=_hint(monitor, record.metrics),
        )
    return value


def _hint(monitor: str, measured: Collection[str]) -> str:
    if monitor.startswith("val_") and not any(name.startswith("val_") for name in measured):
        return "fit(validation=...)"
    close = difflib.get_close_matches(monitor, measured, 1)
    return f"monitor={close[0]!r}" if close else ""


class EarlyStopping(Stopping):
    """Stop when a metric has not improved for ``patience`` epochs, and go back to its best values.

    The best values are those of the variables, running means included, and of the average that
    ``fit`` validates, if there is one, so that ``trainer.evaluate`` gives the best score again; not
    those of the optimizer. They are restored when this callback stops the training, and when the
    epochs of a ``fit`` run out; not when it ends for another reason, so that an interrupted run can
    go on. A further ``fit`` of the same trainer knows what was best so far; where epochs had run
    out, it goes on from the last values, unless others were set meanwhile, to the numbers of one
    longer ``fit``. Another trainer begins afresh; one that is resumed from where this callback has
    stopped it stays stopped for one ``fit``.

    Args:
        monitor: a name in the records of epochs, such as ``"val_loss"`` or ``"accuracy"``.
        patience: epochs in a row without improvement after which to stop.
        min_delta: what counts as improvement.
        mode: ``"min"`` or ``"max"``; needed where the name does not tell, as ``"val_mse"`` does.
        restore_best: whether to set the variables to the best epoch's values.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=1.0)
    >>> stopping = gw.EarlyStopping("loss", patience=1)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(1.0), callbacks=[stopping])
    >>> history = trainer.fit([{}], epochs=100, progress=False)     # 1, then -1, then 1 ...
    >>> history.epochs.rows, stopping.best_epoch
    (2, 1)
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        *,
        patience: int = 5,
        min_delta: float = 0.0,
        mode: str | None = None,
        restore_best: bool = True,
    ) -> None:
        if mode not in (None, "min", "max") or patience < 1 or min_delta < 0:
            raise TrainingError(
                f"mode={mode!r}, patience={patience}, min_delta={min_delta} make no sense",
                need="mode None, 'min' or 'max'; patience >= 1; min_delta >= 0",
            )
        self.monitor, self.patience, self.min_delta = monitor, patience, min_delta
        self.mode = "min" if falls(monitor, mode) else "max"
        self._sign = 1.0 if self.mode == "min" else -1.0
        self.restore_best = restore_best
        self.forget()

    def forget(self) -> None:
        """Forget the best epoch."""
        self.best, self.best_epoch, self.waited = math.inf * self._sign, 0, 0
        self._has_stopped = False
        self._values: Arrays = {}
        self._average: Arrays = {}
        self._last: Arrays = {}
        """What the variables held when the epochs ran out, and the best values took their place."""
        self._last_average: Arrays = {}

    def on_fit_start(self, trainer: Training) -> None:
        """End at once where a stop was saved; go on from the last values where epochs ran out."""
        was_saved = self._trainer is None and self._has_stopped
        super().on_fit_start(trainer)
        if was_saved:
            self._end(trainer)
        self._has_stopped = False
        held = trainer.values
        if self._last and all(np.array_equal(held[n], a) for n, a in self._values.items()):
            held.restore(self._last)
            trainer.restore_averaging(self._last_average)
        self._last, self._last_average = {}, {}

    def on_epoch_end(self, trainer: Training, record: Record) -> None:
        """Compare with the best epoch so far."""
        value = measured(record, self.monitor, "early stopping")
        if self._sign * (self.best - value) > self.min_delta:
            self.best, self.best_epoch, self.waited = value, record.epoch, 0
            if self.restore_best:
                self._values, self._average = _present(trainer)
            return
        self.waited += 1
        if self.waited >= self.patience:
            self.waited = 0
            self._has_stopped = True
            self._end(trainer)

    def on_fit_end(self, trainer: Training) -> None:
        """Go back to the best epoch where the epochs ran out after it."""
        progress = trainer.progress
        ran_out = progress is not None and progress.outcome == "finished"
        if ran_out and not trainer.batches_done and self._values and self.waited:
            self._last, self._last_average = _present(trainer)
            trainer.values.restore(self._values)
            trainer.restore_averaging(self._average)

    def _end(self, trainer: Training) -> None:
        self.end(
            trainer,
            f"{self.monitor} has not improved for {self.patience} epochs "
            f"since {self.best:.4g} in epoch {self.best_epoch}",
        )
        if self.restore_best:
            trainer.values.restore(self._values)
            trainer.restore_averaging(self._average)

    def state_dict(self) -> dict[str, Any]:
        """Return the best epoch, with its values, and how long it has been."""
        counts = self.best_epoch, self.waited, self._has_stopped
        best = np.array([self.best, *counts], np.float64)
        held = zip(KEPT, (self._values, self._average, self._last, self._last_average), strict=True)
        return {"best": best} | {f"{kind}{n}": a for kind, some in held for n, a in some.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` returned."""
        best, epoch, waited, stopped = np.asarray(state["best"], np.float64).tolist()
        self.best, self.best_epoch, self.waited = best, int(epoch), int(waited)
        self._has_stopped = bool(stopped)
        self._values, self._average, self._last, self._last_average = (
            beneath(kind, state) for kind in KEPT
        )
        self._trainer = None

    def __repr__(self) -> str:
        best = f"best {self.best:.4g}, epoch {self.best_epoch}"
        return f"<EarlyStopping on {self.monitor!r}, {self.mode}: {best}>"


def _present(trainer: Training) -> tuple[Arrays, Arrays]:
    """Return the values of all variables, and the state of the average that is validated.

    Those of variables that are renamed later are renamed with them.
    """
    names = [t.name for t in trainer.graph.variables]
    return trainer.values.snapshot(names), trainer.averaging()
