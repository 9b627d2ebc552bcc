"""Progress: the bar that ``fit`` shows."""

from __future__ import annotations

import time
from typing import Any

from ..history import Record
from ..training import Training
from .base import Callback


class Progress(Callback):
    """A tqdm bar over all steps of a fit, as a widget in notebooks and as text elsewhere."""

    def __init__(self, epochs: int | None, total: int | None) -> None:
        self._epochs, self._total = epochs, total
        self._bar: Any = None
        self._shown = 0.0

    def on_fit_start(self, trainer: Training) -> None:
        """Open the bar."""
        from tqdm.auto import tqdm

        self._bar = tqdm(total=self._total, unit="step", dynamic_ncols=True)

    def on_step_end(self, trainer: Training, record: Record) -> None:
        """Move the bar; its text changes ten times a second at most."""
        now = time.perf_counter()
        if now - self._shown > 0.1:
            self._describe(record)
            self._shown = now
        self._bar.update()

    def on_epoch_end(self, trainer: Training, record: Record) -> None:
        """Show the numbers of the epoch."""
        self._describe(record)

    def on_fit_end(self, trainer: Training) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()

    def _describe(self, record: Record) -> None:
        hidden = ("grad_norm", "learning_rate")
        of_all = "" if self._epochs is None else f"/{self._epochs}"
        self._bar.set_description(f"epoch {record.epoch}{of_all}", refresh=False)
        self._bar.set_postfix(
            {k: f"{v:.4g}" for k, v in record.metrics.items() if k not in hidden}, refresh=False
        )
