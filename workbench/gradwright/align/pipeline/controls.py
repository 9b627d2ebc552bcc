"""Controls: rewards and trainings that must not improve a model; one that does shows a fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import TrainingError
from ...train.optim import SGD
from ..rewards.judge import named
from ..rewards.rule import Weighted
from .stage import Stage


def coin_flip(
    prompts: Sequence[str], completions: Sequence[str], completion_ids: Any, **columns: Any
) -> Any:
    """Give half of the completions 1 and the others 0, whatever they say: a reward.

    Which, a rollout decides as a whole: so a completion that comes again may be worth something
    else, and a training that is resumed sees the same.
    """
    words = [len(completions), *(token for row in completion_ids for token in row)]
    return np.random.default_rng(words).integers(0, 2, len(completions)).astype(np.float64)


def controlled(
    stage: Stage, control: str, given: Mapping[str, Any], training: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a control's trainer is given, and its settings.

    Raises TrainingError where a control of rewards is asked of a method that has none.
    """
    if control == "frozen":
        return dict(given), {**training, "optimizer": SGD(0.0)}
    rewards = given.get("rewards")
    if rewards is None:
        raise TrainingError(
            f"the control {control!r} of {stage.name!r} is one of rewards, and it has none",
            hint='controls=("frozen",)',
        )
    held = [reward for _, reward in named(rewards)]
    other: list[Any] = [Weighted(reward, -1.0) for reward in held]
    if control == "random":
        other = [coin_flip] * len(held)  # as many as the method may have weights for
    return {**given, "rewards": other}, dict(training)
