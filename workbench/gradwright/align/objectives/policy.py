"""The policy objective: prompts become completions, their worth, and steps on these."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data.batches import Feeds
from ...errors import FeedError, GraphError, TrainingError
from ...evaluation.metrics import Metric
from ...graph import Graph, Tensor
from ...session import Session
from ...train.position import Position
from ...words.jsonable import to_json
from ..experience import Experience
from ..logps import model_log_probs
from ..model import LanguageModel
from ..reference import reference_log_probs
from ..rewards.judge import judge
from ..rewards.reward import Reward, Scores
from ..rollouts.rollout import Prompt, Rollout, Sampler
from ..rollouts.sampler import GenerationSampler
from . import kept
from .minibatches import Minibatches, rounded
from .terms import Step
from .valuation import Valuation

if TYPE_CHECKING:
    from ..methods.sampled import Sampled

Array = np.ndarray[Any, Any]
SPACING = 1 << 20
"""Seeds between two calls of a sampler: more than rows of a call."""
LOOKED_AT = 8
"""Rows of a rollout's first batch whose ratios are looked at before the step."""
COUNTS = ("drawn", "calls", "extra", "tokens", "epoch", "part", "seed")
"""What is counted: rollouts, calls of the sampler, prompts beyond the epoch's, tokens, and the
place in the data that the present rollout is of."""
"""
"""
