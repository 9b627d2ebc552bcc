"""Proximal policy optimisation with a value head."""

from __future__ import annotations

from ...graph import Tensor
from ...ops.core.choice import Clip, Maximum
from ...ops.core.exponential import Exp
from .loss import Loss, counted, kept, same, still, token_mean


def ppo(
    logps: Tensor,
    old_logps: Tensor,
    mask: Tensor,
    advantages: Tensor,
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    value_mask: Tensor | None = None,
    *,
    cliprange: float = 0.2,
    cliprange_value: float = 0.2,
    vf_coef: float = 0.1,
    entropy: Tensor | None = None,
) -> Loss:
    """Return the clipped loss of a policy and its values (Schulman et al. 2017, arXiv:1707.06347).

    mean max(−ρA, −clip(ρ, 1 ± ε)·A) + vf_coef·½·mean max((V − R)², (clip(V, V_old ± ε_v) − R)²),
    ρ = exp(log π − log π_old), means over the tokens that a mask counts

    All tensors are f32[B, T]. ``value_mask`` counts one place more than the mask, for the score;
    without it values count where tokens do. Gradients flow to ``logps`` and ``values`` alone.
    Metrics have the names of TRL's; approxkl is over all places, 0 where no token is.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, one, zero = (g.constant([[v, v]]) for v in (-1.0, 1.0, 0.0))
    >>> loss = gw.align.ppo(x, x, one, one, one, one, zero)
    >>> [round(float(v), 4) for v in g.output({}, loss.value).values()]
    [-0.95]
    """
    same(logps=logps, old_logps=old_logps, mask=mask, advantages=advantages, values=values)
    same(logps=logps, old_values=old_values, returns=returns, value_mask=value_mask)
    gain, old, goal = still(advantages), still(old_values), still(returns)
    moved = kept(logps - still(old_logps), mask)
    ratio = Exp()(moved)
    plain, clipped = -gain * ratio, -gain * Clip()(ratio, 1 - cliprange, 1 + cliprange)
    policy = token_mean(Maximum()(plain, clipped), mask)

    seen = mask if value_mask is None else value_mask
    near = old + Clip()(values - old, -cliprange_value, cliprange_value)
    far, held = (values - goal) * (values - goal), (near - goal) * (near - goal)
    of_values = 0.5 * token_mean(Maximum()(far, held), seen)
    metrics = {
        "policy/approxkl_avg": still(0.5 * (moved * moved).mean()),
        "policy/clipfrac_avg": token_mean(counted(clipped > plain, logps), mask),
        "loss/policy_avg": still(policy),
        "loss/value_avg": still(of_values),
        "val/clipfrac_avg": token_mean(counted(held > far, logps), seen),
        "val/ratio": still(ratio).mean(),
    }
    if entropy is not None:
        metrics["policy/entropy_avg"] = still(token_mean(entropy, mask))
    return Loss(policy + vf_coef * of_values, metrics)
