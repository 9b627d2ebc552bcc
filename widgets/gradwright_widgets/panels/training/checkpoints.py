"""The checkpoints of a trainer: what its folder holds, saving one now, going back to one."""

from __future__ import annotations

import math
import os
import threading
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import traitlets

from gradwright.errors import TrainingError
from gradwright.train.checkpoints import Checkpoint, Checkpoints, resume

from ...host.desk import GraphDesk
from ...host.panel import Panel
from ...host.part import handles, shared
from ...still.tables import html_table

MOST = 200
"""Checkpoints that are listed, the newest; and the best, wherever it is."""
LIVE = ("config.optimizer.learning_rate", "config.validate_with", "frozen")
"""What panels change while a training runs; where it differs, restoring leaves it as it is."""
_HIDDEN = ("grad_norm", "learning_rate")


class CheckpointPanel(Panel):
    """The checkpoints, beside the trainer panel.

    They are those of the first ``gw.Checkpoints`` among the trainer's callbacks. The folder is read
    beside the training while a page looks at it, and only where something in it has changed.
    """

    name = "checkpoints"
    desk: GraphDesk

    checkpoint_list = shared(
        traitlets.Dict(
            help="What the folder of checkpoints holds; empty where the trainer writes none."
        ),
        late=True,
    )

    def __init__(self, desk: GraphDesk) -> None:
        super().__init__(desk)
        self._folder_seen: Any = None
        self._listing = threading.RLock()
        self._lister = self.widget.background("reading the checkpoints")
        desk.on("trained", self.refresh_checkpoints)

    def begin(self) -> None:
        """Show what the folder holds."""
        self.refresh_checkpoints()

    # -- to use ----------------------------------------------------------------------------------

    @property
    def checkpoints(self) -> Checkpoints | None:
        """What writes the trainer's checkpoints, None where nothing does."""
        callbacks = () if self.desk.trainer is None else self.desk.trainer.callbacks
        return next((c for c in callbacks if isinstance(c, Checkpoints)), None)

    def refresh_checkpoints(self) -> None:
        """Show what the folder of checkpoints holds now."""
        writer = self.checkpoints
        with self._listing:
            if writer is None:
                self._folder_seen, self.checkpoint_list = None, {}
                return
            seen = _seen(writer.folder)
            if seen != self._folder_seen:
                self._folder_seen = seen
                self.checkpoint_list = listed(writer)

    def restore(
        self, which: str | int | os.PathLike[str], *, allow: str | Collection[str] = LIVE
    ) -> Checkpoint:
        """Have the trainer go on from a checkpoint: a step, ``"last"``, ``"best"`` or a path.

        It is ``gw.resume``. A learning rate that was set by hand stays, as does what is frozen.
        Raises TrainingError while a training runs or is paused, and where there is no such
        checkpoint or it is damaged; then nothing has changed.
        """
        trainer, writer = self.desk.controlled(), self._writer()
        if trainer.status != "idle":
            raise TrainingError(
                f"the training is {trainer.status}, so nothing was restored",
                hint="stop it first; Start goes on from the checkpoint then",
            )
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = resume(trainer, writer.folder, which, allow=allow)
        assert found is not None  # missing_ok is not set
        self.desk.refresh()
        self.widget.message = "\n".join(str(w.message) for w in told)
        return found

    def save_checkpoint(self) -> None:
        """Write a checkpoint now; while a training runs, after the present step.

        Raises TrainingError where the trainer writes none, or it cannot be written.
        """
        trainer, writer = self.desk.controlled(), self._writer()

        def command() -> None:
            try:
                writer.save(trainer)
            finally:
                self.refresh_checkpoints()

        if self.desk.commands.busy:  # what goes wrong there must not end the training
            self.desk.commands.submit(lambda: self.widget.guarded(command))
        else:
            command()

    def _writer(self) -> Checkpoints:
        writer = self.checkpoints
        if writer is None:
            raise TrainingError(
                "this trainer writes no checkpoints",
                hint='gw.Trainer(..., callbacks=[gw.Checkpoints("folder")])',
            )
        return writer

    # -- messages --------------------------------------------------------------------------------

    @handles("look")
    def _on_checkpoints_look(self, _: Any) -> None:
        """Read the folder, and answer: a page asks again two seconds later."""
        self._list_soon()
        self.widget.send({"kind": "checkpoints.seen"})

    @handles("save")
    def _on_checkpoints_save(self, _: Any) -> None:
        self.save_checkpoint()

    @handles("restore")
    def _on_checkpoints_restore(self, content: dict[str, Any]) -> None:
        name = content.get("file")
        known = [row["file"] for row in self.checkpoint_list.get("rows", ())]
        if name not in known:  # a page names what it was shown, and no other file
            raise TrainingError(f"there is no checkpoint {name!r:.60} here", hint="look again")
        self.restore(self._writer().folder / Path(str(name)).name)

    # -- following -------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Show the checkpoints as they are now, too."""
        self.when_shown(self.refresh_checkpoints)

    def training_began(self) -> None:
        """Show the folder that is written to."""
        self._list_soon()

    def _list_soon(self) -> None:
        """Read the folder beside what runs."""
        if not self._lister.busy:
            self._lister.start(lambda stop: self.refresh_checkpoints())

    def checkpoint_table(self) -> str:
        """Return the checkpoints as an HTML table without script, "" where there are none."""
        found = self.checkpoint_list
        if not found.get("rows"):
            return ""
        names = found["metrics"]
        rows = [
            [f"{row['step']:,}" if "step" in row else row["file"], row.get("at", ""),
             *(row.get("metrics", {}).get(name, "") for name in names), row.get("time", ""),
             "damaged: " + row["damaged"] if "damaged" in row else "best" * row["best"]]
            for row in found["rows"]
        ]  # fmt: skip
        return html_table(["checkpoint", "epoch", *names, "time (UTC)", ""], rows)


def listed(writer: Checkpoints) -> dict[str, Any]:
    """Return the checkpoints of a folder, the newest first, as strict JSON."""
    found = writer.list()
    ranked = sorted(found, key=lambda c: (c.rank(writer.monitor, writer.mode), c.serial))
    best = next((c for c in ranked if c.rank(writer.monitor, writer.mode) < math.inf), None)
    newest = list(reversed(found))
    shown = [c for i, c in enumerate(newest) if i < MOST or c is best]
    names = dict.fromkeys(n for c in shown for n in c.metrics if n not in _HIDDEN)
    rows: list[dict[str, Any]] = [
        {"file": path.name, "damaged": why} for path, why in found.damaged.items()
    ]
    rows += [
        {
            "file": c.path.name,
            "step": c.step,
            "at": f"{c.epoch}" if not c.batch else f"{c.epoch} + {c.batch} batches",
            "metrics": {n: f"{c.metrics[n]:.4g}" for n in names if n in c.metrics},
            "bytes": c.nbytes,
            "time": c.time,
            "best": c is best,
        }
        for c in shown
    ]
    monitor = writer.monitor if best is not None else ""
    return {
        "folder": str(writer.folder),
        "metrics": list(names)[:4],
        "monitor": monitor,
        "rows": rows,
        "more": len(newest) - len(shown),
    }


def _seen(folder: Path) -> Any:
    """Return what changes with the files of a folder, without reading them."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".gw"):
                    stat = entry.stat()
                    found.append((entry.name, stat.st_mtime_ns, stat.st_size))
    except OSError:  # it is made when the training begins
        return str(folder), None
    return str(folder), sorted(found)
