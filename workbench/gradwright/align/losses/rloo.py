"""REINFORCE with the other samples of a prompt as baseline."""

from __future__ import annotations

from ...graph import Tensor
from ...ops.core.choice import Clip, Minimum
from ...ops.core.exponential import Exp
from .grpo import clip_shares
from .loss import Loss, row_sums, same, still, token_mean


def rloo(
    logps: Tensor,
    old_logps: Tensor,
    mask: Tensor,
    advantages: Tensor,
    *,
    epsilon: float = 0.2,
    epsilon_high: float | None = None,
    entropy: Tensor | None = None,
) -> Loss:
    """Return the clipped loss of whole completions (Ahmadian et al. 2024, arXiv:2402.14740).

    −mean min(ρA, clip(ρ, 1 − ε, 1 + ε_high)·A),  ρ = exp Σ_t (log π − log π_old)

    ``logps`` and ``mask`` are f32[B, T], ``advantages`` f32[B] as of `leave_one_out`;
    ``old_logps``, f32[B, T] or sums f32[B], get no gradient.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, mask = g.constant([[-1.0], [-2.0]]), g.constant([[1], [1]])
    >>> loss = gw.align.rloo(x, x, mask, g.constant([1.0, -2.0]))
    >>> [float(v) for v in g.output({}, loss.value).values()]
    [0.5]
    """
    same(logps=logps, mask=mask, entropy=entropy)
    sums = row_sums(logps, mask)
    old = still(old_logps if old_logps.rank == 1 else row_sums(old_logps, mask))
    same(rows=sums, old_logps=old, advantages=advantages)
    ratio, gain = Exp()(sums - old), still(advantages)
    high = epsilon if epsilon_high is None else epsilon_high
    clipped = Clip()(ratio, 1 - epsilon, 1 + high)
    value = -Minimum()(ratio * gain, clipped * gain).mean()
    metrics = clip_shares(ratio.expand_dims(-1), gain.expand_dims(-1), None, epsilon, high)
    if entropy is not None:
        metrics["entropy"] = still(token_mean(entropy, mask))
    return Loss(value, metrics)
