"""WeightsAndBiases: records a training as a Weights & Biases run, offline."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import TrainingError
from ...words.jsonable import to_json
from ..history import Record
from ..training import Training
from .base import Callback


class WeightsAndBiases(Callback):
    """Records steps and epochs as a run of Weights & Biases, in a folder and without a network.

    The run is offline, whatever the environment says: ``wandb sync FOLDER/wandb/offline-run-*``
    sends it when you want that. Numbers are called as in ``gw.History``: ``steps/loss``,
    ``epochs/val_loss``; the settings of the trainer are the run's configuration, and how the fit
    ended its summary. A training that is resumed keeps the identity of its run. Needs wandb:
    ``pip install wandb``.

    Args:
        project: the project that the run belongs to.
        folder: where it is written, in a folder ``wandb``; made where it is missing.
        name: what to call the run; default the name of the graph.
        every: which steps are recorded; epochs always are.
        **options: what else ``wandb.init`` takes, such as ``tags`` and ``notes``.

    Raises TrainingError where wandb is missing or the folder cannot be made, and for a ``mode``
    among the options.

    >>> import gradwright as gw
    >>> gw.train.WeightsAndBiases("digits", every=10)
    <WeightsAndBiases of 'digits', offline in '.'>
    """

    def __init__(
        self,
        project: str,
        folder: str | os.PathLike[str] = ".",
        *,
        name: str | None = None,
        every: int = 1,
        **options: Any,
    ) -> None:
        if every < 1 or "mode" in options:
            raise TrainingError(
                f"every={every}, options {', '.join(options) or 'none'} make no sense",
                need="every >= 1, and no mode: it is offline",
                hint="wandb sync sends a run when it is done",
            )
        self.project, self.folder, self.name, self.every = project, Path(folder), name, every
        self.options = options
        self.run_id = ""
        """Which run it is, once it has begun."""
        self._run: Any = None

    def on_fit_start(self, trainer: Training) -> None:
        """Begin the run, or go on with it."""
        try:
            import wandb
        except ImportError:
            raise TrainingError("wandb is not installed", hint="pip install wandb") from None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TrainingError(
                f"the folder {str(self.folder)!r} cannot be written: {error.strerror}",
                hint="a folder that this process may write to",
            ) from error
        known = {"id": self.run_id, "resume": "allow"} if self.run_id else {}
        self._run = wandb.init(
            project=self.project,
            name=self.name or trainer.graph.name,
            dir=str(self.folder),
            mode="offline",
            config=_settings(trainer),
            **known,
            **self.options,
        )
        self.run_id = str(self._run.id)

    def on_step_end(self, trainer: Training, record: Record) -> None:
        """Record the numbers of the step."""
        if record.step % self.every == 0:
            self._log("steps", record)

    def on_epoch_end(self, trainer: Training, record: Record) -> None:
        """Record the numbers of the epoch beside those of its last step."""
        self._log("epochs", record)

    def on_fit_end(self, trainer: Training) -> None:
        """Say how it ended, and close the run."""
        run, self._run = self._run, None
        if run is not None:
            progress = trainer.progress
            outcome = "failed" if progress is None else progress.outcome
            run.summary.update(
                {"outcome": outcome, "reason": "" if progress is None else progress.reason}
            )
            run.finish(exit_code=int(outcome == "failed"))

    def _log(self, table: str, record: Record) -> None:
        numbers = {f"{table}/{name}": value for name, value in record.metrics.items()}
        self._run.log({**numbers, "epoch": record.epoch}, step=record.step)

    def state_dict(self) -> dict[str, Any]:
        """Return which run it is."""
        return {"run_id": self.run_id} if self.run_id else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with the run that ``state_dict`` returned."""
        self.run_id = str(state["run_id"])

    def __repr__(self) -> str:
        return f"<WeightsAndBiases of {self.project!r}, offline in {str(self.folder)!r}>"


def _settings(trainer: Training) -> dict[str, Any]:
    """Return the settings as JSON; what is none, such as a function, by its text."""
    config, found = trainer.config, {}
    for name in type(config).__dataclass_fields__:
        value = getattr(config, name)
        try:
            found[name] = to_json(value)
        except TrainingError:
            found[name] = repr(value)
    return found
