"""Callback: hooks into training; each is called between steps, never during one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...words.spelling import meant
from ..history import Record


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
    What it may ask of the trainer that it is given says ``train.training.Training``.
    Ctrl-C waits for the end of a hook; a second one does not.

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

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a hook that would never be called."""
        super().__init_subclass__(**options)
        for name in vars(cls):
            if name.startswith("on_") and not hasattr(Callback, name):
                hooks = [hook for hook in vars(Callback) if hook.startswith("on_")]
                if close := _THEIRS.get(name) or meant(name, hooks):
                    raise TypeError(
                        f"{cls.__name__}.{name} would never be called; did you mean {close!r}? "
                        f"Hooks are {', '.join(hooks)}"
                    )

    needs_deterministic: ClassVar[bool] = False
    """Whether a session that the trainer makes for itself shall be deterministic."""
    comes_last: ClassVar[bool] = False
    """Whether it is called after all others, since it saves what they have come to."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of it: numbers, strings and arrays by name."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` returned; nothing changes where it is refused."""

    def written(self) -> Sequence[Path]:
        """Return the files it has written from which training can go on, the oldest first."""
        return ()

    def on_fit_start(self, trainer: Any) -> None:
        """Called before the first step of ``fit``."""

    def wants_changes(self, trainer: Any) -> bool:
        """Tell before a step whether ``on_changes`` shall get what it does to each parameter."""
        return False

    def on_changes(self, trainer: Any, record: Record, changes: Mapping[str, Change]) -> None:
        """Called before ``on_step_end`` if ``wants_changes`` was true, with changes by name."""

    def on_step_end(self, trainer: Any, record: Record) -> None:
        """Called when a step has been committed."""

    def on_epoch_end(self, trainer: Any, record: Record) -> None:
        """Called after the validation of an epoch; ``record.metrics`` has means and ``val_...``."""

    def on_pause(self, trainer: Any) -> None:
        """Called when the training has been paused, between two steps."""

    def on_resume(self, trainer: Any) -> None:
        """Called before a paused training takes its next step, or ends."""

    def on_fit_end(self, trainer: Any) -> None:
        """Called when ``fit`` ends, however it ends; ``trainer.progress.outcome`` tells how."""


_THEIRS = {
    **dict.fromkeys(("on_train_begin", "on_train_start"), "on_fit_start"),
    **dict.fromkeys(("on_train_end",), "on_fit_end"),
    **dict.fromkeys(("on_batch_end", "on_train_batch_end"), "on_step_end"),
    **dict.fromkeys(("on_train_epoch_end", "on_validation_end"), "on_epoch_end"),
}
"""What Keras, Lightning and transformers call a hook."""


class Recorder(Callback):
    """Base of callbacks that record a training, for what else happens in it.

    ``gw.Run`` is one; what finds something worth keeping asks all that are among the trainer's.
    """

    @property
    def is_recording(self) -> bool:
        """Whether events are taken now."""
        return False

    def note(self, event: str, **facts: Any) -> None:
        """Record something that happens in a fit; ``facts`` are what strict JSON holds."""
