"""Run: records a training in a folder while it goes on."""

from __future__ import annotations

import json
import math
import os
import platform
import secrets
import time
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import TrainingError
from ..files.lock import Lock
from ..files.plain import check_plain
from ..files.whole import replacing
from ..train.callbacks import Recorder, Stopping
from ..train.history import Record
from ..train.training import Training
from .about import described
from .events import EventWriter, plain
from .folder import CONFIG, EVENTS, FORMAT, LOCK, RunFolder, RunSummary, is_run
from .store import Store


class Run(Recorder):
    """Records a training: its settings, every step and epoch, and how it ended, in a run folder.

    ``config.json`` says what was trained, with which settings, seeds and versions, from which git
    commit; ``events.jsonl`` has what happened, one JSON object a line, and is complete up to the
    last half second at any moment, whatever becomes of the process. A training that is resumed
    goes on in the same folder. ``gw.runs()`` lists all runs and compares them;
    ``gw.Checkpoints(run)`` writes into the folder, too.

    A step costs about 3 µs more, half of it in a thread that writes; the numbers stay the same.

    Args:
        folder: where it goes; default a new one in ``$GRADWRIGHT_RUNS``, else in the user's data
            folder. Nothing is made before the first fit.
        name: what to call it; default the name of the graph.
        tags: words to filter by.
        notes: text for people.
        every: which steps are recorded; epochs always are.
        store: the index it is entered into: ``"default"``, a ``Store``, or None for none.

    Raises TrainingError in ``fit`` where another process works on the folder, where it cannot be
    written, and, when the fit ends, where events could not be written; the training is as its last
    step has left it.

    >>> import gradwright as gw, tempfile
    >>> g = gw.Graph("parabola")
    >>> w = g.variable("w", (), init=2.0)
    >>> run = gw.Run(tempfile.mkdtemp(), tags=["tiny"], store=None)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25), callbacks=[run])
    >>> history = trainer.fit([{}], epochs=3, progress=False)
    >>> sorted(path.name for path in run.folder.iterdir() if path.name != ".lock")
    ['config.json', 'events.jsonl']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        name: str | None = None,
        *,
        tags: Iterable[str] | str = (),
        notes: str = "",
        every: int = 1,
        store: Store | str | None = "default",
    ) -> None:
        if every < 1 or not (store in (None, "default") or isinstance(store, Store)):
            raise TrainingError(
                f"every={every}, store={store!r} make no sense",
                need="every >= 1; 'default', a Store, or None",
            )
        self.store = Store() if isinstance(store, str) else store
        self.name, self.notes, self.every = name, notes, every
        self.tags = (tags,) if isinstance(tags, str) else tuple(tags)
        if folder is None:
            new = f"{time.strftime('%Y-%m-%d-%H%M%S')}-{secrets.token_hex(3)}"
            folder = (self.store or Store()).root / new
        self.folder = Path(folder).absolute()
        """Where it is recorded."""
        self._lock = Lock(self.folder / LOCK, f"the run {str(self.folder)!r}")
        self._writer: EventWriter | None = None
        self._row: RunSummary | None = None
        self._stored: RunSummary | None = None
        self._skipped = 0

    # -- to use ----------------------------------------------------------------------------------

    @property
    def is_recording(self) -> bool:
        """Whether a fit goes on."""
        return self._writer is not None

    def note(self, event: str, **facts: Any) -> None:
        """Record something else that happens in a fit, such as ``"checkpoint"`` with its path.

        ``facts`` are what strict JSON holds. Raises TrainingError for others, and outside a fit.
        """
        if self._writer is None:
            raise TrainingError("a run records events while a fit goes on", hint="in a callback")
        try:
            json.dumps(facts, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TrainingError(f"the event {event!r} cannot be recorded: {error}") from None
        self._writer.add(event, **facts)

    def flush(self) -> None:
        """Return when all that has happened is in ``events.jsonl``."""
        if self._writer is not None:
            self._writer.flush()

    def read(self) -> RunFolder:
        """Return what the folder says."""
        self.flush()
        return RunFolder(self.folder)

    def __repr__(self) -> str:
        state = "recording" if self._writer is not None else "idle"
        return f"<Run {self.name or ''!r} in {str(self.folder)!r}: {state}>"

    # -- what the trainer calls ------------------------------------------------------------------

    def on_fit_start(self, trainer: Training) -> None:
        """Open the folder, and say that a fit has begun."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TrainingError(
                f"the run folder {str(self.folder)!r} cannot be made: {error.strerror}",
                hint="gw.Run(folder), or the environment variable GRADWRIGHT_RUNS",
            ) from error
        self._lock.acquire()
        try:
            self._begin(trainer)
        except OSError as error:
            raise TrainingError(
                f"the run {str(self.folder)!r} cannot be written: {error.strerror}"
            ) from error

    def _begin(self, trainer: Training) -> None:
        facts = described(trainer)
        changed: dict[str, Any] = {}
        check_plain(self.folder / CONFIG)
        if is_run(self.folder):
            folder = RunFolder(self.folder)
            self._check_continues(trainer, folder.summary())
            held = folder.config
            changed = {k: v for k, v in facts.items() if held.get(k) != v}
        else:
            held = {
                "format": FORMAT,
                "id": secrets.token_hex(8),
                "name": self.name or trainer.graph.name,
                "created": round(time.time(), 3),
                "tags": list(self.tags),
                "notes": self.notes,
                **facts,
            }
            _write(self.folder / CONFIG, held)
        pid, host = os.getpid(), platform.node()
        self._row = replace(RunFolder(self.folder).summary(), status="running", pid=pid, host=host)
        self._stored, self._skipped = None, trainer.skipped
        self._writer = EventWriter(self.folder / EVENTS, self._index)
        began: dict[str, Any] = {"step": trainer.steps_done, "epoch": trainer.epochs_done}
        began["seconds"] = round(trainer.history.seconds, 6)
        if changed:
            began["config"] = changed
        self._writer.add("fit_started", pid=pid, host=host, **began)
        self._writer.flush()

    def _check_continues(self, trainer: Training, held: RunSummary) -> None:
        """Refuse to write a training that begins over one that has ended; not over a killed one."""
        if held.steps and not trainer.steps_done and held.status in ("finished", "stopped"):
            self._lock.release()
            raise TrainingError(
                f"the run folder {str(self.folder)!r} holds a training that has {held.status}",
                facts=[f"after {held.steps} steps; this one has taken none"],
                need="a training that goes on, or a folder of its own",
                hint="gw.resume(trainer, run) with gw.Checkpoints(run), or gw.Run() elsewhere",
            )

    def on_step_end(self, trainer: Training, record: Record) -> None:
        """Record the step."""
        writer = self._writer
        if writer is None:
            return
        if self.every == 1 or record.step % self.every == 0:
            writer.step(record)
        if trainer.skipped != self._skipped and not _is_finite(record):  # of a group, it is this
            self._skipped += 1
            writer.add("skipped", step=record.step, skipped=self._skipped)

    def on_epoch_end(self, trainer: Training, record: Record) -> None:
        """Record the epoch."""
        if self._writer is None or self._row is None:
            return
        metrics = {name: plain(value) for name, value in record.metrics.items()}
        place = {"step": record.step, "epoch": record.epoch, "seconds": round(record.seconds, 6)}
        self._writer.add("epoch", **place, metrics=metrics)
        self._row = replace(
            self._row, metrics=dict(record.metrics), **_place(trainer, record.seconds)
        )

    def on_pause(self, trainer: Training) -> None:
        """Record that it waits."""
        if self._writer is not None:
            self._writer.add("paused", step=trainer.steps_done)

    def on_resume(self, trainer: Training) -> None:
        """Record that it goes on."""
        if self._writer is not None:
            self._writer.add("resumed", step=trainer.steps_done)

    def on_fit_end(self, trainer: Training) -> None:
        """Record how it ended, and close the folder."""
        writer, self._writer = self._writer, None
        try:
            if writer is not None and self._row is not None:
                self._end(trainer, writer, self._row)
        finally:
            self._lock.release()

    def _end(self, trainer: Training, writer: EventWriter, row: RunSummary) -> None:
        progress = trainer.progress
        outcome, error = ("failed", "") if progress is None else (progress.outcome, progress.error)
        reasons = [c.reason for c in trainer.callbacks if isinstance(c, Stopping) and c.reason]
        facts: dict[str, Any] = {"error": error} if error else {}
        if reasons:
            facts["reason"] = "; ".join(reasons)
        self._row = replace(
            row, status=outcome, pid=0, host="", **_place(trainer, trainer.history.seconds)
        )
        writer.add(
            "fit_ended",
            outcome=outcome,
            step=trainer.steps_done,
            epoch=trainer.epochs_done,
            **facts,
        )
        try:
            writer.close()
        except TrainingError as problem:
            if outcome != "failed":
                raise
            warnings.warn(str(problem), stacklevel=2)  # what ended the fit counts more

    def _index(self) -> None:
        """Enter the run into the index, where anything has changed; the writing thread does it."""
        row = self._row
        if self.store is not None and row is not None and row != self._stored:
            self.store.put(row)
            self._stored = row


def _is_finite(record: Record) -> bool:
    return math.isfinite(record.metrics["loss"]) and math.isfinite(record.metrics["grad_norm"])


def _place(trainer: Training, seconds: float) -> dict[str, Any]:
    return {
        "steps": trainer.steps_done,
        "epochs": trainer.epochs_done,
        "seconds": seconds,
        "updated": round(time.time(), 3),
    }


def _write(path: Path, found: dict[str, Any]) -> None:
    """Write JSON as a whole or not at all."""
    with replacing(path, ".run", follow=False) as file:
        file.write(json.dumps(found, allow_nan=False, indent=1).encode() + b"\n")
