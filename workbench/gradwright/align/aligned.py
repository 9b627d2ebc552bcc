"""The door: a trainer of a model by a method."""

from __future__ import annotations

from typing import Any

from ..train.optim import AdamW
from ..train.trainer import Trainer
from .methods.method import Method
from .model import LanguageModel

GIVEN = ("rewards", "tokenizer", "sampler")
"""What is for the method, and not for the trainer."""


def trainer(model: LanguageModel, method: Method, **settings: Any) -> Trainer:
    """Return a trainer of a model by a method; ``fit`` takes data in the columns of the method.

    Args:
        model: a ``Decoder``, or what else has a head and labels.
        method: settings of the method, such as ``gw.align.DPO()``.
        rewards: what completions are worth, for methods that draw them.
        tokenizer: for data that is text; by default that of the model.
        sampler: what draws completions; by default the model's own generation.
        **settings: those of `gw.Trainer`. By default the optimizer is AdamW without decay, at the
            method's ``learning_rate``, and ``clip_norm`` is 1, as in TRL, where the rate falls to 0
            besides: give a schedule for that.

    Raises TypeError for what the method has no use for, and as `gw.Trainer` does.
    """
    given = {n: settings.pop(n) for n in GIVEN if n in settings}
    given = {name: value for name, value in given.items() if value is not None}
    objective = method.objective(model, **given)
    settings.setdefault("optimizer", AdamW(method.learning_rate, weight_decay=0.0))
    settings.setdefault("clip_norm", 1.0)
    return Trainer(model.graph, objective, **settings)
