"""Alignment: losses that turn a language model towards what people prefer or rewards measure.

All losses are functions of tensors: log-probabilities per token, f32[rows, T], with a mask that is
0 at prompts and padding. They return a ``Loss``: a scalar and the metrics beside it.

- ``token_log_probs``: log-probabilities of a batch's own tokens, shifted and masked
- ``sft``: next-token loss of completions; ``reward``: Bradley-Terry loss of a reward model
- ``dpo``, ``kto``, ``orpo``, ``cpo``, ``simpo``: preferences, in pairs or alone
- ``grpo``, ``rloo``, ``ppo``: advantages of sampled completions
- ``group_advantages``, ``leave_one_out``, ``gae``, ``token_rewards``, ``whiten``,
  ``kl_estimate``: what advantages are made of
"""

from .experience import Experience
from .logps import TokenLogProbs, token_log_probs
from .losses.advantages import (
    gae,
    group_advantages,
    kl_estimate,
    leave_one_out,
    token_rewards,
    whiten,
)
from .losses.cpo import cpo, simpo
from .losses.dpo import dpo
from .losses.grpo import grpo
from .losses.kto import kto
from .losses.loss import Loss
from .losses.orpo import orpo
from .losses.ppo import ppo
from .losses.reward import reward
from .losses.rloo import rloo
from .losses.sft import sft
from .model import LanguageModel
from .pairs import PairView
from .rewards.reward import Failure, Reward, Scores
from .rollouts.rollout import Prompt, Rollout, Sampler

__all__ = [
    "Experience",
    "Failure",
    "LanguageModel",
    "Loss",
    "PairView",
    "Prompt",
    "Reward",
    "Rollout",
    "Sampler",
    "Scores",
    "TokenLogProbs",
    "cpo",
    "dpo",
    "gae",
    "group_advantages",
    "grpo",
    "kl_estimate",
    "kto",
    "leave_one_out",
    "orpo",
    "ppo",
    "reward",
    "rloo",
    "sft",
    "simpo",
    "token_log_probs",
    "token_rewards",
    "whiten",
]
