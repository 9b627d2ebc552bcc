"""Callbacks: hooks into training; each is called between steps, never during one."""

from __future__ import annotations

import difflib
import math
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import TrainingError
from .history import Record

if TYPE_CHECKING:
    from .trainer import Trainer


@dataclass(frozen=True, slots=True)
class Change:
    """What a step did to a parameter; its arrays are not written any more and may be kept.

    >>> import gradwright as gw
    >>> class Moves(gw.Callback):
    ...     def wants_changes(self, trainer): return trainer.steps_done % 100 == 0
    ...     def on_changes(self, trainer, record, changes):
    ...         print(record.step, changes["w"].gradient, changes["w"].after - changes["w"].before)
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25), callbacks=[Moves()])
    >>> record = trainer.step({})
    1 4.0 -1.0
    """

    gradient: np.ndarray[Any, Any] | None
    """Before clipping; None if the step did not train the parameter."""
    before: np.ndarray[Any, Any]
    after: np.ndarray[Any, Any]


class Callback:
    """Base of training hooks; override what you need.

    A callback may read and set values, freeze, change the optimizer, and call ``trainer.stop()``.

    >>> import gradwright as gw
    >>> class Print(gw.Callback):
    ...     def on_step_end(self, trainer, record): print(record.step, record.metrics["loss"])
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25), callbacks=[Print()])
    >>> history = trainer.fit([{}], epochs=2, progress=False)
    1 4.0
    2 1.0
    """

    def on_fit_start(self, trainer: Trainer) -> None:
        """Called before the first step of ``fit``."""

    def wants_changes(self, trainer: Trainer) -> bool:
        """Tell before a step whether ``on_changes`` shall get what it does to each parameter."""
        return False

    def on_changes(self, trainer: Trainer, record: Record, changes: Mapping[str, Change]) -> None:
        """Called before ``on_step_end`` if ``wants_changes`` was true, with changes by name."""

    def on_step_end(self, trainer: Trainer, record: Record) -> None:
        """Called when a step has been committed."""

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        """Called after the validation of an epoch; ``record.metrics`` has means and ``val_...``."""

    def on_pause(self, trainer: Trainer) -> None:
        """Called when the training has been paused, between two steps."""

    def on_resume(self, trainer: Trainer) -> None:
        """Called before a paused training takes its next step, or ends."""

    def on_fit_end(self, trainer: Trainer) -> None:
        """Called when ``fit`` ends, however it ends; ``trainer.progress.outcome`` tells how."""


class EarlyStopping(Callback):
    """Stop when a metric has not improved for ``patience`` epochs, and go back to its best values.

    The best values are those of the variables, running means included, not of the optimizer. They
    are restored when this callback stops the training, not when it ends for another reason, so
    that an interrupted run can go on.

    Args:
        monitor: a name in the records of epochs, such as ``"val_loss"`` or ``"accuracy"``.
        patience: epochs in a row without improvement after which to stop.
        min_delta: what counts as improvement.
        mode: ``"min"`` or ``"max"``; by default loss falls and everything else rises.
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
        falls = mode == "min" if mode else monitor.rpartition("_")[2] in ("loss", "error")
        self._sign = 1.0 if falls else -1.0
        self.restore_best = restore_best
        self.best, self.best_epoch, self.waited = math.inf * self._sign, 0, 0
        self._values: dict[str, np.ndarray[Any, Any]] = {}

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        """Compare with the best epoch so far."""
        value = record.metrics.get(self.monitor)
        if value is None:
            raise TrainingError(
                f"early stopping watches {self.monitor!r}, which is not measured",
                facts=["measured: " + ", ".join(record.metrics)],
                hint=self._hint(record.metrics),
            )
        if self._sign * (self.best - value) > self.min_delta:
            self.best, self.best_epoch, self.waited = value, record.epoch, 0
            if self.restore_best:
                self._values = {t.name: trainer.values[t.name] for t in trainer.graph.variables}
            return
        self.waited += 1
        if self.waited >= self.patience:
            self.waited = 0
            trainer.stop()
            if self.restore_best:
                trainer.values.restore(self._values)

    def _hint(self, measured: Collection[str]) -> str:
        validated = any(name.startswith("val_") for name in measured)
        if self.monitor.startswith("val_") and not validated:
            return "fit(validation=...)"
        close = difflib.get_close_matches(self.monitor, measured, 1)
        return f"EarlyStopping({close[0]!r})" if close else ""

    def __repr__(self) -> str:
        return f"<EarlyStopping on {self.monitor!r}: best {self.best:.4g}, epoch {self.best_epoch}>"


class Progress(Callback):
    """A tqdm bar over all steps of a fit, as a widget in notebooks and as text elsewhere."""

    def __init__(self, epochs: int, total: int | None) -> None:
        self._epochs, self._total = epochs, total
        self._bar: Any = None
        self._shown = 0.0

    def on_fit_start(self, trainer: Trainer) -> None:
        """Open the bar."""
        from tqdm.auto import tqdm

        self._bar = tqdm(total=self._total, unit="step", dynamic_ncols=True)

    def on_step_end(self, trainer: Trainer, record: Record) -> None:
        """Move the bar; its text changes ten times a second at most."""
        now = time.perf_counter()
        if now - self._shown > 0.1:
            self._describe(record)
            self._shown = now
        self._bar.update()

    def on_epoch_end(self, trainer: Trainer, record: Record) -> None:
        """Show the numbers of the epoch."""
        self._describe(record)

    def on_fit_end(self, trainer: Trainer) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()

    def _describe(self, record: Record) -> None:
        hidden = ("grad_norm", "learning_rate")
        self._bar.set_description(f"epoch {record.epoch}/{self._epochs}", refresh=False)
        self._bar.set_postfix(
            {k: f"{v:.4g}" for k, v in record.metrics.items() if k not in hidden}, refresh=False
        )


def is_watched() -> bool:
    """Tell whether somebody sees a progress bar: a terminal, or a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel") or sys.stderr.isatty()
