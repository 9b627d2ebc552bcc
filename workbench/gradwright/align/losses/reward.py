"""The loss of a reward model: which of two completions is better."""

from __future__ import annotations

from ...graph import Tensor
from .dpo import log_sigmoid
from .loss import Loss, counted, halves, same, still


def reward(
    rewards: Tensor,
    margin: Tensor | None = None,
    *,
    center_rewards_coefficient: float | None = None,
) -> Loss:
    """Return the Bradley-Terry loss of rewards.

    −mean log σ(r_w − r_l − margin) + c·mean (r_w + r_l)²

    ``rewards`` are f32[2·B], of the chosen completions, then of the rejected ones; ``margin``
    f32[B] says by how much a pair should differ (Touvron et al. 2023, arXiv:2307.09288); c keeps
    rewards around 0 (Eisenstein et al. 2023, arXiv:2312.09244). Metrics: min, mean and max reward,
    accuracy, margin.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> loss = gw.align.reward(g.constant([1.0, 1.0]))
    >>> [round(float(x), 4) for x in g.output({}, loss.value).values()]
    [0.6931]
    """
    chosen, rejected = halves(rewards)
    same(rewards_of_pairs=chosen, margin=margin)
    apart = chosen - rejected
    value = -log_sigmoid(apart if margin is None else apart - margin).mean()
    if center_rewards_coefficient is not None:
        both = chosen + rejected
        value = value + center_rewards_coefficient * (both * both).mean()
    seen = still(rewards)
    metrics = {
        "min_reward": seen.min(),
        "mean_reward": seen.mean(),
        "max_reward": seen.max(),
        "accuracy": counted(chosen > rejected, rewards).mean(),
        "margin": still(apart).mean(),
    }
    return Loss(value, metrics)
