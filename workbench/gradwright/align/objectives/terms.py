"""What methods that sample are given to make advantages and losses of, and what they return."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import GraphError
from ...graph import Tensor


class Judged(NamedTuple):
    """A rollout in the graph that makes advantages of it; nothing of it has a gradient."""

    rewards: Tensor
    """f64[rows]: the weighted sums; NaN where no reward had anything to say."""
    terms: Tensor
    """f64[rows, K], likewise: what each reward says, composed of its parts."""
    weights: Tensor
    """f64[K]"""
    ended: Tensor
    """bool[rows]: whether a row came to an end of its own."""
    mask: Tensor
    """bool[rows, T − 1]: which tokens count."""
    log_probs: Tensor
    """f64[rows, T − 1], of the policy that drew them; 0 where the mask is."""
    ref_log_probs: Tensor
    values: Tensor


class Worth(NamedTuple):
    """What each completion, or each token, was worth."""

    advantages: Tensor
    """f64[rows], or f64[rows, T − 1]."""
    returns: Tensor | None = None
    """f64[rows, T − 1]: what values shall become."""
    token_rewards: Tensor | None = None


class Step(NamedTuple):
    """What a step's loss is made of; gradients flow to the first two and to ``values``."""

    log_probs: Tensor
    """f32[B, T − 1]"""
    entropy: Tensor
    mask: Tensor
    """bool[B, T − 1]"""
    advantages: Tensor
    """f32[B], or f32[B, T − 1]."""
    old_log_probs: Tensor
    num_items: Tensor
    """f32[]: how many tokens a batch of the rollout has, on average."""
    ref_log_probs: Tensor | None = None
    values: Tensor | None = None
    old_values: Tensor | None = None
    returns: Tensor | None = None
    entropy_coef: Tensor | None = None
    """f32[]: what an entropy bonus weighs, where that moves."""


def needed(what: str, x: Tensor | None) -> Tensor:
    """Return what a method asks for; raises GraphError where it is not there."""
    if x is None:
        raise GraphError(f"the loss asks for {what}, which this objective does not have")
    return x
