"""Alignment: losses that turn a language model towards what people prefer or rewards measure.

All losses are functions of tensors: log-probabilities per token, f32[rows, T], with a mask that is
0 at prompts and padding. They return a ``Loss``: a scalar and the metrics beside it.

- ``trainer``: a ``gw.Trainer`` of a model by a method, which is one value of settings
- ``token_log_probs``: log-probabilities of a batch's own tokens, shifted and masked;
  ``model_log_probs`` of a model's, ``reference_log_probs`` of what it was before
- ``sft``: next-token loss of completions; ``reward``: Bradley-Terry loss of a reward model
- ``dpo``, ``kto``, ``orpo``, ``cpo``, ``simpo``: preferences, in pairs or alone
- ``grpo``, ``rloo``, ``ppo``: advantages of sampled completions
- ``evaluate``, ``compare``: answers to held-out prompts, and how sure a change of them is
- ``alarms``: what fails in a training by rewards; ``pairs_of``: pairs, token by token
- ``Distill``: a student follows its teacher on completions of its own
- ``Pipeline``: several methods one after another, planned, resumed and reported
- ``group_advantages``, ``leave_one_out``, ``gae``, ``token_rewards``, ``whiten``,
  ``kl_estimate``: what advantages are made of
- ``judge``: what rewards say of a rollout; ``ExactMatch``, ``NumberNear``, ``Pattern``, ``Format``,
  ``Length``, ``Overlong``, ``Repetition``, ``Code``, ``GraphReward``, ``ModelReward``, functions,
  and ``Weighted``, ``Gate``, sums and products of them
"""

from typing import TYPE_CHECKING

from ..ops import later

if TYPE_CHECKING:
    from .alarm import Alarm, alarms
    from .aligned import trainer
    from .data.by_length import ByLength, order_by_length
    from .data.codec import Codec
    from .data.collate import collate
    from .data.examples import examples, prompts
    from .data.packing import pack
    from .data.report import DataReport
    from .data.rows import Examples, TokenRow
    from .data.template import ChatTemplate
    from .evaluation.comparing import Comparison, compare
    from .evaluation.evaluating import evaluate
    from .evaluation.held_out import HeldOut
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
    from .methods.cpo import CPO, SimPO
    from .methods.distill import Distill
    from .methods.dpo import DPO
    from .methods.grpo import GRPO
    from .methods.kin import BNPO, CISPO, DAPO, GSPO, DrGRPO
    from .methods.kto import KTO
    from .methods.method import Method
    from .methods.orpo import ORPO
    from .methods.ppo import PPO
    from .methods.reward_model import RewardModel
    from .methods.rloo import RLOO
    from .methods.sft import SFT
    from .model import LanguageModel
    from .objectives.policy import PolicyObjective
    from .pairs import PairView, pairs_of
    from .pipeline.pipeline import Pipeline
    from .pipeline.plan import Plan
    from .pipeline.report import Report
    from .pipeline.stage import Stage
    from .reference import reference_log_probs
    from .rewards.code import Code
    from .rewards.graph import GraphReward, ModelReward
    from .rewards.judge import judge
    from .rewards.numbers import NumberNear
    from .rewards.reward import Failure, Reward, RowsError, Scores
    from .rewards.rule import Gate, RewardProduct, RewardSum, Rule, Weighted
    from .rewards.sandbox.sandbox import CodeLimits
    from .rewards.text import ExactMatch, Format, Pattern
    from .rewards.tokens import Length, Overlong, Repetition
    from .rollouts.rollout import Prompt, Rollout, Sampler
    from .rollouts.sampler import GenerationSampler, Progress, complete
    from .scalar_head import reward_head

__all__ = [
    "BNPO",
    "CISPO",
    "CPO",
    "DAPO",
    "DPO",
    "GRPO",
    "GSPO",
    "KTO",
    "ORPO",
    "PPO",
    "RLOO",
    "SFT",
    "Alarm",
    "ByLength",
    "ChatTemplate",
    "Code",
    "CodeLimits",
    "Codec",
    "Comparison",
    "DataReport",
    "Distill",
    "DrGRPO",
    "ExactMatch",
    "Examples",
    "Experience",
    "Failure",
    "Format",
    "Gate",
    "GenerationSampler",
    "GraphReward",
    "HeldOut",
    "LanguageModel",
    "Length",
    "Loss",
    "Method",
    "ModelReward",
    "NumberNear",
    "Overlong",
    "PairView",
    "Pattern",
    "Pipeline",
    "Plan",
    "PolicyObjective",
    "Progress",
    "Prompt",
    "Repetition",
    "Report",
    "Reward",
    "RewardModel",
    "RewardProduct",
    "RewardSum",
    "Rollout",
    "RowsError",
    "Rule",
    "Sampler",
    "Scores",
    "SimPO",
    "Stage",
    "TokenLogProbs",
    "TokenRow",
    "Weighted",
    "alarms",
    "collate",
    "compare",
    "complete",
    "cpo",
    "dpo",
    "evaluate",
    "examples",
    "gae",
    "group_advantages",
    "grpo",
    "judge",
    "kl_estimate",
    "kto",
    "leave_one_out",
    "model_log_probs",
    "normalize_then_sum",
    "order_by_length",
    "orpo",
    "pack",
    "pairs_of",
    "ppo",
    "prompts",
    "reference_log_probs",
    "reward",
    "reward_head",
    "rloo",
    "sft",
    "simpo",
    "token_log_probs",
    "token_rewards",
    "trainer",
    "whiten",
]

_HOMES = {
    ".alarm": "Alarm alarms",
    ".aligned": "trainer",
    ".data.by_length": "ByLength order_by_length",
    ".data.codec": "Codec",
    ".data.collate": "collate",
    ".data.examples": "examples prompts",
    ".data.packing": "pack",
    ".data.report": "DataReport",
    ".data.rows": "Examples TokenRow",
    ".data.template": "ChatTemplate",
    ".evaluation.comparing": "Comparison compare",
    ".evaluation.evaluating": "evaluate",
    ".evaluation.held_out": "HeldOut",
    ".experience": "Experience",
    ".logps": "TokenLogProbs model_log_probs token_log_probs",
    ".losses.advantages": (
        "gae group_advantages kl_estimate leave_one_out normalize_then_sum token_rewards whiten"
    ),
    ".losses.cpo": "cpo simpo",
    ".losses.dpo": "dpo",
    ".losses.grpo": "grpo",
    ".losses.kto": "kto",
    ".losses.loss": "Loss",
    ".losses.orpo": "orpo",
    ".losses.ppo": "ppo",
    ".losses.reward": "reward",
    ".losses.rloo": "rloo",
    ".losses.sft": "sft",
    ".methods.cpo": "CPO SimPO",
    ".methods.distill": "Distill",
    ".methods.dpo": "DPO",
    ".methods.grpo": "GRPO",
    ".methods.kin": "BNPO CISPO DAPO GSPO DrGRPO",
    ".methods.kto": "KTO",
    ".methods.method": "Method",
    ".methods.orpo": "ORPO",
    ".methods.ppo": "PPO",
    ".methods.reward_model": "RewardModel",
    ".methods.rloo": "RLOO",
    ".methods.sft": "SFT",
    ".model": "LanguageModel",
    ".objectives.policy": "PolicyObjective",
    ".pairs": "PairView pairs_of",
    ".pipeline.pipeline": "Pipeline",
    ".pipeline.plan": "Plan",
    ".pipeline.report": "Report",
    ".pipeline.stage": "Stage",
    ".reference": "reference_log_probs",
    ".rewards.code": "Code",
    ".rewards.graph": "GraphReward ModelReward",
    ".rewards.judge": "judge",
    ".rewards.numbers": "NumberNear",
    ".rewards.reward": "Failure Reward RowsError Scores",
    ".rewards.rule": "Gate RewardProduct RewardSum Rule Weighted",
    ".rewards.sandbox.sandbox": "CodeLimits",
    ".rewards.text": "ExactMatch Format Pattern",
    ".rewards.tokens": "Length Overlong Repetition",
    ".rollouts.rollout": "Prompt Rollout Sampler",
    ".rollouts.sampler": "GenerationSampler Progress complete",
    ".scalar_head": "reward_head",
}
"""Module -> the names that are imported from it when they are first asked for."""

__getattr__, __dir__ = later(__name__, _HOMES, __all__)
