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

from .data.by_length import ByLength, order_by_length
from .data.codec import Codec
from .data.collate import collate
from .data.examples import examples, prompts
from .data.packing import pack
from .data.report import DataReport
from .data.rows import Examples, TokenRow
from .data.template import ChatTemplate
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
from .rewards.reward import Failure, Reward, Scores
from .rollouts.rollout import Prompt, Rollout, Sampler

__all__ = [
    "ByLength",
    "ChatTemplate",
    "Codec",
    "DataReport",
    "Examples",
    "Experience",
    "Failure",
    "LanguageModel",
    "Loss",
    "Prompt",
    "Reward",
    "Rollout",
    "Sampler",
    "Scores",
    "TokenLogProbs",
    "TokenRow",
    "collate",
    "cpo",
    "dpo",
    "examples",
    "gae",
    "group_advantages",
    "grpo",
    "kl_estimate",
    "kto",
    "leave_one_out",
    "order_by_length",
    "orpo",
    "pack",
    "ppo",
    "prompts",
    "reward",
    "rloo",
    "sft",
    "simpo",
    "token_log_probs",
    "token_rewards",
    "whiten",
]
