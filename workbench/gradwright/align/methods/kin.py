"""Kin of GRPO: the settings that their papers recommend, under their names."""

from __future__ import annotations

from dataclasses import dataclass

from ...words.jsonable import jsonable
from .grpo import GRPO


@jsonable
@dataclass(frozen=True, kw_only=True)
class DrGRPO(GRPO):
    """GRPO without what favours long wrong answers and easy prompts (Liu et al. 2025).

    Σ l/(B·max_completion_length), A = R − mean of its group; arXiv:2503.20783

    >>> import gradwright as gw
    >>> gw.align.DrGRPO().scale_rewards
    'none'
    """

    loss_type: str = "dr_grpo"
    scale_rewards: str | bool = "none"


@jsonable
@dataclass(frozen=True, kw_only=True)
class DAPO(GRPO):
    """GRPO with more room above, no equal groups, tokens that count alike (Yu et al. 2025).

    Σ l/Σ mask, ρ clipped to 1 − 0.2, 1 + 0.28; groups of equal rewards are replaced, completions
    that were cut count for nothing; arXiv:2503.14476. The paper also has ``soft_punish_cache``, a
    fifth of the longest length.

    >>> import gradwright as gw
    >>> gw.align.DAPO(soft_punish_cache=100).dynamic_sampling
    True
    """

    epsilon_high: float | None = 0.28
    mask_truncated_completions: bool = True
    dynamic_sampling: bool = True


@jsonable
@dataclass(frozen=True, kw_only=True)
class BNPO(GRPO):
    """GRPO with a mean over the tokens of each batch: Σ l/Σ mask (Xiao et al. 2025).

    >>> import gradwright as gw
    >>> gw.align.BNPO().loss_type
    'bnpo'
    """

    loss_type: str = "bnpo"


@jsonable
@dataclass(frozen=True, kw_only=True)
class GSPO(GRPO):
    """GRPO with one ratio for each completion (Zheng et al. 2025, arXiv:2507.18071).

    ρ = exp of the mean of its log ratios, clipped to 1 − 3e-4, 1 + 4e-4; four batches a rollout

    >>> import gradwright as gw
    >>> gw.align.GSPO().importance_sampling_level
    'sequence'
    """

    loss_type: str = "grpo"
    importance_sampling_level: str = "sequence"
    epsilon: float = 3e-4
    epsilon_high: float | None = 4e-4
    steps_per_generation: int = 4


@jsonable
@dataclass(frozen=True, kw_only=True)
class CISPO(GRPO):
    """REINFORCE with a capped weight, from which no gradient flows (Chen et al. 2025).

    −sg(min(ρ, 5))·A·log π; arXiv:2506.13585

    >>> import gradwright as gw
    >>> gw.align.CISPO().epsilon_high
    5.0
    """

    loss_type: str = "cispo"
    epsilon_high: float | None = 5.0
