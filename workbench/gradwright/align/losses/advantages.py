"""What advantages are made of: groups, baselines, estimates of KL, sums of what comes later."""

from __future__ import annotations

from typing import Any

from ...errors import GraphError
from ...graph import Tensor
from ...ops.core.choice import Maximum, Where
from ...ops.core.exponential import Exp, Sqrt
from ...ops.core.functions import Pow
from ...ops.core.like import IotaLike
from ...ops.core.movement import ExpandDims
from .loss import chosen_from, counted, kept, same, token_mean


def _groups(rewards: Tensor, n: int) -> Tensor:
    if n < 2:
        raise GraphError(f"a group of {n} has nothing to compare", need="num_generations >= 2")
    return rewards.reshape((-1, n))


def _spread(x: Tensor, n: Any, axis: int | None) -> Any:
    """Return the standard deviation with Bessel's correction."""
    off = x - x.mean(axis, keepdims=axis is not None)
    return Sqrt()((off * off).sum(axis, keepdims=axis is not None) / (n - 1))


def group_advantages(
    rewards: Tensor, num_generations: int, *, scale_rewards: str = "group"
) -> Tensor:
    """Return (R − mean of its group)/(std + 1e-4), f32[B]; groups are runs of ``num_generations``.

    std is the group's, with Bessel's correction; that of all rows for ``"batch"``; for ``"none"``
    nothing is divided by (Dr. GRPO). Rewards that are all equal give 0. Raises GraphError for
    groups of one.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.align.group_advantages(g.constant([1.0, 3.0, 5.0, 5.0]), 2, scale_rewards="none")
    >>> [x.tolist() for x in g.output({}, y).values()]
    [[-1.0, 1.0, 0.0, 0.0]]
    """
    chosen_from("scale_rewards", scale_rewards, ("group", "batch", "none"))
    groups = _groups(rewards, num_generations)
    off = groups - groups.mean(-1, keepdims=True)
    if scale_rewards == "group":
        off = off / (_spread(groups, num_generations, -1) + 1e-4)
    elif scale_rewards == "batch":
        n = counted(rewards == rewards, rewards).sum()
        off = off / (_spread(rewards, n, None) + 1e-4)
    return off.reshape((-1,))


def leave_one_out(rewards: Tensor, num_generations: int) -> Tensor:
    """Return R − mean of the others of its group, f32[B] (Ahmadian et al. 2024, "RLOO").

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.align.leave_one_out(g.constant([1.0, 3.0]), 2)
    >>> [x.tolist() for x in g.output({}, y).values()]
    [[-2.0, 2.0]]
    """
    groups = _groups(rewards, num_generations)
    others = (groups.sum(-1, keepdims=True) - groups) / (num_generations - 1)
    return (groups - others).reshape((-1,))


def kl_estimate(logps: Tensor, ref_logps: Tensor, kind: str = "k1") -> Any:
    """Return an estimate per token of KL(π ‖ π_ref) from samples of π (Schulman 2020).

    d = log π_ref − log π:  k1 −d,  k2 d²/2,  k3 e^d − d − 1, which is never negative

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.align.kl_estimate(g.constant([0.0]), g.constant([-1.0]), "k3")
    >>> [x.round(4) for x in g.output({}, y).values()]
    [array([0.3679], dtype=float32)]
    """
    chosen_from("kind", kind, ("k1", "k2", "k3"))
    same(logps=logps, ref_logps=ref_logps)
    d = ref_logps - logps
    return -d if kind == "k1" else d * d * 0.5 if kind == "k2" else Exp()(d) - d - 1


def token_rewards(
    scores: Tensor,
    logps: Tensor,
    ref_logps: Tensor,
    mask: Tensor,
    *,
    kl_coef: float = 0.05,
    kl_estimator: str = "k1",
) -> Tensor:
    """Return PPO's rewards per token, f32[B, T]: −kl_coef·KL_t, with the score at the last token.

    The score, f32[B], stands one place behind the last token that the mask counts, or at it where
    the row ends there: where the value of the whole completion is.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, mask = g.constant([[-1.0, -1.0, -1.0]]), g.constant([[1, 0, 0]])
    >>> y = gw.align.token_rewards(g.constant([2.0]), x, x, mask)
    >>> [r.tolist() for r in g.output({}, y).values()]
    [[[0.0, 2.0, 0.0]]]
    """
    same(logps=logps, ref_logps=ref_logps, mask=mask)
    kl = kl_estimate(kept(logps, mask), kept(ref_logps, mask), kl_estimator)
    places = counted(IotaLike()(kl[0]), logps)
    counts = counted(mask, logps)
    last = (counts * places).max(-1, keepdims=True)
    end = Where()(last + 1 <= places.max(), last + 1, last)
    found: Tensor = Where()(places == end, ExpandDims(axis=-1)(scores), 0) - kl_coef * kl
    return found


def whiten(x: Tensor, mask: Tensor, *, shift_mean: bool = True) -> Any:
    """Return a tensor with mean 0 and variance 1 over what the mask counts, 0 elsewhere.

    (x − μ)/√(σ² + 1e-8), σ² with Bessel's correction; without ``shift_mean`` μ is added again

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.align.whiten(g.constant([[1.0, 3.0, 99.0]]), g.constant([[1, 1, 0]]))
    >>> [x.round(4) for x in g.output({}, y).values()]
    [array([[-0.7071,  0.7071,  0.    ]], dtype=float32)]
    """
    same(x=x, mask=mask)
    n, mean = counted(mask, x).sum(), token_mean(x, mask)
    off = x - mean
    variance = token_mean(off * off, mask) * n / Maximum()(n - 1, 1)
    y = off / Sqrt()(variance + 1e-8)
    return kept(y if shift_mean else y + mean, mask)


def gae(rewards: Tensor, values: Tensor, *, gamma: float = 1.0, lam: float = 0.95) -> Tensor:
    """Return generalised advantages, f32[B, T] (Schulman et al. 2016, arXiv:1506.02438).

    A_t = Σ_k (γλ)ᵏ·δ_(t+k),  δ_t = r_t + γ·V_(t+1) − V_t, with V = 0 behind the end

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.align.gae(g.constant([[0.0, 1.0]]), g.constant([[0.5, 0.5]]), lam=0.5)
    >>> [x.tolist() for x in g.output({}, y).values()]
    [[[0.25, 0.5]]]
    """
    same(rewards=rewards, values=values)
    later = values[:, 1:].pad([(0, 0), (0, 1)])
    delta = rewards + gamma * later - values
    at = counted(IotaLike()(values[0]), values)
    ahead = ExpandDims(axis=1)(at) - at  # [s, t]: how far step s is ahead of step t
    decay = Pow()(gamma * lam, Maximum()(ahead, 0)) * counted(ahead >= 0, values)
    found: Tensor = delta @ decay
    return found
