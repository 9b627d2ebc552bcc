"""Judging: what rewards say of a rollout, each by its curve, and their sum."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import FeedError
from ..rollouts.rollout import Rollout
from .asking import ask
from .reward import OWN, Failure, Reward, RowsError, Scores
from .rule import Composed, Weighted, name_of, said_sum

Array = np.ndarray[Any, Any]
Rewards = Reward | Sequence[Reward] | Mapping[str, Reward]


def judge(
    rewards: Rewards,
    rollout: Rollout,
    *,
    weights: Sequence[float] | Mapping[str, float] | None = None,
    limit_seconds: float | None = 60.0,
    on_error: str = "raise",
) -> Scores:
    """Return what each reward says of each row of a rollout, and the weighted sum of it.

    total = Σ weight·r over what was said, NaN where nothing was

    ``rewards`` are one, several, or several by name. Of what is composed each part has its own
    column, unweighted, and ``terms`` has what they make; two of one name are told apart by a
    number. A reward that raises, or takes longer than ``limit_seconds`` for all rows, is asked row
    by row (each row has its share of the time), and the rows at fault are named: in an error, or,
    with ``on_error="skip"``, among the ``failures`` of the scores, where that reward then says
    nothing of them. ``Code`` and rewards that are graphs keep to limits of their own. What hangs in
    a call outside Python cannot be stopped; it is left behind in its thread.

    Raises FeedError where a reward gives something else than a finite number or None for each row,
    and for columns of the data that have the name of one of a rollout's own.

    >>> import gradwright as gw
    >>> from gradwright.align import ExactMatch, Prompt, Rollout, judge
    >>> prompts = [Prompt([1], "6*7=", {"answer": "42"})]
    >>> drawn = Rollout(prompts, 2, [[4, 2, 9], [4, 1, 9]], ["42", "41"], ["eos", "eos"], [0, 1])
    >>> def short(completions): return [-len(text) for text in completions]
    >>> scores = judge([ExactMatch() + 0.1 * gw.align.Length(target=3), short], drawn)
    >>> scores.names, scores.total.round(2).tolist()
    (('exact_match', 'length', 'short'), [-0.9, -1.9])
    """
    if on_error not in ("raise", "skip"):
        raise FeedError(f"on_error={on_error!r} is not known", need="'raise' or 'skip'")
    tops = named(rewards)
    leaves = list(itertools.chain.from_iterable(_leaves(reward, name) for name, reward in tops))
    names = unique([name for name, _ in leaves])
    columns, rows = columns_of(rollout), len(rollout)
    each, failures = np.full((rows, len(leaves)), np.nan), []
    for i, (name, (_, reward)) in enumerate(zip(names, leaves, strict=True)):
        try:
            each[:, i] = ask(reward, name, columns, limit_seconds)
        except RowsError as error:
            if on_error == "raise":
                raise
            each[:, i] = error.values
            failures += [Failure(name, row, why) for row, why in error.failed.items()]
    said = iter(each.T)
    terms = np.stack([_combined(reward, said) for _, reward in tops], -1)
    total = said_sum(terms * _weights(weights, [name for name, _ in tops]))
    facts = tuple(_facts(names, each, total, rollout))
    return Scores(names, each, total, tuple(failures), facts, terms)


def columns_of(rollout: Rollout) -> dict[str, Sequence[Any]]:
    """Return what rewards are given of a rollout: texts, tokens, and the columns of its data.

    >>> from gradwright.align import Prompt, Rollout
    >>> from gradwright.align.rewards.judge import columns_of
    >>> columns_of(Rollout([Prompt([1], "6*7=")], 1, [[4, 2]], ["42"], ["length"], [0]))
    {'prompts': ['6*7='], 'completions': ['42'], 'prompt_ids': [[1]], 'completion_ids': [[4, 2]],
     'ended': [False]}
    """
    held = rollout.columns()
    for name in OWN:
        if name in held:
            raise FeedError(
                f"the data have a column {name!r}, which is what rewards know a rollout's own by",
                need="another name",
            )
    prompts = [rollout.prompt(row) for row in range(len(rollout))]
    own = (
        [prompt.text for prompt in prompts],
        list(rollout.texts),
        [list(prompt.tokens) for prompt in prompts],
        [list(tokens) for tokens in rollout.completions],
        rollout.ended.tolist(),
    )
    return dict(zip(OWN, own, strict=True)) | held


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of which no two are the same: the second ``length`` is ``length_2``.

    >>> from gradwright.align.rewards.judge import unique
    >>> unique(["length", "f", "length"])
    ('length', 'f', 'length_2')
    """
    found: list[str] = []
    for name in names:
        further = (f"{name}_{n}" for n in itertools.count(2))
        found.append(next(n for n in itertools.chain([name], further) if n not in found))
    return tuple(found)


def curves(rewards: Rewards) -> tuple[str, ...]:
    """Return the names of the curves that `judge` makes of rewards.

    >>> import gradwright as gw
    >>> from gradwright.align.rewards.judge import curves
    >>> curves([gw.align.ExactMatch() + gw.align.Length(target=3), gw.align.Length(target=2)])
    ('exact_match', 'length', 'length_2')
    """
    return unique([name for top, reward in named(rewards) for name, _ in _leaves(reward, top)])


def named(rewards: Rewards) -> list[tuple[str, Reward]]:
    """Return rewards with the names of what they weigh; raises FeedError for what is none.

    >>> import gradwright as gw
    >>> from gradwright.align.rewards.judge import named
    >>> [name for name, _ in named(gw.align.ExactMatch())]
    ['exact_match']
    """
    if isinstance(rewards, Mapping):
        tops = list(rewards.items())
    else:
        held = [rewards] if callable(rewards) else list(rewards)
        tops = [(name_of(reward), reward) for reward in held]
    for _, reward in tops:
        if not callable(reward):
            raise FeedError(f"{reward!r} is no reward", need="a rule or a function")
    if not tops:
        raise FeedError("there is no reward", need="one or more")
    return tops


def _leaves(reward: Reward, name: str) -> Iterator[tuple[str, Reward]]:
    """Return what a reward is made of at last, with the names of its curves."""
    if isinstance(reward, Weighted):
        yield from _leaves(reward.reward, name)
    elif isinstance(reward, Composed):
        for part in reward.parts:
            yield from _leaves(part, name_of(part))
    else:
        yield name, reward


def _combined(reward: Reward, said: Iterator[Array]) -> Array:
    """Return the numbers of a reward, of those of its leaves, which come in their order."""
    if not isinstance(reward, Composed):
        return next(said)
    return reward.combined([_combined(part, said) for part in reward.parts])


def _weights(given: Any, names: Sequence[str]) -> Array:
    if given is None:
        return np.ones(len(names))
    if isinstance(given, Mapping):
        unknown = sorted(given.keys() - set(names))
        held = [given.get(name, 1.0) for name in names]
    else:
        held, unknown = list(given), []
    found = np.array(held, np.float64)
    if unknown or len(found) != len(names) or not np.isfinite(found).all():
        raise FeedError(
            f"weights {given!r} do not fit {len(names)} rewards",
            need="a finite number for each of " + ", ".join(names),
        )
    return found


def _facts(names: Sequence[str], each: Array, total: Array, rollout: Rollout) -> Iterator[str]:
    rows, group = total.shape[0], rollout.group
    silent = np.isnan(total)
    if silent.any():
        yield f"{int(silent.sum())} of {rows} rows have no total"
    said = total[~silent]
    if len(said) > 1 and np.ptp(said) == 0:
        yield f"all totals are {said[0]:g}: nothing tells good from bad"
    elif group > 1 and rows:
        spread = np.ptp(np.where(silent, np.nan, total).reshape(-1, group), axis=1)
        if same := int((spread == 0).sum()):
            yield f"{same} of {rows // group} groups have equal totals: no advantage in them"
    for name, column in zip(names, each.T, strict=True):
        quiet = int(np.isnan(column).sum())
        if quiet:
            yield f"{name!r} has nothing to say of {quiet} of {rows} rows"
