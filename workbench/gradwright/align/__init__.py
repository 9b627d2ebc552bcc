"""Alignment: losses that turn a language model towards what people prefer or rewards measure.

All losses are functions of tensors: log-probabilities per token, f32[rows, T], with a mask that is
0 at prompts and padding. They return a ``Loss``: a scalar and the metrics beside it.

- ``trainer``: a ``gw.Trainer`` of a model by a method, which is one value of settings
- ``token_log_probs``: log-probabilities of a batch's own tokens, shifted and masked;
  ``model_log_probs`` of a model's, ``reference_log_probs`` of what it was before
- ``sft``: next-token loss of completions; ``reward``: Bradley-Terry loss of a reward model
- ``dpo``, ``kto``, ``orpo``, ``cpo``, ``simpo``: preferences, in pairs or alone
- ``grpo``, ``rloo``, ``ppo``: advantages of sampled completions
- ``group_advantages``, ``leave_one_out``, ``gae``, ``token_rewards``, ``whiten``,
  ``kl_estimate``: what advantages are made of
"""

from .aligned import trainer
from .experience import Experience
from .logps import TokenLogProbs, model_log_probs, token_log_probs
from .losses.advantages import (
    gae,
    group_advantages,
    kl_estimate,
    leave_one_out,
    normalize_then_sum,
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
from .methods.grpo import GRPO
from .methods.kin import BNPO, CISPO, DAPO, GSPO, DrGRPO
from .methods.method import Method
from .methods.ppo import PPO
from .methods.rloo import RLOO
from .model import LanguageModel
from .objectives.policy import PolicyObjective
from .reference import reference_log_probs
from .rewards.judge import judge
from .rewards.numbers import NumberNear
from .rewards.reward import Failure, Reward, RowsError, Scores
from .rewards.rule import Gate, RewardProduct, RewardSum, Rule, Weighted
from .rewards.text import ExactMatch, Format, Pattern
from .rewards.tokens import Length, Overlong, Repetition
from .rollouts.rollout import Prompt, Rollout, Sampler
from .rollouts.sampler import GenerationSampler, Progress, complete

__all__ = [
    "BNPO",
    "CISPO",
    "DAPO",
    "GRPO",
    "GSPO",
    "PPO",
    "RLOO",
    "DrGRPO",
    "ExactMatch",
    "Experience",
    "Failure",
    "Format",
    "Gate",
    "GenerationSampler",
    "LanguageModel",
    "Length",
    "Loss",
    "Method",
    "NumberNear",
    "Overlong",
    "Pattern",
    "PolicyObjective",
    "Progress",
    "Prompt",
    "Repetition",
    "Reward",
    "RewardProduct",
    "RewardSum",
    "Rollout",
    "RowsError",
    "Rule",
    "Sampler",
    "Scores",
    "TokenLogProbs",
    "Weighted",
    "complete",
    "cpo",
    "dpo",
    "gae",
    "group_advantages",
    "grpo",
    "judge",
    "kl_estimate",
    "kto",
    "leave_one_out",
    "model_log_probs",
    "normalize_then_sum",
    "orpo",
    "ppo",
    "reference_log_probs",
    "reward",
    "rloo",
    "sft",
    "simpo",
    "token_log_probs",
    "token_rewards",
    "trainer",
    "whiten",
]
