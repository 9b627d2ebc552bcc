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


def _checked(n: int) -> int:
    if n < 2:
        raise GraphError(f"a group of {n} has nothing to compare", need="num_generations >= 2")
    return n


def _groups(rewards: Tensor, n: int) -> Tensor:
    return rewards.reshape((-1, _checked(n)))


def _said(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return rewards with zeros for NaN, and a mask of those that are numbers."""
    there = x == x
    return kept(x, there), counted(there, x)


def _centred(x: Tensor, there: Tensor, axis: int | None) -> tuple[Any, Any]:
    """Return x less its mean, and the deviation with Bessel's correction, of what is there."""
    keep = axis is not None
    n = there.sum(axis, keepdims=keep)
    off = (x - (x * there).sum(axis, keepdims=keep) / Maximum()(n, 1)) * there
    return off, Sqrt()((off * off).sum(axis, keepdims=keep) / Maximum()(n - 1, 1))


def group_advantages(
    rewards: Tensor, num_generations: int, *, scale_rewards: str = "group"
) -> Tensor:
    """Return (R − mean of its group)/(std + 1e-4), f32[B]; groups are runs of ``num_generations``.

    std is the group's, with Bessel's correction; that of all rows for ``"batch"``; for ``"none"``
    nothing is divided by (Dr. GRPO). Rewards that are all equal give 0. A reward that is NaN counts
    in no mean, and its advantage is 0. Raises GraphError for groups of one.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.align.group_advantages(g.constant([1.0, 3.0, 5.0, 5.0]), 2, scale_rewards="none")
    >>> [x.tolist() for x in g.output({}, y).values()]
    [[-1.0, 1.0, 0.0, 0.0]]
    """
    chosen_from("scale_rewards", scale_rewards, ("group", "batch", "none"))
    off, std = _centred(*_said(_groups(rewards, num_generations)), -1)
    if scale_rewards == "batch":
        _, std = _centred(*_said(rewards), None)
    found: Tensor = (off if scale_rewards == "none" else off / (std + 1e-4)).reshape((-1,))
    return found


def normalize_then_sum(rewards: Tensor, weights: Tensor, num_generations: int) -> Tensor:
    """Return advantages of several rewards, each put on one scale first, f32[B] (GDPO).

    z_k = (R_k − mean of its group)/(std + 1e-4),  s = Σ_k w_k·z_k,  A = (s − mean s)/(std s + 1e-4)

    ``rewards`` are f32[B, K], ``weights`` f32[K]. What is NaN counts for nothing; a row without
    any reward has A = 0. Raises GraphError for groups of one.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> each, w = g.constant([[0.0, 10.0], [1.0, 30.0]]), g.constant([1.0, 1.0])
    >>> y = gw.align.normalize_then_sum(each, w, 2)
    >>> [x.round(3) for x in g.output({}, y).values()]
    [array([-0.707,  0.707], dtype=float32)]
    """
    n = _checked(num_generations)
    x, there = _said(rewards)
    shape = (-1, n, rewards.shape[1])
    off, std = _centred(x.reshape(shape), there.reshape(shape), 1)
    z = (off / (std + 1e-4)).reshape((-1, rewards.shape[1]))
    return normalized((z * weights).sum(-1), there.max(-1))


def normalized(x: Tensor, there: Tensor) -> Tensor:
    """Return (x − mean)/(std + 1e-4) over what is there, with Bessel's correction; 0 elsewhere."""
    off, std = _centred(kept(x, there), counted(there, x), None)
    found: Tensor = off / (std + 1e-4)
    return found


def leave_one_out(rewards: Tensor, num_generations: int) -> Tensor:
    """Return R − mean of the others of its group, f32[B] (Ahmadian et al. 2024, "RLOO").

    A reward that is NaN counts in no mean, and its advantage is 0, as is one that is left alone.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.align.leave_one_out(g.constant([1.0, 3.0]), 2)
    >>> [x.tolist() for x in g.output({}, y).values()]
    [[-2.0, 2.0]]
    """
    groups, there = _said(_groups(rewards, num_generations))
    n = there.sum(-1, keepdims=True) - 1
    others = (groups.sum(-1, keepdims=True) - groups) / Maximum()(n, 1)
    alone = counted(n > 0, groups)
    found: Tensor = ((groups - others) * there * alone).reshape((-1,))
    return found


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
