"""REINFORCE with the other completions of a prompt as baseline: its settings."""

from __future__ import annotations

from dataclasses import dataclass

from ...ops.core.choice import Clip
from ...words.jsonable import jsonable
from ..experience import Experience
from ..losses.advantages import kl_estimate, leave_one_out, normalized
from ..losses.loss import Loss, row_sums
from ..losses.rloo import rloo
from ..objectives.terms import Judged, Step, Worth
from .sampled import Sampled


@jsonable
@dataclass(frozen=True, kw_only=True)
class RLOO(Sampled):
    """REINFORCE leave-one-out (Ahmadian et al. 2024, arXiv:2402.14740), with TRL's defaults.

    R ← clip(R) − beta·Σ_t (log π_old − log π_ref),  A = R − mean of the others of its group

    Args:
        num_generations: completions of a prompt, 2 or more.
        max_completion_length: after how many tokens one is cut.
        num_iterations: how often a rollout is gone through.
        steps_per_generation: how many batches a rollout makes.
        beta: weight of the KL divergence in the reward; at 0 there is no reference.
        epsilon, epsilon_high: how far the ratio of a completion may be below and above 1.
        normalize_advantages: whether those of a rollout have mean 0 and deviation 1.
        reward_clip_range: the least and the most that a reward counts.
        mask_truncated_completions: whether completions that were cut count for nothing.

    All others are those of all methods that sample. Raises GraphError for settings that make no
    sense, and for options of TRL that are not here, with the reason.

    >>> import gradwright as gw
    >>> gw.align.RLOO().num_generations, gw.align.RLOO().beta
    (2, 0.05)
    """

    num_generations: int = 2
    max_completion_length: int = 512
    num_iterations: int = 1
    steps_per_generation: int = 1
    beta: float = 0.05
    epsilon: float = 0.2
    epsilon_high: float | None = None
    normalize_advantages: bool = False
    reward_clip_range: tuple[float, float] | None = None
    mask_truncated_completions: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        bounds = self.reward_clip_range
        if bounds is not None:
            object.__setattr__(self, "reward_clip_range", tuple(bounds))
            self.check(len(bounds) == 2 and bounds[0] <= bounds[1], "reward_clip_range", "(a, b)")

    @property
    def needs_reference(self) -> bool:
        """Whether there is a KL term."""
        return self.beta != 0

    @property
    def told(self) -> tuple[str, ...]:
        """Names of facts that the method adds to those of a rollout."""
        return ("kl",) if self.beta else ()

    def facts(self, made: Experience) -> dict[str, float]:
        """Return the mean of log π_old − log π_ref over tokens, where there is a reference."""
        if made.ref_log_probs is None:
            return {}
        moved = (made.log_probs - made.ref_log_probs)[made.mask]
        return {"kl": float(moved.mean()) if moved.size else 0.0}

    def worth(self, seen: Judged) -> Worth:
        """Return advantages of completions over the others of their prompt."""
        rewards = seen.rewards
        if self.reward_clip_range is not None:
            rewards = Clip()(rewards, *self.reward_clip_range)
        if self.beta:
            kl = kl_estimate(seen.log_probs, seen.ref_log_probs)
            rewards = rewards - self.beta * row_sums(kl, seen.mask)
        advantages = leave_one_out(rewards, self.num_generations)
        if self.normalize_advantages:
            advantages = normalized(advantages, rewards == rewards)
        return Worth(advantages)

    def loss(self, step: Step) -> Loss:
        """Return the loss of a batch."""
        return rloo(
            step.log_probs,
            step.old_log_probs,
            step.mask,
            step.advantages,
            epsilon=self.epsilon,
            epsilon_high=self.epsilon_high,
            entropy=step.entropy,
        )
