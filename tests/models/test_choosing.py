"""Tokens of many rows are chosen together as one by one, to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gradwright.errors import GraphError
from gradwright.models import (
    FrequencyPenalty,
    Greedy,
    MinP,
    NoRepeatNgram,
    PresencePenalty,
    RepetitionPenalty,
    Strategy,
    Temperature,
    TopK,
    TopP,
    in_order,
)
from gradwright.models.choosing import Draws, _drawn, _Powers, chosen
from gradwright.ops.draws import philox

Array = np.ndarray[Any, Any]


class Warmer(Temperature):
    """Derived from a strategy that takes rows: warm only where the last token is even."""

    def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
        return logits if tokens[-1] % 2 else super().__call__(logits, tokens, n_prompt)


RULES = {
    "softmax": [],
    "greedy": [Greedy(), RepetitionPenalty(1.3)],
    "temperature": [Temperature(0.7)],
    "top_k": [TopK(5)],
    "top_p": [TopP(0.8)],
    "min_p": [MinP(0.1)],
    "filters": [Temperature(1.3), TopK(40), TopP(0.9), MinP(0.02)],
    "no_mass": [TopP(0.0)],
    "penalties": [RepetitionPenalty(1.2), FrequencyPenalty(0.3), NoRepeatNgram(2), TopK(9)],
    "presence": [PresencePenalty(0.4), Temperature(0.9)],
    "derived": [Warmer(3.0), TopP(0.95)],
}


def softmax(x: Array) -> Array:
    p = np.exp(x.astype(np.float64) - np.float64(x.max()))
    return p / p.sum()


def left(rule: Strategy, y: Array, tokens: list[int], n_prompt: int) -> Array:
    """Return what a strategy leaves of the logits of one row, by its definition."""
    match rule:
        case TopK(k=k):
            return np.where(y < np.sort(y)[-k:][0], -np.inf, y)
        case TopP(p=p):
            rising = np.sort(y[y > -np.inf])
            n = int((np.cumsum(softmax(rising)) <= 1 - p).sum())
            return np.where(y < rising[min(n, len(rising) - 1)], -np.inf, y)
        case MinP(p=p):
            return np.where(y < y.max() + np.log(p), -np.inf, y)
    return rule(y, tokens, n_prompt)


def alone(y: Array, rules: Sequence[Strategy], tokens: list[int], n: int, seed: int) -> int:
    """Return the token of one row: the first whose total exceeds its draw."""
    for rule in rules:
        y = left(rule, y, tokens, n)
    if rules and type(rules[-1]) is Greedy:
        return int(y.argmax())
    at = np.flatnonzero(y > -np.inf)
    total = np.cumsum(np.exp(y[at].astype(np.float64) - y.max()))
    word = int(philox.fold_in(np.array((seed % 2**64, len(tokens)), np.uint64), 0)[0])
    return int(at[np.searchsorted(total, (word >> 11) * 2.0**-53 * total[-1], "right")])


@pytest.mark.parametrize("vocabulary", [60, 3000])
@pytest.mark.parametrize("name", RULES)
def test_rows_are_chosen_for_as_each_alone(name: str, vocabulary: int) -> None:
    rng, rules = np.random.default_rng(4), in_order(RULES[name])
    tokens = [rng.integers(0, vocabulary, n).tolist() for n in rng.integers(1, 30, 37)]
    n_prompt = [len(row) // 2 for row in tokens]
    seeds = [7 - 3 * i if i % 2 else 2**62 + i for i in range(37)]
    logits = (3 * rng.standard_normal((37, vocabulary))).astype("f4").round(1)  # with ties
    logits[3:9, ::2] = -np.inf
    draws = Draws(seeds, 9)
    for _ in range(3):
        wanted = [
            alone(y, rules, *row)
            for y, row in zip(logits, zip(tokens, n_prompt, seeds, strict=True), strict=True)
        ]
        at = 0.7 if name == "temperature" else 1.0  # as it is drawn, too
        found, told = chosen(logits, rules, tokens, n_prompt, draws, range(37), at)
        assert found == wanted and told is not None
        x = logits.astype("f8") / at
        x = np.maximum(x - np.log(np.exp(x).sum(-1, keepdims=True)), np.finfo("f8").min)
        of_tokens, entropy = x[range(37), found], -np.vecdot(np.exp(x), x)
        np.testing.assert_allclose(told, [of_tokens, entropy], rtol=1e-5, atol=1e-5)
        some = [30, 4, 9]
        of_some = [[each[i] for i in some] for each in (tokens, n_prompt)]
        beside, _ = chosen(logits[some], rules, *of_some, draws, some)
        assert beside == [wanted[i] for i in some]
        tokens = [[*row, token] for row, token in zip(tokens, found, strict=True)]


def test_logits_that_choose_nothing_are_told_in_the_midst_of_rows() -> None:
    logits = np.zeros((3, 5), "f4")
    draws, held = Draws([1, 2, 3], 1), [[0]] * 3
    for wrong, match in ((np.nan, "is nan"), (np.inf, "is inf"), (-np.inf, "is -inf")):
        logits[1] = wrong
        with pytest.raises(GraphError, match=f"the largest logit of a row {match}"):
            chosen(logits, (), held, [1] * 3, draws, range(3))
    logits[1] = 0

    class Nothing(Strategy):
        def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
            return np.full_like(logits, -np.inf)

    with pytest.raises(GraphError, match="forbid every token"):
        chosen(logits, [Nothing()], held, [1] * 3, draws, range(3))


def test_rows_beside_do_not_decide_near_the_border_of_two_tokens() -> None:
    """A row of few tokens is looked at alone, or with all others where the next has all."""
    rng = np.random.default_rng(0)
    token, y = np.sort(rng.permutation(3000)[:300]), np.full(3000, -np.inf, np.float32)
    y[token] = rng.standard_normal(300)
    p = np.exp(y[token] - y.max()).astype(np.float64)
    uniform, rows = np.cumsum(p)[:-1] / p.sum() + 1e-10, np.tile(y, (299, 1))
    other = rng.standard_normal((1, 3000)).astype(np.float32)

    def drawn(y: Array, uniform: Array) -> list[int]:
        return _drawn(_Powers(y, y.max(-1)), uniform).tolist()

    beside = drawn(np.concatenate([rows, other]), np.append(uniform, 0.5))
    assert drawn(rows, uniform) == beside[:-1] == token[1:].tolist()
