"""Stage: one method in a pipeline, as settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import TrainingError
from ...train.config import check_names
from ...words.jsonable import jsonable, to_json

CONTROLS = ("random", "flipped", "frozen")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@jsonable
@dataclass(frozen=True)
class Stage:
    """A method, what it trains and for how long; data and rewards are the pipeline's.

    Args:
        name: what it is called, in the folder of a run too: letters, digits, ``_`` and ``-``.
        method: settings of a method, such as ``gw.align.SFT()``.
        steps: how many steps it takes; or
        epochs: how many times it goes through its data.
        batch_size: rows of a step; None is what the method does without.
        model: which of the pipeline's models it trains; its weights are those that the last stage
            of this model has left.
        start: the model whose weights it begins with where no stage has trained it before; only
            those of equal names and shapes are taken.
        training: settings of the trainer, such as ``{"optimizer": gw.optim.AdamW(1e-4)}``.
        every_steps: after how many steps a checkpoint is written.
        controls: runs of the same length that must not improve, made beside it: ``"random"``, whose
            rewards are coin flips, ``"flipped"``, whose rewards are negated, ``"frozen"``, whose
            learning rate is 0.

    Raises TrainingError for settings that make no sense or cannot be kept as JSON.

    >>> import gradwright as gw
    >>> stage = gw.align.Stage("tune", gw.align.SFT(), steps=10)
    >>> from gradwright.words.jsonable import from_json, to_json
    >>> from_json(to_json(stage)) == stage
    True
    """

    name: str
    method: Any
    steps: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    model: str = "policy"
    start: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)
    every_steps: int = 50
    controls: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise TrainingError(
                f"a stage cannot be called {self.name!r}", need="letters, digits, '_' and '-'"
            )
        if not callable(getattr(self.method, "objective", None)):
            raise TrainingError(
                f"the method of {self.name!r} is {self.method!r}",
                need="settings of one",
                hint="gw.align.SFT()",
            )
        if (self.steps is None) == (self.epochs is None):
            raise TrainingError(f"how long does {self.name!r} train?", need="steps, or epochs")
        for what in ("steps", "epochs", "batch_size", "every_steps"):
            n = getattr(self, what)
            if n is not None and (type(n) is not int or n < 1):
                raise TrainingError(f"{what} of {self.name!r} is {n!r}", need="an int >= 1")
        if unknown := [c for c in self.controls if c not in CONTROLS]:
            raise TrainingError(
                f"{self.name!r} has no control {unknown[0]!r}", need=", ".join(CONTROLS)
            )
        object.__setattr__(self, "controls", tuple(self.controls))
        check_names(self.training, f"Stage {self.name!r}")
        to_json(self, self.name)

    @property
    def kind(self) -> str:
        """What its method is called."""
        return type(self.method).__name__
