"""What methods share that train on completions which the policy samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ...graph import Tensor
from ..experience import Experience
from ..losses.loss import Loss
from ..model import LanguageModel
from ..objectives.entropy import EntropyControl
from ..objectives.policy import PolicyObjective
from ..objectives.terms import Judged, Step, Worth
from ..rewards.judge import Rewards
from .settings import Settings

OWN = "completions are drawn by the model's own generation, or by sampler=..."
SHOWN = "objective.experience has what was sampled, and a panel shows it"
REFUSED = {
    "generation_batch_size": "batch_size·steps_per_generation says it",
    "num_generations_eval": "held-out prompts are sampled in groups of num_generations",
    "disable_dropout": "a model says its own dropout; ratio_tolerance finds one that acts",
    "pad_to_multiple_of": "widths are rounded so that few shapes come",
    "use_adaptive_entropy": "GRPO and its kin have an entropy bonus",
    "max_tool_calling_iterations": "completions call no tools",
    "chat_template_kwargs": "templates belong to the data",
    "num_completions_to_print": SHOWN,
    "cache_implementation": OWN,
    "generation_kwargs": OWN,
    "use_vllm": OWN,
    "vllm_": OWN,
    "use_transformers_": OWN,
    "log_": SHOWN,
    "entropy_": "GRPO and its kin have an entropy bonus",
}
"""Options of TRL that are refused, and why."""


@dataclass(frozen=True, kw_only=True)
class Sampled(Settings):
    """Settings of methods that sample: how completions are drawn and judged.

    Args:
        temperature: of the softmax, in sampling and in log-probabilities.
        top_p, top_k, min_p, repetition_penalty: how sampling leaves tokens out; log-probabilities
            are those of the whole softmax.
        reward_weights: what each reward counts; 1 by default.
        shuffle_dataset: whether prompts come in another order in each epoch.
        ratio_tolerance: how far the logarithm of a ratio may be from 0 before a rollout's first
            step, where policy and sampler are the same; None does not look.
        sync_ref_model: whether the reference follows the policy (TR-DPO), which
            ``ref_model_mixup_alpha`` α and ``ref_model_sync_steps`` say:
            ref ← α·policy + (1 − α)·ref, every so many steps.
        learning_rate: of AdamW, where a trainer is given no optimizer.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float | None = None
    repetition_penalty: float = 1.0
    reward_weights: tuple[float, ...] | None = None
    shuffle_dataset: bool = True
    ratio_tolerance: float | None = 1e-4
    sync_ref_model: bool = False
    ref_model_mixup_alpha: float = 0.6
    ref_model_sync_steps: int = 512
    learning_rate: float = 1e-6

    refused = REFUSED

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reward_weights is not None:
            weights = tuple(float(w) for w in self.reward_weights)
            object.__setattr__(self, "reward_weights", weights)
            self.check(all(map(math.isfinite, weights)), "reward_weights", "finite numbers")
        least = 2 if self.in_groups else 1
        self.check(self.num_generations >= least, "num_generations", f"an int >= {least}")
        self.check_positive("num_iterations", "steps_per_generation", "max_completion_length")
        self.check_positive("temperature", "ref_model_sync_steps")
        self.check(0 <= self.ref_model_mixup_alpha <= 1, "ref_model_mixup_alpha", "0 to 1")
        followed = self.needs_reference or not self.sync_ref_model
        self.check(followed, "sync_ref_model", "a reference, beta > 0")
        if self.ratio_tolerance is not None:
            self.check(self.ratio_tolerance > 0, "ratio_tolerance", "a number > 0, or None")

    # -- what an objective asks --------------------------------------------------------------------

    in_groups: ClassVar[bool] = True
    """Whether completions of one prompt are compared with each other."""
    by_token: ClassVar[bool] = False
    """Whether each token has an advantage of its own."""

    @property
    def told(self) -> tuple[str, ...]:
        """Names of facts that the method adds to those of a rollout."""
        return ()

    @property
    def num_generations(self) -> int:
        """How many completions each prompt has."""
        return 1

    @property
    def num_iterations(self) -> int:
        """How often a rollout is gone through."""
        return 1

    @property
    def steps_per_generation(self) -> int:
        """In how many batches."""
        return 1

    @property
    def max_completion_length(self) -> int:
        """After how many tokens a completion is cut."""
        return 1

    @property
    def mask_truncated_completions(self) -> bool:
        """Whether completions that were cut count for nothing."""
        return False

    @property
    def refills(self) -> int:
        """How often prompts are drawn in the place of those whose rewards are equal, at most."""
        return 0

    @property
    def critic(self) -> str:
        """What gives values: ``"head"`` on the policy's trunk, ``"copy"`` of the policy, or ""."""
        return ""

    @property
    def needs_reference(self) -> bool:
        """Whether log-probabilities of a reference are asked for."""
        return False

    def entropy_control(self) -> EntropyControl | None:
        """Return what moves the weight of an entropy bonus; None where nothing does."""
        return None

    def acting(self, step: Step) -> Tensor:
        """Return a mask of the tokens that a loss acts on."""
        return step.mask

    def shaped(self, rewards: Rewards) -> Rewards:
        """Return rewards with those that the method itself gives."""
        return rewards

    def facts(self, made: Experience) -> dict[str, float]:
        """Return what the method adds to the facts of a rollout, by the names in ``told``."""
        return {}

    def worth(self, seen: Judged) -> Worth:
        """Return what completions were worth, as a graph."""
        raise NotImplementedError

    def loss(self, step: Step) -> Loss:
        """Return the loss of a batch of a rollout."""
        raise NotImplementedError

    def objective(self, model: LanguageModel, *, rewards: Rewards, **given: Any) -> PolicyObjective:
        """Return the objective that a trainer of ``model.graph`` takes in the place of a loss.

        ``given`` are the other settings of `PolicyObjective`.
        """
        return PolicyObjective(model, self, rewards, **given)
