"""Experience: a rollout with all that is known of each of its tokens, which steps are taken on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..models.decoder.rows import IGNORED
from .rewards.reward import Scores
from .rollouts.rollout import Rollout

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Experience:
    """A rollout, what it was worth, and what the policy that drew it says of its tokens.

    Arrays of tokens are f32[rows, T - 1], where T is the width of ``ids``: place t is about token
    t + 1, and is 0 where ``mask`` is. Nothing of it changes while steps are taken on it.
    """

    number: int
    """How many rollouts came before it in the training."""
    step: int
    """How many steps had been taken when it was drawn."""
    rollout: Rollout
    scores: Scores
    ids: Array
    """i64[rows, T]"""
    labels: Array
    """i64[rows, T]: -100 at what does not count."""
    advantages: Array
    """f32[rows], or f32[rows, T - 1] where each token has its own."""
    log_probs: Array
    """Those of the policy as it was; the old ones of every ratio."""
    entropy: Array
    ref_log_probs: Array | None = None
    """Those of the reference, where there is one."""
    values: Array | None = None
    """Those of the critic, where there is one."""
    returns: Array | None = None
    token_rewards: Array | None = None

    @property
    def mask(self) -> Array:
        """Which tokens count: bool[rows, T - 1]."""
        return np.asarray(self.labels[:, 1:] != IGNORED)
