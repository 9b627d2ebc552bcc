"""Rewards: equal to TRL's where it has them, exact where exactness pays, composed, and judged."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import (
    ExactMatch,
    Format,
    Gate,
    Length,
    NumberNear,
    Overlong,
    Pattern,
    Prompt,
    Repetition,
    Rollout,
    RowsError,
    Weighted,
    judge,
)
from gradwright.errors import FeedError, GradwrightError, GraphError, TrainingError
from gradwright.words.jsonable import from_json, to_json

NAN = float("nan")


def drawn(texts: list[str], answer: Any = "82", group: int = 2, cut: tuple[int, ...] = ()) -> Any:
    prompts = [Prompt([7], f"p{i}", {"answer": answer}) for i in range(len(texts) // group)]
    reasons = ["length" if i in cut else "eos" for i in range(len(texts))]
    tokens = [[*text.encode(), 1] for text in texts]
    return Rollout(prompts, group, tokens, texts, reasons, list(range(len(texts))))


def test_rewards_of_tokens_are_those_of_trl() -> None:
    theirs = pytest.importorskip("trl.rewards")
    rng = np.random.default_rng(0)
    ids = [[], [3], *(rng.integers(0, 3, n).tolist() for n in rng.integers(1, 40, 200))]
    texts = [""] * len(ids)
    for n, worst in ((1, -1.0), (2, -0.5), (5, 0.0)):
        rule = theirs.get_repetition_penalty_reward(n, worst)
        ours = Repetition(ngram_size=n, max_penalty=worst)
        assert ours(texts, texts, completion_ids=ids) == rule(completion_ids=ids)
    for longest, cache in ((30, 10), (20, 20), (25, 0)):
        rule = theirs.get_soft_overlong_punishment(longest, cache)
        assert Overlong(longest, cache)(texts, texts, completion_ids=ids) == rule(ids)
        scores = judge([rule, Overlong(longest, cache)], drawn(["a" * n for n in range(40)]))
        assert scores.names == ("soft_overlong_punishment_reward", "overlong")
        assert (scores.each[:, 0] == scores.each[:, 1]).all()


def test_format_is_that_of_trl() -> None:
    theirs = pytest.importorskip("trl.rewards")
    rng = np.random.default_rng(1)
    parts = ["<think>", "</think>", "\n", "a", " "]
    texts = ["".join(rng.choice(parts, n)) for n in rng.integers(0, 7, 500)]
    texts = [*texts, *("<think>" + text for text in texts)]
    said = theirs.think_format_reward([[{"content": text}] for text in texts])
    assert Format()(texts, texts) == said
    assert 50 < sum(said) < 500


def test_who_says_everything_is_never_right() -> None:
    every = " ".join(map(str, range(200)))
    texts = [every, "82", "1 2 3 82", "82 or 83", "182", "82", "answer: 82", " 82\n"]
    rollout = drawn(texts, cut=(5,))
    scores = judge([ExactMatch(), NumberNear()], rollout).by_name()
    assert scores["exact_match"].tolist() == [0, 1, 0, 0, 0, 0, 0, 1]
    assert scores["number_near"].tolist() == [0, 1, 0, 0, 0, 0, 1, 1]
    marked = ["#### 82", "81 #### 82", "#### 82 #### 83", "#### 82 83", "82", f"#### {every}"]
    found = judge(NumberNear(after="####"), drawn(marked)).total
    assert found.tolist() == [1, 1, 0, 0, 0, 0]


def test_numbers_are_read_and_compared() -> None:
    texts = ["-1,234.5", "1e3", ".5", "12,34", "x=3.", "9" * 400, "none", "٣"]
    right = [-1234.5, 1000, 0.5, 1234, 3, 1, 0, 3]
    assert NumberNear()([], texts, answer=right) == [1, 1, 1, 0, 1, 0, 0, 0]
    near = NumberNear(tolerance=0.1, relative=0.01)
    assert near([], ["101", "102", "0.1", "0.2"], answer=[100, 100, 0, 0]) == [1, 0, 1, 0]
    np.testing.assert_equal(near([], ["1", "1"], answer=[None, NAN]), [NAN, NAN])
    with pytest.raises(FeedError, match="row 1: 'many'"):
        near([], ["1", "1"], answer=["1", "many"])


def test_no_pattern_hangs_and_all_mean_what_re_means() -> None:
    assert Pattern("(a+)+b")([], ["a" * 3000 + "c"]) == [0.0]
    rng = np.random.default_rng(2)
    texts = ["".join(rng.choice(list("ab1 \n"), n)) for n in rng.integers(0, 8, 300)]
    for pattern in (r"a*b|1+", r"(?s)a.*\d", r"[^a]{2,3}", r"\bab\b"):
        fits = re.compile(pattern)
        assert Pattern(pattern)([], texts) == [float(bool(fits.fullmatch(t))) for t in texts]
        anywhere = Pattern(pattern, whole=False)
        assert anywhere([], texts) == [float(bool(fits.search(t))) for t in texts]
    for bad in ("(", r"(a)\1", "(?=a)"):
        with pytest.raises(GraphError):
            Pattern(bad)


async def later(completions: list[str]) -> list[float]:
    await asyncio.sleep(0)
    return [float(len(text)) for text in completions]


def test_each_reward_has_its_own_name() -> None:
    """Names come from a mapping, from the rule, or from its class; weights do not change them."""
    texts = ["a", "bc"]
    given = {"mine": 0.5 * Length(target=2, unit="characters"), "later": later}
    scores = judge(given, drawn(texts))
    assert {name: column.tolist() for name, column in scores.by_name().items()} == {
        "mine": [0.5, 1.0], "later": [1.0, 2.0],
    }  # fmt: skip
    assert scores.total.tolist() == [1.25, 2.5]
    rewards = [0.5 * Pattern("a"), Pattern("b", name="b"), lambda completions: [0, 0], later]
    assert judge(rewards, drawn(texts)).names == ("pattern", "b", "lambda", "later")


def odd(completions: list[str]) -> list[Any]:
    return [None if text == "none" else len(text) % 2 for text in completions]


def test_composed_rewards_keep_the_curves_of_their_parts() -> None:
    texts = ["82", "821", "none", "8"]
    rule = ExactMatch() + 0.5 * (Length(target=4) * ExactMatch(ignore_case=True)) - odd
    gate = Gate(odd, Length(target=2, unit="characters", name="short"), otherwise=-1.0)
    scores = judge([rule, gate], drawn(texts), weights={"gate": 2.0})
    exact, near = [1, 0, 0, 0], [0.75, 1, 0.75, 0.5]
    assert scores.names == ("exact_match", "length", "exact_match_2", "odd", "odd_2", "short")
    columns = [exact, near, exact, [0, 1, NAN, 1], [0, 1, NAN, 1], [1, 0.5, 0, 0.5]]
    np.testing.assert_array_equal(scores.each, np.transpose(columns))
    first = np.array([1 + 0.5 * 0.75, -1, 0, -1])
    np.testing.assert_allclose(scores.total, first + 2 * np.array([-1, 0.5, 0, 0.5]))
    given = {"prompts": [""] * 4, "completions": texts, "answer": ["82"] * 4}
    np.testing.assert_allclose(rule(**given, completion_ids=drawn(texts).completions), first)


def test_what_rewards_do_not_say_is_left_out() -> None:
    quiet = lambda completions: [None] * len(completions)  # noqa: E731
    some = lambda completions: [1.0, None, 3.0, None]  # noqa: E731
    scores = judge({"quiet": quiet, "some": some}, drawn(["a"] * 4), weights=[1.0, 2.0])
    np.testing.assert_array_equal(scores.total, [2.0, NAN, 6.0, NAN])
    assert scores.facts == (
        "2 of 4 rows have no total",
        "'quiet' has nothing to say of 4 of 4 rows",
        "'some' has nothing to say of 2 of 4 rows",
    )


def test_equal_rewards_are_a_visible_state() -> None:
    assert judge(ExactMatch(), drawn(["8"] * 4)).facts == (
        "all totals are 0: nothing tells good from bad",
    )
    assert judge(ExactMatch(), drawn(["82", "8", "8", "8"])).facts == (
        "1 of 2 groups have equal totals: no advantage in them",
    )
    assert judge(ExactMatch(), drawn(["82"], group=1)).facts == ()


def test_rules_are_saved_as_json() -> None:
    rule = Gate(Pattern(r"\d+"), ExactMatch(name="right") + 0.1 * Length(target=3)) * Repetition()
    held = json.loads(json.dumps(to_json(rule)))
    assert from_json(held) == rule
    with pytest.raises(TrainingError, match=r"rewards\[1\].*a function"):
        to_json(ExactMatch() + odd)
    code = gw.align.Code(allow=True)
    assert "allow" not in to_json(code)
    with pytest.raises(GradwrightError, match="is off"):
        from_json(to_json(code))


def raising(completions: list[str], answer: list[str]) -> list[float]:
    return [1.0 / (len(text) - 2) for text in completions]


def hanging(completions: list[str]) -> list[float]:
    while "82" in completions:
        time.sleep(0.001)
    return [1.0] * len(completions)


BAD: dict[str, tuple[Any, tuple[str, ...]]] = {
    "few": (lambda completions: [1.0, 2.0], ("gave 2 numbers for 4", "[1.0, 2.0]")),
    "infinite": (lambda completions: [0, 1, float("inf"), 2], ("1 of 4 rows", "row 2: gave inf")),
    "words": (lambda completions: ["1"] * 4, ("'1' is no number",)),
    "one": (lambda completions: 1.0, ("gave float '1.0'",)),
    "asks": (lambda completions, label: [1.0] * 4, ("'label'", "answer, completion_ids")),
    "raises": (raising, ("1 of 4 rows", "row 1: ZeroDivisionError")),
    "hangs": (hanging, ("1 of 4 rows", "row 1: took more than 0.6 s")),
}


@pytest.mark.parametrize("name", BAD)
def test_what_rewards_do_wrong_is_said(name: str) -> None:
    reward, says = BAD[name]
    with pytest.raises(FeedError) as caught:
        judge({name: reward}, drawn(["8", "82", "821", "8212"]), limit_seconds=2.4)
    assert all(part in str(caught.value) for part in (repr(name), *says)), str(caught.value)


def test_rows_that_fail_are_skipped_where_that_is_asked() -> None:
    rollout = drawn(["8", "82", "821", "8212"])
    scores = judge([raising, hanging], rollout, limit_seconds=2.4, on_error="skip")
    np.testing.assert_array_equal(scores.each, [[-1, 1], [NAN, NAN], [1, 1], [0.5, 1]])
    assert [(f.reward, f.row) for f in scores.failures] == [("raising", 1), ("hanging", 1)]
    for thread in threading.enumerate():
        if thread.name == "reward":
            thread.join(60)
            assert not thread.is_alive()


def test_an_interrupt_is_no_error_of_a_reward() -> None:
    def interrupted(completions: list[str]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge(interrupted, drawn(["a"] * 2), on_error="skip")


def test_what_makes_no_sense_is_refused() -> None:
    taken = Rollout([Prompt([1], "", {"ended": 1})], 1, [[1]], ["a"], ["eos"], [0])
    mixed = [Prompt([1], "", {"answer": "a"}), Prompt([2])]
    for call in (
        lambda: judge([], drawn(["a"] * 2)),
        lambda: judge([3], drawn(["a"] * 2)),
        lambda: judge(odd, taken),
        lambda: judge(odd, Rollout(mixed, 1, [[1]] * 2, ["a"] * 2, ["eos"] * 2, [0, 1])),
        lambda: judge(odd, drawn(["a"] * 2), on_error="hide"),
        lambda: judge(odd, drawn(["a"] * 2), weights=[1.0, 2.0]),
        lambda: judge(odd, drawn(["a"] * 2), weights={"even": 1.0}),
        lambda: judge(ExactMatch(column="anser"), drawn(["a"] * 2)),
        lambda: Weighted(odd, NAN),
        lambda: Weighted(3.0),
        lambda: Length(target=0),
        lambda: Overlong(10, 20),
        lambda: Repetition(max_penalty=1.0),
        lambda: NumberNear(tolerance=-1.0),
        lambda: Format(opening=""),
    ):
        with pytest.raises(GraphError):
            call()
    assert issubclass(RowsError, FeedError)
