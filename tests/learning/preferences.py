"""Preferences between sums: the right one, and one that is wrong in one of two ways.

Half of the rejected answers forget the carry, where there is one, as the teacher does; the others
have a wrong digit. All answers are of one length, so that a counter of tokens learns nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.models import Decoder
from tests.learning.addition import CODEC, END, Sum, batch

Array = np.ndarray[Any, Any]
Pair = dict[str, str]


def pairs(sums: Sequence[Sum], n: int, seed: int, *, hard: bool = False) -> list[Pair]:
    """Return preferences between answers; ``hard`` has only sums with a carry, forgotten."""
    rng = np.random.default_rng((11, seed))
    some = [s for s in sums if s.carries] if hard else list(sums)
    drawn = [some[i] for i in rng.integers(0, len(some), n)]
    return [
        {"prompt": s.prompt, "chosen": s.answer, "rejected": _wrong(s, rng, hard)} for s in drawn
    ]


def _wrong(s: Sum, rng: np.random.Generator, hard: bool) -> str:
    if hard or (s.carries and rng.random() < 0.5):
        return s.forgotten
    at, step = rng.integers(0, 3), rng.integers(1, 10)
    digits = list(s.answer)
    digits[at] = str((int(digits[at]) + int(step)) % 10)
    return "".join(digits)


def labelled(found: Sequence[Pair]) -> list[dict[str, Any]]:
    """Return completions with labels: all that were chosen, then all that were not.

    KTO puts behind each prompt the completion of the row before, which shall be another prompt's.
    """
    return [
        {"prompt": p["prompt"], "completion": p[name], "label": name == "chosen"}
        for name in ("chosen", "rejected")
        for p in found
    ]


def completed(found: Sequence[Pair]) -> list[Pair]:
    """Return what was chosen, to be learned as it stands."""
    return [{"prompt": p["prompt"], "completion": p["chosen"]} for p in found]


def log_probs(model: Decoder, found: Sequence[Pair]) -> Array:
    """Return what a model says of answers and their ends: f64[2, pairs], chosen ones first."""
    return _both(model, gw.align.model_log_probs(model).log_probs, found).sum(-1)


def scores(model: Decoder, found: Sequence[Pair]) -> Array:
    """Return what a reward model gives answers: f64[2, pairs], chosen ones first."""
    return _both(model, gw.align.reward_head(model), found)


def _both(model: Decoder, tensor: gw.Tensor, found: Sequence[Pair]) -> Array:
    """Return what a tensor is for chosen answers, then for rejected ones."""
    session, prompts = gw.Session(model.graph), [p["prompt"] for p in found]
    rows = [
        session.run(tensor, batch(prompts, [p[name] for p in found]))
        for name in ("chosen", "rejected")
    ]
    return np.stack(rows).astype(np.float64)


def in_order(found: Array) -> float:
    """Return how often chosen answers are above rejected ones.

    >>> in_order(np.array([[1.0, 0.0], [0.0, 1.0]]))
    0.5
    """
    return float((found[0] > found[1]).mean())


def lengths_differ(found: Sequence[Pair]) -> bool:
    """Tell whether a counter of tokens could tell answers apart."""
    return any(
        len(CODEC.encode(p["chosen"] + END)) != len(CODEC.encode(p["rejected"] + END))
        for p in found
    )
