"""The past of a training by reinforcement: what each rollout was worth, as curves and histograms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...host.wire import Message, finite
from .measures import by_token, kl_of, means
from .order import alike

if TYPE_CHECKING:
    from gradwright.align import Experience

Array = np.ndarray[Any, Any]
BINS = 24
MOST = 200
"""Rollouts of a curve that are sent; of more, evenly spaced ones."""


class RolloutHistory:
    """Numbers of each rollout by the name of their curve."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._rows: list[dict[str, float]] = []

    def add(self, seen: Experience) -> None:
        """Take in a rollout that is newer than all others."""
        scores, mask = seen.scores, seen.mask
        kl = kl_of(seen)
        with np.errstate(all="ignore"):
            row = {"reward": _mean(scores.total)}
            row |= {f"rewards/{name}": _mean(each) for name, each in scores.by_name().items()}
            row["length"] = _mean(seen.rollout.lengths)
            row["entropy"] = _mean(seen.entropy[mask])
            if kl is not None:
                row["kl"] = _mean(kl[mask])
            row["alike"] = float(alike(seen).mean()) if seen.rollout.prompts else np.nan
        self.numbers.append(seen.number)
        self._rows.append(row)

    def curves(self) -> dict[str, Array]:
        """Return each curve, f32[rollouts], NaN where a rollout has no such number."""
        names = dict.fromkeys(name for row in self._rows for name in row)
        return {
            name: np.array([row.get(name, np.nan) for row in self._rows], np.float32)
            for name in names
        }

    def message(self, seen: Experience, ratios: Array | None) -> Message:
        """Return curves of all rollouts and histograms of one."""
        curves = self.curves()
        n = len(self.numbers)
        kept = np.unique(np.linspace(0, n - 1, min(n, MOST)).round().astype(int))
        sent = [curve[kept] for curve in curves.values()]
        content = {
            "kind": "rollouts.figures",
            "numbers": [self.numbers[at] for at in kept],
            "curves": list(curves),
            "histograms": histograms(seen, ratios),
        }
        return content, [np.ascontiguousarray(sent, "<f4").tobytes()]


def _mean(values: Array) -> float:
    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    return float(known.mean()) if known.size else float("nan")


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
