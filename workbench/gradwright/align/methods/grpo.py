"""Group-relative policy optimisation: its settings, and its kin by other settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ...graph import Tensor
from ...words.jsonable import jsonable
from ..losses.advantages import group_advantages, normalize_then_sum
from ..losses.grpo import TYPES, grpo, uncertain
from ..losses.loss import Loss, chosen_from
from ..objectives.entropy import EntropyControl
from ..objectives.terms import Judged, Step, Worth
from ..rewards.judge import Rewards
from ..rewards.tokens import Overlong
from .sampled import Sampled


@jsonable
@dataclass(frozen=True, kw_only=True)
class GRPO(Sampled):
    """Group-relative policy optimisation (Shao et al. 2024, arXiv:2402.03300), with TRL's defaults.

    A = (R − mean of its group)/(std + 1e-4); the loss is `gw.align.grpo`'s of A and ρ.

    Each rollout draws ``num_generations`` completions of each of its prompts, as many as
    ``fit(batch_size=…)`` has rows in ``steps_per_generation`` batches. Steps go ``num_iterations``
    times through it, in another order each time. With ``accumulation=n`` n batches make an update.

    Args:
        num_generations: completions of a prompt, 2 or more.
        max_completion_length: after how many tokens one is cut.
        num_iterations: how often a rollout is gone through (μ).
        steps_per_generation: how many batches a rollout makes.
        beta: weight of the KL divergence from the reference; at 0 there is none.
        scale_rewards: what advantages are divided by: the deviation of the ``"group"`` (or True),
            of the ``"batch"``, or ``"none"`` (or False).
        multi_objective_aggregation: ``"sum_then_normalize"`` rewards, or the other way round.
        mask_truncated_completions: whether completions that were cut count for nothing.
        dynamic_sampling: whether groups whose rewards are all equal are left out and further
            prompts drawn in their place (Yu et al. 2025), at most ``max_refills`` times; what is
            missing then is filled up with the groups that were left out.
        use_adaptive_entropy: whether ``entropy_coef``, at first what it says, follows the entropy:
            `EntropyControl` by ``entropy_target``, ``entropy_coef_delta``, ``entropy_coef_min`` and
            ``entropy_coef_max``.
        soft_punish_cache: over how many tokens before the longest length a punishment grows from 0
            to 1 (Yu et al. 2025); at 0 there is none.

    All others are those of `gw.align.grpo` and of all methods that sample. Raises GraphError for
    settings that make no sense, and for options of TRL that are not here, with the reason.

    >>> import gradwright as gw
    >>> gw.align.GRPO().loss_type, gw.align.GRPO.paper().beta, gw.align.DAPO().epsilon_high
    ('dapo', 0.04, 0.28)
    """

    num_generations: int = 8
    max_completion_length: int = 512
    num_iterations: int = 1
    steps_per_generation: int = 1
    loss_type: str = "dapo"
    beta: float = 0.0
    epsilon: float = 0.2
    epsilon_high: float | None = None
    delta: float | None = None
    importance_sampling_level: str = "token"
    use_bias_correction_kl: bool = True
    scale_rewards: str | bool = "group"
    multi_objective_aggregation: str = "sum_then_normalize"
    mask_truncated_completions: bool = False
    top_entropy_quantile: float = 1.0
    entropy_coef: float = 0.0
    use_adaptive_entropy: bool = False
    entropy_coef_min: float = 0.0
    entropy_coef_max: float = 1.0
    entropy_coef_delta: float = 0.005
    entropy_target: float = 0.2
    off_policy_mask_threshold: float | None = None
    sapo_temperature_pos: float = 1.0
    sapo_temperature_neg: float = 1.05
    vespo_k_pos: float = 2.0
    vespo_lambda_pos: float = 3.0
    vespo_k_neg: float = 3.0
    vespo_lambda_neg: float = 2.0
    dynamic_sampling: bool = False
    max_refills: int = 4
    soft_punish_cache: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.scale_rewards, bool):
            object.__setattr__(self, "scale_rewards", "group" if self.scale_rewards else "none")
        chosen_from("loss_type", self.loss_type, TYPES)
        chosen_from("scale_rewards", str(self.scale_rewards), ("group", "batch", "none"))
        levels = ("token", "sequence")
        chosen_from("importance_sampling_level", self.importance_sampling_level, levels)
        ways = ("sum_then_normalize", "normalize_then_sum")
        chosen_from("multi_objective_aggregation", self.multi_objective_aggregation, ways)
        high = self.loss_type != "cispo" or self.epsilon_high is not None
        self.check(high, "epsilon_high", "a number for cispo, such as 5.0")
        self.check(self.beta >= 0, "beta", "a number >= 0")
        self.check(0 < self.top_entropy_quantile <= 1, "top_entropy_quantile", "0 < share <= 1")
        least, most = self.entropy_coef_min, self.entropy_coef_max
        self.check(least <= most, "entropy_coef_min", f"at most entropy_coef_max={most}")
        self.check(self.entropy_coef_delta >= 0, "entropy_coef_delta", "a number >= 0")
        self.check(self.max_refills >= 0, "max_refills", "an int >= 0")
        most = self.max_completion_length
        self.check(0 <= self.soft_punish_cache <= most, "soft_punish_cache", f"0 to {most}")

    @classmethod
    def paper(cls, **settings: Any) -> Self:
        """Return the settings of the paper: a KL term of weight 0.04, means of rows."""
        own: dict[str, Any] = {"loss_type": "grpo", "beta": 0.04, "use_bias_correction_kl": False}
        return cls(**(own | settings))

    @property
    def refills(self) -> int:
        """How often prompts are drawn in the place of those whose rewards are equal, at most."""
        return self.max_refills if self.dynamic_sampling else 0

    @property
    def needs_reference(self) -> bool:
        """Whether there is a KL term."""
        return self.beta != 0

    def entropy_control(self) -> EntropyControl | None:
        """Return what moves the weight of the entropy bonus, where that follows the entropy."""
        if not self.use_adaptive_entropy:
            return None
        return EntropyControl(
            self.entropy_coef,
            target=self.entropy_target,
            delta=self.entropy_coef_delta,
            least=self.entropy_coef_min,
            most=self.entropy_coef_max,
        )

    def acting(self, step: Step) -> Tensor:
        """Return a mask of the tokens that the policy's term is left to."""
        return uncertain(step.entropy, step.mask, self.top_entropy_quantile)

    def shaped(self, rewards: Rewards) -> Rewards:
        """Return rewards, and the punishment of length where it is asked for."""
        if not self.soft_punish_cache:
            return rewards
        punished = Overlong(self.max_completion_length, self.soft_punish_cache)
        if isinstance(rewards, Mapping):
            return {**rewards, "overlong": punished}
        return [*([rewards] if callable(rewards) else rewards), punished]

    def worth(self, seen: Judged) -> Worth:
        """Return advantages of completions among those of their prompt."""
        n = self.num_generations
        if self.multi_objective_aggregation == "normalize_then_sum":
            return Worth(normalize_then_sum(seen.terms, seen.weights, n))
        return Worth(group_advantages(seen.rewards, n, scale_rewards=str(self.scale_rewards)))

    def loss(self, step: Step) -> Loss:
        """Return the loss of a batch."""
        return grpo(
            step.log_probs,
            step.mask,
            step.advantages,
            step.old_log_probs,
            step.ref_log_probs,
            step.entropy,
            loss_type=self.loss_type,
            beta=self.beta,
            epsilon=self.epsilon,
            epsilon_high=self.epsilon_high,
            delta=self.delta,
            importance_sampling_level=self.importance_sampling_level,
            use_bias_correction_kl=self.use_bias_correction_kl,
            top_entropy_quantile=self.top_entropy_quantile,
            entropy_coef=self.entropy_coef if step.entropy_coef is None else step.entropy_coef,
            off_policy_mask_threshold=self.off_policy_mask_threshold,
            max_completion_length=self.max_completion_length,
            num_items=step.num_items,
            sapo_temperature_pos=self.sapo_temperature_pos,
            sapo_temperature_neg=self.sapo_temperature_neg,
            vespo_k_pos=self.vespo_k_pos,
            vespo_lambda_pos=self.vespo_lambda_pos,
            vespo_k_neg=self.vespo_k_neg,
            vespo_lambda_neg=self.vespo_lambda_neg,
        )
