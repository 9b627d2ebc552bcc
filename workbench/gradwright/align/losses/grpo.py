"""Group-relative policy optimisation and its kin: a loss per token, and how tokens are counted."""

from __future__ import annotations

import math
from typing import Any

from ...errors import GraphError
from ...graph import Tensor
from ...ops.core.activation import Sigmoid
from ...ops.core.choice import Clip, Maximum, Minimum, Where
from ...ops.core.comparison import Ceil, Floor
from ...ops.core.exponential import Exp
from ...ops.core.index import Gather
from ...ops.core.movement import Cast
from ...ops.core.sorting import Sort
from .advantages import kl_estimate
from .loss import (
    Loss,
    chosen_from,
    counted,
    kept,
    lengths,
    row_means,
    same,
    shared_among,
    still,
    token_mean,
)

CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
TYPES = (*CLIPPED, "cispo", "sapo", "vespo")
LEAST, MOST = math.log(1e-8), 20.0
"""Where VESPO holds the logarithm of a completion's weight."""


def grpo(
    logps: Tensor,
    mask: Tensor,
    advantages: Tensor,
    old_logps: Tensor | None = None,
    ref_logps: Tensor | None = None,
    entropy: Tensor | None = None,
    *,
    loss_type: str = "dapo",
    beta: float = 0.0,
    epsilon: float = 0.2,
    epsilon_high: float | None = None,
    delta: float | None = None,
    importance_sampling_level: str = "token",
    use_bias_correction_kl: bool = True,
    top_entropy_quantile: float = 1.0,
    entropy_coef: Tensor | float = 0.0,
    off_policy_mask_threshold: float | None = None,
    max_completion_length: int | None = None,
    num_items: Tensor | float | None = None,
    sapo_temperature_pos: float = 1.0,
    sapo_temperature_neg: float = 1.05,
    vespo_k_pos: float = 2.0,
    vespo_lambda_pos: float = 3.0,
    vespo_k_neg: float = 3.0,
    vespo_lambda_neg: float = 2.0,
) -> Loss:
    """Return a loss of sampled completions and their advantages (Shao et al. 2024, GRPO).

    l_t = −min(ρA, clip(ρ, 1 − ε, 1 + ε_high)·A) + β·KL_t,  ρ = exp(log π − log π_old),
    KL_t = e^d − d − 1 with d = log π_ref − log π

    ``logps`` and ``mask`` are f32[B, T], ``advantages`` f32[B], or f32[B, T] by token; no gradient
    flows to these, nor to ``old_logps`` and ``ref_logps``, f32[B, T]. Without ``old_logps`` the
    policy is its own: ρ is 1, its gradient that of REINFORCE. ρ of a completion, exp of the mean of
    its log ratios, stands for its tokens with ``importance_sampling_level="sequence"`` (GSPO).
    ``delta`` caps the unclipped ρ; KL_t is multiplied by ρ with ``use_bias_correction_kl``.

    How tokens are counted, by ``loss_type``: grpo, sapo Σ_t l/|y| per row, then the mean of rows;
    bnpo Σ l/Σ mask; dr_grpo Σ l/(B·max_completion_length); dapo, cispo, vespo Σ l/num_items, the
    tokens of all batches of a step (without it, of this one); luspo Σ_t l, then the mean of rows.
    In the place of the clipped term stand cispo −sg(min(ρ, ε_high))·A·log π; sapo
    −σ(τ(ρ − 1))·4A/τ, τ by the sign of A; vespo −sg(φ)·A·log π, φ = e^(λ + k·log w − λw), w the
    weight of the completion, k and λ by the sign of A.

    ``top_entropy_quantile`` q < 1 leaves the policy's term to tokens whose entropy is in the upper
    share q; ``entropy_coef``, a number or a scalar, subtracts the mean entropy of these;
    ``off_policy_mask_threshold``
    leaves out completions with A < 0 whose mean log π_old − log π exceeds it. Metrics have
    TRL's names. Raises GraphError for unknown names and for what a setting needs and was not given.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, mask = g.constant([[-1.0, -2.0], [-1.0, 0.0]]), g.constant([[1, 1], [1, 0]])
    >>> loss = gw.align.grpo(x, mask, g.constant([1.0, -1.0]), loss_type="grpo")
    >>> [float(v) for v in g.output({}, loss.value).values()]
    [0.0]
    """
    chosen_from("loss_type", loss_type, TYPES)
    chosen_from("importance_sampling_level", importance_sampling_level, ("token", "sequence"))
    same(logps=logps, mask=mask, old_logps=old_logps, ref_logps=ref_logps, entropy=entropy)
    _needs("beta", bool(beta), ref_logps=ref_logps)
    _needs("top_entropy_quantile", top_entropy_quantile < 1, entropy=entropy)
    bonus = isinstance(entropy_coef, Tensor) or entropy_coef != 0
    _needs("entropy_coef", bonus, entropy=entropy)
    _needs("loss_type='dr_grpo'", loss_type == "dr_grpo", length=max_completion_length)
    _needs("loss_type='cispo'", loss_type == "cispo", epsilon_high=epsilon_high)
    same(rows=logps[:, 0] if advantages.rank == 1 else logps, advantages=advantages)
    high = epsilon if epsilon_high is None else epsilon_high
    gain = still(advantages.expand_dims(-1) if advantages.rank == 1 else advantages)
    old = still(logps if old_logps is None else old_logps)
    moved = kept(logps - old, mask)
    by_row = importance_sampling_level == "sequence"
    ratio = Exp()(row_means(moved, mask).expand_dims(-1) if by_row else moved)
    metrics: dict[str, Tensor] = {}

    if loss_type in CLIPPED:
        clipped = Clip()(ratio, 1 - epsilon, 1 + high)
        capped = ratio if delta is None else Minimum()(ratio, delta)
        each = -Minimum()(capped * gain, clipped * gain)
        metrics = clip_shares(still(capped), gain, None if by_row else mask, epsilon, high)
    elif loss_type == "cispo":
        each = -still(Minimum()(ratio, high)) * gain * logps
        over = counted((ratio > high) & (gain > 0), logps)
        metrics["cispo_clip_ratio"] = over.mean() if by_row else token_mean(over, mask)
    elif loss_type == "sapo":
        t = Where()(gain > 0, sapo_temperature_pos, sapo_temperature_neg)
        each = -Sigmoid()(t * (ratio - 1)) * 4 / t * gain
    else:
        log_w = Clip()(kept(Clip()(moved, -MOST, MOST), mask).sum(-1, keepdims=True), LEAST, MOST)
        k = Where()(gain >= 0, vespo_k_pos, vespo_k_neg)
        rate = Where()(gain >= 0, vespo_lambda_pos, vespo_lambda_neg)
        phi = still(Exp()(rate + k * log_w - rate * Exp()(log_w)))
        each = -phi * gain * logps
        metrics["vespo/phi_seq_mean"] = phi.mean()

    acting = mask
    if off_policy_mask_threshold is not None:
        drift = row_means(still(-moved), mask).expand_dims(-1)
        each = each * counted((gain >= 0) | (drift <= off_policy_mask_threshold), logps)
    if top_entropy_quantile < 1 and entropy is not None:
        acting = uncertain(entropy, mask, top_entropy_quantile)
        each = each * acting
    if beta and ref_logps is not None:
        kl = kl_estimate(kept(logps, mask), still(kept(ref_logps, mask)), "k3")
        kl = kl * ratio if use_bias_correction_kl else kl
        each = each + beta * kl
        metrics["kl"] = still(token_mean(kl, mask))

    value = _counted_by(
        loss_type, each + kept(logps, mask) * 0, mask, max_completion_length, num_items
    )
    if entropy is not None:
        metrics["entropy"] = still(token_mean(entropy, mask))
    if bonus and entropy is not None:
        metrics["policy_loss"] = still(value)
        value = value - entropy_coef * token_mean(entropy, acting)
    return Loss(value, metrics)


def _needs(setting: str, asked: bool, **given: Any) -> None:
    for name, x in given.items():
        if asked and x is None:
            name = "max_completion_length" if name == "length" else name
            raise GraphError(f"{setting} needs {name}", need=f"{name}=…")


def uncertain(entropy: Tensor, mask: Tensor, share: float) -> Tensor:
    """Return a mask of the tokens whose entropy is in the upper share of those that count."""
    seen, counts = still(entropy), counted(mask, entropy)
    if share >= 1:
        return counts
    ordered = Sort()(Where()(mask != 0, seen, math.inf).reshape((-1,)))
    at = (1 - share) * Maximum()(counts.sum() - 1, 0)
    low, high = (Gather()(ordered, Cast(dtype="int64")(op()(at))) for op in (Floor, Ceil))
    bound = low + (high - low) * (at - Floor()(at))
    return counted(seen >= bound, entropy) * counts


def _counted_by(
    loss_type: str,
    each: Tensor,
    mask: Tensor,
    longest: int | None,
    num_items: Tensor | float | None,
) -> Tensor:
    """Return one number of all tokens' losses, f32[B, T]."""
    rows = kept(each, mask).sum(-1)
    if loss_type in ("grpo", "sapo"):
        return (rows / lengths(mask, each)).mean()
    if loss_type == "luspo":
        return rows.mean()
    if loss_type == "dr_grpo":
        return rows.mean() / float(longest or 1)
    return shared_among(rows.sum(), mask, None if loss_type == "bnpo" else num_items)


def clip_shares(
    ratio: Tensor, gain: Tensor, mask: Tensor | None, low: float, high: float
) -> dict[str, Tensor]:
    """Return how much is clipped below and above: of tokens, and least and most of a row.

    Without a mask the ratio has one number a row.
    """
    below = counted((ratio < 1 - low) & (gain < 0), ratio)
    above = counted((ratio > 1 + high) & (gain > 0), ratio)
    mean = (lambda x: x.mean()) if mask is None else (lambda x: token_mean(x, mask))
    of_row = (lambda x: x.sum(-1)) if mask is None else (lambda x: row_means(x, mask))
    return {
        "clip_ratio/low_mean": mean(below),
        "clip_ratio/low_min": of_row(below).min(),
        "clip_ratio/high_mean": mean(above),
        "clip_ratio/high_max": of_row(above).max(),
        "clip_ratio/region_mean": mean(below + above),
    }
