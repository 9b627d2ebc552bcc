"""Alarms: what fails in training by rewards, each in a sentence with its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .experience import Experience

Array = np.ndarray[Any, Any]
LATELY = 5
"""Rollouts whose median stands for now, and for the beginning: single ones scatter."""
MOST_ALIKE, MOST_CUT = 0.5, 0.5
"""Shares of groups that teach nothing, and of rows that were cut."""
MOST_KL, KL_GROWTH = 0.5, 10.0
"""Divergence of a token that is large in itself, and growth that is."""
LEAST_KL = 0.05
"""Below it, growth is noise."""
LEAST_ENTROPY = 0.2
"""Share of the entropy of the beginning."""
MOST_CLIPPED = 0.3
"""Share of the tokens of a step that are outside of the clipped region."""
SEVERAL = 1.5
"""Steps on a rollout from which on some of them meet ratios other than 1."""
BY_LENGTH, LENGTH_GROWTH = 0.6, 1.3
"""Correlation of reward and length inside of groups, and growth of the length beside it."""


class Alarm(NamedTuple):
    """What goes wrong: a name that stays, and a sentence."""

    name: str
    text: str


def alarms(
    history: Mapping[str, Sequence[float]], clipped: Sequence[float], seen: Experience | None
) -> list[Alarm]:
    """Return what goes wrong by the facts of all rollouts, clip shares of steps, and a rollout.

    ``history`` is that of a ``PolicyObjective``, ``clipped`` the metric ``clip_ratio/region_mean``
    of its trainer's steps, ``seen`` the rollout that steps are taken on. Their names are ``alike``
    (groups whose rewards are the same), ``failed``, ``length`` (rewards that follow length),
    ``cut``, ``kl``, ``entropy``, ``clip`` and ``still`` (no ratio ever leaves the region).

    >>> from gradwright.align import alarms
    >>> alarms({"frac_reward_zero_std": [0.75] * 4}, [], None)[0].name
    'alike'
    >>> alarms({"frac_reward_zero_std": [0.25] * 4, "rollout/kl": [0.01, 0.02]}, [0.1], None)
    []
    """
    found = {name: np.asarray(column, np.float64) for name, column in history.items()}
    return [*_of_rewards(found, seen), *_of_policy(found, np.asarray(clipped, np.float64))]


def _of_rewards(found: Mapping[str, Array], seen: Experience | None) -> Iterator[Alarm]:
    alike = _lately(found, "frac_reward_zero_std")
    if alike > MOST_ALIKE:
        yield Alarm(
            "alike",
            f"In {alike:.0%} of the groups all rewards are the same, so they teach nothing: prompts"
            " are too easy or too hard, or rewards have too few grades.",
        )
    if seen is None:
        return
    failed = {failure.reward for failure in seen.scores.failures}
    if failed:
        rows = len({failure.row for failure in seen.scores.failures})
        told = f"{rows} row{'s' * (rows > 1)} could not be judged by {', '.join(sorted(failed))}."
        yield Alarm("failed", told)
    by_length = length_bias(seen)
    before, now = (
        _first(found, "completions/mean_length"),
        _lately(found, "completions/mean_length"),
    )
    if by_length > BY_LENGTH and now > LENGTH_GROWTH * before:
        yield Alarm(
            "length",
            f"Longer samples of a group are worth more (correlation {by_length:.2f}) and they have"
            f" grown from {before:.3g} to {now:.3g} tokens: the policy may be after length.",
        )


def _of_policy(found: Mapping[str, Array], clipped: Array) -> Iterator[Alarm]:
    cut = _lately(found, "completions/clipped_ratio")
    if cut > MOST_CUT:
        yield Alarm(
            "cut",
            f"{cut:.0%} of the samples are cut before they end: more room for them, or a reward"
            " for ending.",
        )
    before, kl = _first(found, "rollout/kl"), _lately(found, "rollout/kl")
    if kl > MOST_KL or kl > max(KL_GROWTH * before, LEAST_KL):
        yield Alarm(
            "kl",
            f"The policy has left the reference: KL is {kl:.3g} a token, and was {before:.3g}."
            " A larger beta or a smaller learning rate holds it.",
        )
    before, entropy = _first(found, "rollout/entropy"), _lately(found, "rollout/entropy")
    if entropy < LEAST_ENTROPY * before:
        yield Alarm(
            "entropy",
            f"Entropy has fallen from {before:.3g} to {entropy:.3g} a token: samples of a group"
            " are nearly the same, and nothing new is tried.",
        )
    share = float(np.median(clipped[-LATELY:])) if clipped.size else float("nan")
    if share > MOST_CLIPPED:
        yield Alarm(
            "clip",
            f"{share:.0%} of the tokens of a step are clipped: the policy moves too far on one"
            " rollout. A smaller learning rate, or fewer steps on each.",
        )
    rollouts = max(map(len, found.values()), default=0)
    each = clipped.size / max(rollouts, 1)
    if rollouts >= LATELY and each >= SEVERAL and not clipped[-round(LATELY * each) :].any():
        yield Alarm(
            "still",
            f"No token of the last {LATELY} rollouts was clipped in {each:.3g} steps on each: the"
            " policy hardly moves, and more steps on a rollout add little. A larger learning rate,"
            " or fewer steps on each.",
        )


def length_bias(seen: Experience) -> float:
    """Return the correlation of reward and length inside of groups; NaN where either stays."""
    total = np.asarray(seen.scores.total, np.float64).reshape(-1, seen.rollout.group)
    lengths = np.asarray(seen.rollout.lengths, np.float64).reshape(total.shape)
    known = np.isfinite(total).all(axis=1)
    x, y = (a[known] - a[known].mean(axis=1, keepdims=True) for a in (lengths, total))
    size = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / size if size > 0 else float("nan")


def _median(column: Array | None) -> float:
    known = np.empty(0) if column is None else column[np.isfinite(column)]
    return float(np.median(known)) if known.size else float("nan")


def _lately(found: Mapping[str, Array], name: str) -> float:
    return _median(found[name][-LATELY:] if name in found else None)


def _first(found: Mapping[str, Array], name: str) -> float:
    """Return the number at the beginning, of rollouts that are not among the last."""
    return _median(found[name][:LATELY] if name in found and len(found[name]) > LATELY else None)
