"""Facts of a rollout: the numbers by which one sees how sampling goes, under TRL's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...evaluation.metrics import Mean
from ...graph import Tensor
from ..experience import Experience
from ..rewards.judge import Rewards, curves
from .drawing import Refills, equal_groups

if TYPE_CHECKING:
    from ..methods.sampled import Sampled

Array = np.ndarray[Any, Any]
LENGTHS = "completions/"
OF_REWARD = ("mean", "std")
NAMES = (
    *("num_tokens", "reward", "reward_std", "frac_reward_zero_std"),
    *(f"{LENGTHS}{of}_length" for of in ("mean", "min", "max")),
    *(f"{LENGTHS}{of}_terminated_length" for of in ("mean", "min", "max")),
    *(f"{LENGTHS}clipped_ratio", "rollout/entropy", "rollout/kl"),
    *("rollout/refills", "rollout/left_out"),
)


def names(method: Sampled, rewards: Rewards) -> list[str]:
    """Return the names of the facts of a rollout with these rewards."""
    each = [f"rewards/{name}/{of}" for name in curves(method.shaped(rewards)) for of in OF_REWARD]
    return [*NAMES, *method.told, *each]


def facts(
    method: Sampled, experience: Experience, refills: Refills, num_tokens: int
) -> dict[str, float]:
    """Return the facts of a rollout.

    Means and deviations are over what rewards have said; ``frac_reward_zero_std`` is the share of
    groups whose rewards are all equal, NaN where each is of one row, ``completions/clipped_ratio``
    that of rows which were cut, ``rollout/kl`` the mean of e^d − d − 1 over tokens, where there is
    a reference, d = log π_ref − log π, and ``rollout/left_out`` the share of groups that refills
    have left out.
    """
    rollout, scores, mask = experience.rollout, experience.scores, experience.mask
    lengths, ended = rollout.lengths, rollout.ended
    found = {
        "num_tokens": float(num_tokens),
        "reward": _mean(scores.total),
        "reward_std": _std(scores.total),
        "frac_reward_zero_std": float("nan"),
        f"{LENGTHS}clipped_ratio": float(1 - ended.mean()),
        "rollout/entropy": _mean(experience.entropy[mask]),
        "rollout/kl": float("nan"),
        "rollout/refills": float(refills.times),
        "rollout/left_out": refills.left_out / max(refills.of, 1),
    }
    if rollout.group > 1:
        equal = equal_groups(scores.total, rollout.group)
        found["frac_reward_zero_std"] = float(equal.mean())
    for word, of in (("", lengths), ("terminated_", lengths[ended])):
        for name, reduce in (("mean", np.mean), ("min", np.min), ("max", np.max)):
            found[f"{LENGTHS}{name}_{word}length"] = float(reduce(of)) if of.size else 0.0
    if experience.ref_log_probs is not None:
        d = (experience.ref_log_probs - experience.log_probs)[mask]
        found["rollout/kl"] = _mean(np.expm1(d) - d)
    for name, column in scores.by_name().items():
        found[f"rewards/{name}/mean"], found[f"rewards/{name}/std"] = _mean(column), _std(column)
    return found | method.facts(experience)


def _mean(x: Array) -> float:
    said = x[~np.isnan(x)]
    return float(said.mean()) if said.size else float("nan")


def _std(x: Array) -> float:
    """Return the deviation with Bessel's correction."""
    said = x[~np.isnan(x)]
    return float(said.std(ddof=1)) if said.size > 1 else float("nan")


class Fact(Mean):
    """A number of the rollout that a batch is of, by its place in what is fed."""

    def __init__(self, fed: Tensor, place: int) -> None:
        self.fetches, self._place = (fed,), place

    def add(self, total: Any, arrays: Sequence[Array], rows: float) -> Any:
        """Add a batch, weighted by its rows."""
        return super().add(total, [arrays[0][self._place]], rows)
