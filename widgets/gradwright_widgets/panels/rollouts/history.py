"""The past of a training by rewards: facts of all rollouts as curves, histograms of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...host.wire import Message, finite
from .measures import by_token, means

if TYPE_CHECKING:
    from gradwright.align import Experience

Array = np.ndarray[Any, Any]
BINS = 24
MOST = 200
"""Rollouts of a curve that are sent; of more, evenly spaced ones."""
REWARD, MEAN = "rewards/", "/mean"
FACTS = {
    "reward": "reward",
    "completions/mean_length": "length",
    "rollout/entropy": "entropy",
    "rollout/kl": "kl",
    "frac_reward_zero_std": "alike",
}
"""Facts of a rollout that are shown as curves, and what these are called."""


def curves(history: Mapping[str, Sequence[float]]) -> dict[str, Array]:
    """Return what is shown of the facts of all rollouts, f32[rollouts] each, by name.

    >>> list(curves({"reward": [0.5], "rewards/exact/mean": [1.0], "num_tokens": [9.0]}))
    ['reward', 'rewards/exact']
    """
    found = {FACTS[name]: history[name] for name in FACTS if name in history}
    for name, column in history.items():
        if name.startswith(REWARD) and name.endswith(MEAN):
            found[name.removesuffix(MEAN)] = column
    arrays = {name: np.array(column, np.float32) for name, column in found.items()}
    return {name: array for name, array in arrays.items() if np.isfinite(array).any()}


def figures(
    history: Mapping[str, Sequence[float]], seen: Experience, ratios: Array | None
) -> Message:
    """Return curves of all rollouts and histograms of one, as a message."""
    found = curves(history)
    n = min(map(len, found.values()), default=0)  # one may be ahead of the others
    kept = np.unique(np.linspace(0, n - 1, min(n, MOST)).round().astype(int))
    sent = [curve[kept] for curve in found.values()]
    content = {
        "kind": "rollouts.figures", "numbers": kept.tolist(), "curves": list(found),
        "histograms": histograms(seen, ratios),
    }  # fmt: skip
    return content, [np.ascontiguousarray(sent, "<f4").tobytes()]


def histograms(seen: Experience, ratios: Array | None) -> list[dict[str, Any]]:
    """Return how often which reward, advantage, ratio and length there is."""
    mask = seen.mask
    found = {
        "reward": np.asarray(seen.scores.total),
        "advantage": means(by_token(seen.advantages, seen.log_probs), mask),
        "ratio": None if ratios is None else ratios[mask],
        "length": seen.rollout.lengths,
    }
    return [
        {"name": name, **histogram(np.asarray(values, np.float64))}
        for name, values in found.items()
        if values is not None
    ]


def histogram(values: Array) -> dict[str, Any]:
    """Return least, largest and mean of numbers, and how many there are in even bins."""
    known = values[np.isfinite(values)]
    if not known.size:
        return {"low": None, "high": None, "mean": None, "counts": []}
    low, high = float(known.min()), float(known.max())
    counts, _ = np.histogram(known, BINS, (low, high) if high > low else (low - 0.5, high + 0.5))
    return {
        "low": finite(low), "high": finite(high), "mean": finite(float(known.mean())),
        "counts": counts.tolist(),
    }  # fmt: skip
