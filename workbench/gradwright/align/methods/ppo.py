"""Proximal policy optimisation with a critic: its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...ops.core.choice import Where
from ...words.jsonable import jsonable
from ..experience import Experience
from ..losses.advantages import gae, token_rewards, whiten
from ..losses.loss import Loss, chosen_from, kept
from ..losses.ppo import ppo
from ..objectives.critic import value_mask
from ..objectives.terms import Judged, Step, Worth, needed
from .sampled import Sampled


@jsonable
@dataclass(frozen=True, kw_only=True)
class PPO(Sampled):
    """Proximal policy optimisation (Schulman et al. 2017; Ziegler et al. 2019), as TRL 1.12 has it.

    r_t = −kl_coef·KL_t, and the reward behind the last token;  A of `gae`, whitened;  R = A + V;
    the loss is `gw.align.ppo`'s

    Args:
        num_ppo_epochs: how often a rollout is gone through.
        num_mini_batches: in how many batches.
        num_generations: completions of a prompt, which are not compared with each other.
        response_length: after how many tokens a completion is cut.
        kl_coef: weight of the KL divergence in the rewards.
        kl_estimator: ``"k1"``, log π − log π_ref, or ``"k3"``, which is never negative.
        cliprange, cliprange_value: how far ratios may be from 1, and values from what they were.
        vf_coef: weight of the loss of values.
        gamma, lam: γ and λ of the advantages.
        whiten_rewards: whether rewards per token have variance 1.
        missing_eos_penalty: what a completion that was cut loses.
        critic: ``"copy"``, a copy of the policy with a head for values, or ``"head"``, that head on
            the policy's own trunk. ``gw.Group("critic/*", lr_multiplier=10)`` gives it a rate of
            its own.

    All others are those of all methods that sample. Raises GraphError for settings that make no
    sense, and for options of TRL that are not here, with the reason.

    >>> import gradwright as gw
    >>> gw.align.PPO().num_ppo_epochs, gw.align.PPO().temperature
    (4, 0.7)
    """

    num_ppo_epochs: int = 4
    num_mini_batches: int = 1
    num_generations: int = 1
    response_length: int = 53
    temperature: float = 0.7
    learning_rate: float = 3e-6
    kl_coef: float = 0.05
    kl_estimator: str = "k1"
    cliprange: float = 0.2
    cliprange_value: float = 0.2
    vf_coef: float = 0.1
    gamma: float = 1.0
    lam: float = 0.95
    whiten_rewards: bool = False
    missing_eos_penalty: float | None = None
    critic: str = "copy"

    in_groups: ClassVar[bool] = False
    by_token: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen_from("kl_estimator", self.kl_estimator, ("k1", "k3"))
        chosen_from("critic", self.critic, ("copy", "head"))
        for name in ("gamma", "lam"):
            self.check(0 <= getattr(self, name) <= 1, name, "0 to 1")

    @property
    def told(self) -> tuple[str, ...]:
        """Names of facts that the method adds to those of a rollout."""
        return (
            *("objective/kl", "objective/entropy", "objective/non_score_reward"),
            *("objective/rlhf_reward", "objective/scores", "val/num_eos_tokens"),
        )

    @property
    def num_iterations(self) -> int:
        """How often a rollout is gone through."""
        return self.num_ppo_epochs

    @property
    def steps_per_generation(self) -> int:
        """In how many batches."""
        return self.num_mini_batches

    @property
    def max_completion_length(self) -> int:
        """After how many tokens a completion is cut."""
        return self.response_length

    @property
    def needs_reference(self) -> bool:
        """Whether log-probabilities of a reference are asked for."""
        return True

    def worth(self, seen: Judged) -> Worth:
        """Return advantages, returns and rewards of tokens."""
        scores = kept(seen.rewards, seen.rewards == seen.rewards)
        if self.missing_eos_penalty is not None:
            scores = Where()(seen.ended, scores, scores - self.missing_eos_penalty)
        rewards = token_rewards(
            *(scores, seen.log_probs, seen.ref_log_probs, seen.mask),
            kl_coef=self.kl_coef,
            kl_estimator=self.kl_estimator,
        )
        if self.whiten_rewards:
            rewards = whiten(rewards, value_mask(seen.mask), shift_mean=False)
        advantages = gae(rewards, seen.values, gamma=self.gamma, lam=self.lam)
        return Worth(whiten(advantages, seen.mask), advantages + seen.values, rewards)

    def loss(self, step: Step) -> Loss:
        """Return the loss of a batch."""
        return ppo(
            step.log_probs,
            step.old_log_probs,
            step.mask,
            step.advantages,
            needed("values", step.values),
            needed("old values", step.old_values),
            needed("returns", step.returns),
            value_mask(step.mask),
            cliprange=self.cliprange,
            cliprange_value=self.cliprange_value,
            vf_coef=self.vf_coef,
            entropy=step.entropy,
        )

    def facts(self, made: Experience) -> dict[str, float]:
        """Return means over rows of the KL divergence, −log π, rewards and scores."""
        ref = made.log_probs if made.ref_log_probs is None else made.ref_log_probs
        d = ref - made.log_probs
        kl = (-d if self.kl_estimator == "k1" else np.expm1(d) - d).sum(1)
        said = made.scores.total[~np.isnan(made.scores.total)]
        score = float(said.mean()) if said.size else 0.0
        other = -self.kl_coef * float(kl.mean())
        ended = sum(reason == "eos" for reason in made.rollout.reasons)
        found = (float(kl.mean()), -float(made.log_probs.sum(1).mean()), other, other + score)
        return dict(zip(self.told, (*found, score, float(ended)), strict=True))
