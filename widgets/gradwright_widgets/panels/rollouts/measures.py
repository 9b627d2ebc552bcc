"""What colours the tokens of a rollout: one number for each, and how far from where it is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from gradwright.align import Experience

Array = np.ndarray[Any, Any]
MEASURES = ("advantage", "ratio", "kl", "entropy", "reward")
ODD = 0.99
"""Share of the tokens that the colours tell apart; the few beyond it have the strongest."""


class Measured(NamedTuple):
    """A number for each token, f32[rows, T - 1], and what of it is the strongest colour."""

    values: Array
    middle: float
    """What has no colour; below it a colour of its own."""
    limit: float
    """How far from the middle the strongest colour stands; of a ratio, of its logarithm."""


def measured(name: str, seen: Experience, ratios: Array | None) -> Measured | None:
    """Return a measure of all tokens, None where nothing is known of it.

    - advantage: what each token is weighed with
    - ratio: exp(log π now − log π as it drew), 1 before the first step on the rollout
    - kl: exp(r) − r − 1 with r = log π_ref − log π as it drew, which is never below 0
    - entropy: of what might have come
    - reward: of each token, where there are such, else of the row that it is in
    """
    found = ratios if name == "ratio" else _OF[name](seen)
    if found is None:
        return None
    mask = seen.mask
    values = np.where(mask, found, np.nan).astype(np.float32)
    middle = 1.0 if name == "ratio" else 0.0
    return Measured(values, middle, limit_of(values[mask], middle))


def limit_of(values: Array, middle: float = 0.0) -> float:
    """Return how far from the middle the strongest colour stands; of ratios, of logarithms."""
    with np.errstate(all="ignore"):
        sizes = np.abs(np.log(values) if middle else values)
    sizes = sizes[np.isfinite(sizes)]
    return float(np.quantile(sizes, ODD)) if sizes.size else 0.0


def by_token(rows: Array, like: Array) -> Array:
    """Return numbers of rows as numbers of their tokens; those that are so already stay."""
    return np.broadcast_to(rows[:, None] if rows.ndim == 1 else rows, like.shape)


def kl_of(seen: Experience) -> Array | None:
    """Return the divergence from the reference, token by token: f32[rows, T - 1]."""
    if seen.ref_log_probs is None:
        return None
    r = np.asarray(seen.ref_log_probs - seen.log_probs, np.float64)
    with np.errstate(over="ignore"):
        return np.expm1(r) - r


def _reward(seen: Experience) -> Array:
    return by_token(
        seen.scores.total if seen.token_rewards is None else seen.token_rewards, seen.log_probs
    )


_OF: dict[str, Callable[[Any], Array | None]] = {
    "advantage": lambda seen: by_token(seen.advantages, seen.log_probs),
    "kl": kl_of,
    "entropy": lambda seen: np.asarray(seen.entropy),
    "reward": _reward,
}


def means(values: Array, mask: Array) -> Array:
    """Return the mean of each row over the tokens that count: f64[rows], NaN without any."""
    count = mask.sum(axis=1)
    total = np.where(mask, values, 0.0).sum(axis=1, dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
