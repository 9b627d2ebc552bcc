"""Checkpoints: writes a training to disk while it runs, and keeps what is worth keeping."""

from __future__ import annotations

import functools
import logging
import os
import sys
import time
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ...errors import GradwrightError, TrainingError
from ...files.lock import Lock
from ..callbacks import Callback
from ..direction import falls
from ..history import Record
from ..trainer import Trainer
from ..training import Training
from ..validation import swapped_out
from .base import Checksums, left_out
from .folder import Checkpoint, Listing, expendable, leftovers, scan
from .resuming import TRAININGS, folder_of, resume
from .settings import settings_of
from .snapshot import Documents, Lineage, Snapshot, taken
from .writer import Background

LOG = logging.getLogger("gradwright.train")


class Checkpoints(Callback):
    """Writes checkpoints into a folder, from which ``gw.resume`` goes on to the same bits.

    Each is one ``.gw`` archive that appears as a whole or not at all (written beside, fsync,
    renamed, fsync of the folder) with checksums of all it holds. It is taken between two steps, for
    which the training waits some milliseconds, and written beside the training, one at a time.
    While one is being written, those due by steps or seconds wait for it to end and are then taken
    of the step that is reached; at the end of an epoch, the training waits. A checkpoint is also
    taken when ``fit`` ends, be it by an error, Ctrl-C, or SIGTERM, which ends it after its step. In
    a loop of your own over ``trainer.step`` those by steps and seconds are taken, and the step
    waits for the write; the last one is yours to ``save``.

    A write that fails is a TrainingError after the next step. Nothing is lost by it: the training
    is as its last step has left it, earlier checkpoints stay, and ``fit`` goes on. One process at a
    time writes into a folder. Only checkpoints are ever deleted, and none before a newer one is
    safe.

    Args:
        folder: where they are written; made where it is missing. A ``gw.Run`` has one of its own.
        every_epochs: take one at the end of every so many epochs; None for none.
        every_steps: take one after every so many steps.
        every_seconds: take one after the first step so many seconds after the last one.
        keep_last: how many of the newest stay.
        keep_best: how many of the best ends of epochs stay, too.
        monitor: the metric that tells the best, such as ``"val_loss"``.
        mode: ``"min"`` or ``"max"``; needed where the name does not tell, as ``"val_mse"`` does.
        keep_every: those at least so many steps apart stay for good.
        frozen: write what is frozen, too. Without it a checkpoint holds what is trained alone, such
            as adapters, and checksums that tell the model they are for: ``gw.resume`` refuses
            another one.
        asynchronous: write beside the training; otherwise it waits for each write.
        overwrite: accept a folder with checkpoints of another training, which then grow old and
            go as its own do.

    >>> import gradwright as gw, tempfile
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=2.0)
    >>> checkpoints = gw.Checkpoints(tempfile.mkdtemp(), keep_last=2)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25), callbacks=[checkpoints])
    >>> history = trainer.fit([{}], epochs=5, progress=False)
    >>> [c.path.name for c in checkpoints.list()]
    ['step-000000004.gw', 'step-000000005.gw']
    """

    needs_deterministic: ClassVar[bool] = True
    comes_last: ClassVar[bool] = True

    def __init__(
        self,
        folder: Any,
        *,
        every_epochs: int | None = 1,
        every_steps: int | None = None,
        every_seconds: float | None = None,
        keep_last: int = 3,
        keep_best: int = 0,
        monitor: str = "val_loss",
        mode: str | None = None,
        keep_every: int | None = None,
        frozen: bool = True,
        asynchronous: bool = True,
        overwrite: bool = False,
    ) -> None:
        counts = {"every_epochs": every_epochs, "every_steps": every_steps}
        counts |= {"keep_last": keep_last, "keep_every": keep_every}
        for name, value in counts.items():
            if value is not None and (type(value) is not int or value < 1):
                raise TrainingError(f"{name}={value!r} is no number", need="an int >= 1")
        if type(keep_best) is not int or keep_best < 0:
            raise TrainingError(f"keep_best={keep_best!r} is no number", need="an int >= 0")
        if every_seconds is not None and not every_seconds > 0:
            raise TrainingError(f"every_seconds={every_seconds!r} makes no sense", need="> 0")
        if mode not in (None, "min", "max"):
            raise TrainingError(f"mode={mode!r} is not known", need="None, 'min' or 'max'")
        self.folder = folder_of(folder)
        self.every_epochs, self.every_steps = every_epochs, every_steps
        self.every_seconds, self.asynchronous = every_seconds, asynchronous
        self.keep_last, self.keep_best, self.keep_every = keep_last, keep_best, keep_every
        self.monitor, self.mode = monitor, "min" if falls(monitor, mode) else "max"
        self.overwrite, self.frozen = overwrite, frozen
        self._lock = Lock(self.folder / ".lock", f"the folder {str(self.folder)!r}")
        self._background, self._documents = Background(), Documents()
        self._checksums = Checksums()
        self._serial = 0
        """Of the last checkpoint of the folder."""
        self._done: tuple[int, int, int] | None = None
        """Steps, epochs and batches that were done when the last one was taken, or none yet."""
        self._at = 0.0
        """When that was."""
        self._in_fit = False
        self._latest: tuple[Mapping[str, float], bool] = {}, False
        """What was measured last, and whether at the end of an epoch."""

    # -- to use ----------------------------------------------------------------------------------

    def list(self) -> Listing:
        """Return the checkpoints of the folder, the oldest first; its repr is a table."""
        return scan(self.folder)

    def written(self) -> Sequence[Path]:
        """Return the files of the checkpoints."""
        try:
            return [checkpoint.path for checkpoint in self.list()]
        except TrainingError:  # a folder that cannot be read has ended the fit, which says so
            return ()

    def restore(
        self,
        trainer: Trainer,
        which: str | int | os.PathLike[str] = "last",
        *,
        allow: str | Collection[str] = (),
        missing_ok: bool = False,
    ) -> Checkpoint | None:
        """Have a trainer go on from a checkpoint of the folder; see ``gw.resume``."""
        return resume(trainer, self.folder, which, allow=allow, missing_ok=missing_ok)

    def save(self, trainer: Training) -> Checkpoint:
        """Write a checkpoint now, and return it when it is on the disk.

        Call it between steps: in a callback, or when the training is paused or idle. Raises
        TrainingError where it cannot be written, and while the variables hold an average.
        """
        if trainer.swapped:
            raise swapped_out(trainer.swapped)
        self._take(trainer)
        self._background.wait()
        return max(self.list(), key=lambda c: c.serial)

    def __repr__(self) -> str:
        best = f"best by {self.monitor!r}, {self.mode}"
        return f"<Checkpoints in {str(self.folder)!r}: {len(self.list())}, {best}>"

    # -- hooks -----------------------------------------------------------------------------------

    def on_fit_start(self, trainer: Training) -> None:
        """Take the folder for as long as the fit runs."""
        apart = () if self.frozen else left_out(trainer.graph)
        self._documents.of(trainer.graph, trainer.values, apart)  # raises for what no archive holds
        self._open(trainer)
        self._in_fit, self._latest = True, ({}, False)
        self._done, self._at = _place(trainer), time.monotonic()

    def on_step_end(self, trainer: Training, record: Record) -> None:
        """Take a checkpoint if one is due and the last is on the disk."""
        self._background.check()
        self._latest = record.metrics, False
        if not self._in_fit and (self._done is None or self._done[0] >= trainer.steps_done):
            self._begin(trainer, record)
        is_last = record.step == trainer.steps_done  # of the steps that ran as one
        if is_last and self._is_due(trainer) and not self._background.is_busy:
            self._take(trainer)

    def on_epoch_end(self, trainer: Training, record: Record) -> None:
        """Take a checkpoint if one is due, when the last is on the disk."""
        self._background.check()
        self._latest = record.metrics, True
        if self.keep_best and self.monitor not in record.metrics:
            raise TrainingError(
                f"checkpoints are kept by {self.monitor!r}, which is not measured",
                facts=["measured: " + ", ".join(record.metrics)],
                hint="fit(validation=...)" if self.monitor.startswith("val_") else "",
            )
        if self.every_epochs is not None and trainer.epochs_done % self.every_epochs == 0:
            self._take(trainer)

    def on_fit_end(self, trainer: Training) -> None:
        """Take a last checkpoint, and wait until it is on the disk."""
        if not self._in_fit:
            return
        error = sys.exception()
        is_own = error is not None and error is self._background.raised
        is_new = self._done != _place(trainer) and not trainer.swapped
        try:
            if is_new and not is_own and not trainer.is_torn:
                self._take(trainer)
            self._background.wait()
        except GradwrightError as failed:
            if error is None:
                raise
            warnings.warn(str(failed), stacklevel=2)  # what ended the fit is what is raised
        finally:
            self._in_fit = False
            self._lock.release()

    # -- writing ---------------------------------------------------------------------------------

    def _begin(self, trainer: Training, record: Record) -> None:
        """Count from before the first step of a loop of the user's; refuse its folder now."""
        self._done, self._at = (record.step - 1, *_place(trainer)[1:]), time.monotonic()
        if self.every_steps is not None or self.every_seconds is not None:
            self._open(trainer)
            self._lock.release()

    def _open(self, trainer: Training) -> None:
        """Take the folder; raises TrainingError where another training or process has it."""
        self._background.wait()  # else its file would pass for one that a dead process left
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TrainingError(
                f"the folder {str(self.folder)!r} cannot be made: {error.strerror}",
                hint="a folder that this process may write to",
            ) from error
        self._lock.acquire()
        found = self.list()
        if trainer not in TRAININGS:
            TRAININGS[trainer] = Lineage(os.urandom(8).hex(), settings_of(trainer))
        others = [c for c in found if c.training != TRAININGS[trainer].name]
        if others and not self.overwrite:
            self._lock.release()
            raise TrainingError(
                f"the folder {str(self.folder)!r} holds checkpoints of another training",
                facts=[f"{len(others)}, the newest of step {others[-1].step}, {others[-1].time}"],
                hint="gw.resume(trainer, folder) to go on with it, another folder, or "
                "Checkpoints(overwrite=True)",
            )
        self._serial = max((c.serial for c in found), default=0)
        for path in leftovers(self.folder):
            path.unlink(missing_ok=True)

    def _is_due(self, trainer: Training) -> bool:
        every, done = self.every_steps, self._done
        if every is not None and done and trainer.steps_done // every > done[0] // every:
            return True
        return self.every_seconds is not None and time.monotonic() - self._at >= self.every_seconds

    def _take(self, trainer: Training) -> None:
        """Take a snapshot and have it written: in a fit beside the training, else before the end.

        So the folder, which a fit holds, is held no longer than that elsewhere.
        """
        if self._in_fit:
            self._start(trainer, here=not self.asynchronous)
            return
        self._open(trainer)
        try:
            self._start(trainer, here=True)
        finally:
            self._lock.release()

    def _start(self, trainer: Training, *, here: bool) -> None:
        self._background.wait()
        metrics, is_epoch_end = self._latest
        self._done, self._at = _place(trainer), time.monotonic()
        snapshot = taken(
            trainer,
            self._documents,
            lineage=TRAININGS[trainer],
            metrics=metrics,
            is_epoch_end=is_epoch_end,
            monitor=self.monitor,
            mode=self.mode,
            base=None if self.frozen else self._checksums.of(trainer),
        )
        self._serial += 1
        self._background.start(
            functools.partial(self._write, snapshot, self._serial),
            f"writing a checkpoint of step {snapshot.step} into {str(self.folder)!r}",
            here=here,
        )

    def _write(self, snapshot: Snapshot, serial: int) -> None:
        """Write a checkpoint; then, and only then, delete what need not stay."""
        path = snapshot.write(self.folder, serial)
        LOG.debug("checkpoint of step %d: written, %s", snapshot.step, path.name)
        for old in expendable(
            self.list(),
            last=self.keep_last,
            n_best=self.keep_best,
            monitor=self.monitor,
            mode=self.mode,
            every=self.keep_every,
        ):
            old.path.unlink(missing_ok=True)
            LOG.debug("checkpoint of step %d: deleted, as it need not stay", old.step)


def _place(trainer: Training) -> tuple[int, int, int]:
    return trainer.steps_done, trainer.epochs_done, trainer.batches_done
