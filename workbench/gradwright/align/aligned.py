"""The door: a trainer of a model by a method."""

from __future__ import annotations

from typing import Any

from ..errors import TrainingError
from ..graph import ancestors
from ..train.config import TrainingConfig
from ..train.optim import AdamW
from ..train.settings import Accumulation
from ..train.trainer import Trainer
from .methods.method import Method
from .model import LanguageModel

GIVEN = ("rewards", "tokenizer", "sampler", "teacher")
"""What is for the method, and not for the trainer; None is as if it were not given."""
JUDGING = ("reward_seconds", "on_reward_error")
"""What is for the method as it is."""


def trainer(model: LanguageModel, method: Method, **settings: Any) -> Trainer:
    """Return a trainer of a model by a method; ``fit`` takes data in the columns of the method.

    Args:
        model: a ``Decoder``, or what else has a head and labels.
        method: settings of the method, such as ``gw.align.DPO()``.
        rewards: what completions are worth, for methods that draw them.
        tokenizer: for data that is text; by default that of the model.
        sampler: what draws completions; by default the model's own generation.
        teacher: the model to follow, for `Distill`.
        reward_seconds: how long a reward may take for a rollout, 60 by default; None is as long as
            it takes.
        on_reward_error: ``"raise"``, or ``"skip"`` rows that a reward cannot judge (`judge`).
        **settings: those of `gw.Trainer`. By default the optimizer is AdamW without decay, at the
            method's ``learning_rate``, and ``clip_norm`` is 1, as in TRL, where the rate falls to 0
            besides: give a schedule for that. Parameters are those that the loss depends on.
            Batches of ``accumulation=n`` weigh as they would in one large batch.

    Raises TrainingError for what is no method or model, TypeError for what the method has no use
    for, and as `gw.Trainer` does.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2), eos=0)
    >>> trainer = gw.align.trainer(model, gw.align.SFT(), optimizer=gw.optim.Adam(0.02))
    >>> data = [{"prompt": [1, 2], "completion": [3]}] * 4
    >>> history = trainer.fit(data, epochs=40, batch_size=4, progress=False)
    >>> model.generate([[1, 2]])[0].tokens
    [3, 0]
    """
    if isinstance(method, type) or not hasattr(method, "objective"):
        raise TrainingError(
            f"{method!r} is no method", need="settings of one, such as gw.align.DPO()"
        )
    if not hasattr(model, "head"):
        raise TrainingError(
            f"{model!r} is no model with a head and labels", need="such as gw.models.Decoder"
        )
    given = {name: settings.pop(name) for name in GIVEN if name in settings}
    given = {name: value for name, value in given.items() if value is not None}
    given |= {name: settings.pop(name) for name in JUDGING if name in settings}
    plain = AdamW(method.learning_rate, weight_decay=0.0)
    config = settings.pop("config", None) or TrainingConfig(plain, clip_norm=1.0)
    objective = method.objective(model, seed=settings.get("seed", config.seed), **given)
    own, tokens = getattr(objective, "callbacks", ()), getattr(objective, "tokens", None)
    settings["callbacks"] = [*own, *settings.get("callbacks", ())]
    if type(n := settings.get("accumulation")) is int and tokens is not None:
        settings["accumulation"] = Accumulation(n, by="token", tokens=tokens)
    reached = ancestors(objective.losses.values())
    parameters = [t.name for t in model.graph.trainable if t.node in reached]
    if len(parameters) < len(model.graph.trainable):  # a reward model has no use for the head
        settings.setdefault("parameters", parameters)
    return Trainer(model.graph, objective, config=config, **settings)
