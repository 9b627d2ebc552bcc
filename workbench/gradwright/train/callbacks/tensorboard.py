"""TensorBoard: writes what a training measures as TensorBoard reads it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import TrainingError
from ..history import Record
from ..training import Training
from .base import Callback


class TensorBoard(Callback):
    """Writes the numbers of steps and epochs into a folder that TensorBoard shows.

    Scalars are called as in ``gw.History``: ``steps/loss`` over steps, ``epochs/val_loss`` over
    the steps at which epochs ended. A training that is resumed goes on in the same folder, and what
    it does again replaces what was written before. Files are written by tensorboardX:
    ``pip install 'gradwright[tensorboard]'``; ``tensorboard --logdir FOLDER`` shows them.

    Args:
        folder: where they are written; made where it is missing.
        every: which steps are written; epochs always are.
        histograms: write the distribution of every parameter at the end of each so many epochs;
            0 for none.

    Raises TrainingError where tensorboardX is missing or the folder cannot be written.

    >>> import gradwright as gw
    >>> gw.train.TensorBoard("logs/first", every=10)
    <TensorBoard in 'logs/first'>
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, every: int = 1, histograms: int = 0
    ) -> None:
        if every < 1 or histograms < 0:
            raise TrainingError(
                f"every={every}, histograms={histograms} make no sense",
                need="every >= 1; histograms >= 0",
            )
        self.folder, self.every, self.histograms = Path(folder), every, histograms
        self._writer: Any = None

    def on_fit_start(self, trainer: Training) -> None:
        """Open a file in the folder, and write the settings."""
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise TrainingError(
                "tensorboardX is not installed", hint="pip install 'gradwright[tensorboard]'"
            ) from None
        done = trainer.steps_done
        options = {
            "purge_step": done + 1 if done else None,
            "filename_suffix": f".{done:09}-{os.urandom(4).hex()}",  # the name has seconds alone
        }
        try:
            self._writer = SummaryWriter(str(self.folder), **options)
        except OSError as error:
            raise TrainingError(
                f"the folder {str(self.folder)!r} cannot be written: {error.strerror}",
                hint="a folder that this process may write to",
            ) from error
        self._writer.add_text("optimizer", repr(trainer.optimizer), done)

    def on_step_end(self, trainer: Training, record: Record) -> None:
        """Write the numbers of the step."""
        if record.step % self.every == 0:
            self._write("steps", record)

    def on_epoch_end(self, trainer: Training, record: Record) -> None:
        """Write the numbers of the epoch, and parameters where that is due."""
        self._write("epochs", record)
        if self.histograms and record.epoch % self.histograms == 0:
            for t in trainer.parameters:
                values = trainer.values[t.name].astype(np.float32)
                if np.isfinite(values).any():
                    self._writer.add_histogram(t.name, values[np.isfinite(values)], record.step)

    def on_fit_end(self, trainer: Training) -> None:
        """Close the file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _write(self, table: str, record: Record) -> None:
        for name, value in record.metrics.items():
            self._writer.add_scalar(f"{table}/{name}", value, record.step)

    def __repr__(self) -> str:
        return f"<TensorBoard in {str(self.folder)!r}>"
