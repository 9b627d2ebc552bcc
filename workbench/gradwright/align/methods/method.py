"""What a method is: settings that make an objective of a model."""

from __future__ import annotations

from typing import Any, Protocol

from ...train.objective import Objective
from ..model import LanguageModel


class Method(Protocol):
    """Settings of a way to align a model: frozen, kept as JSON with trainings.

    Names and defaults of fields are those of TRL where they mean the same.
    """

    @property
    def learning_rate(self) -> float:
        """The rate of AdamW where a trainer is given no optimizer."""

    def objective(self, model: LanguageModel, **given: Any) -> Objective:
        """Return what is trained: losses and metrics in the model's graph, and what feeds them.

        ``given`` is what `trainer` was given for it: ``tokenizer``, ``rewards``, ``sampler``. A
        method refuses by TypeError what it has no use for.
        """
