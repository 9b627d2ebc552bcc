"""Sampling strategies: each against transformers' processor, their order, draws, JSON, errors."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gradwright.errors import GraphError, TrainingError
from gradwright.models import (
    FrequencyPenalty,
    Greedy,
    MinP,
    NoRepeatNgram,
    PresencePenalty,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    choose,
    in_order,
    probabilities,
)
from gradwright.words.jsonable import from_json, to_json

VOCABULARY = 40


@pytest.fixture(scope="module")
def processors():
    pytest.importorskip("torch", reason="pip install -e '.[oracle]'")
    return pytest.importorskip(
        "transformers.generation.logits_process", reason="pip install -e '.[oracle]'"
    )


def rows(n: int = 30):
    """Yield logits f32[V] and tokens, some rows flat and some peaked."""
    rng = np.random.default_rng(0)
    for i in range(n):
        scale = (0.3, 1.0, 4.0)[i % 3]
        logits = (scale * rng.standard_normal(VOCABULARY)).astype("float32")
        yield logits, rng.integers(0, VOCABULARY, 1 + 7 * i % 60).tolist()


def theirs(processor, logits, tokens):
    import torch

    ids = torch.tensor([tokens], dtype=torch.long)
    return processor(ids, torch.from_numpy(logits.copy())[None])[0].numpy()


@pytest.mark.parametrize(
    ("strategy", "name", "args"),
    [
        (Temperature(0.7), "TemperatureLogitsWarper", (0.7,)),
        (TopK(5), "TopKLogitsWarper", (5,)),
        (TopK(500), "TopKLogitsWarper", (500,)),
        (TopP(0.8), "TopPLogitsWarper", (0.8,)),
        (TopP(0.05), "TopPLogitsWarper", (0.05,)),
        (MinP(0.1), "MinPLogitsWarper", (0.1,)),
        (RepetitionPenalty(1.3), "RepetitionPenaltyLogitsProcessor", (1.3,)),
        (RepetitionPenalty(0.8), "RepetitionPenaltyLogitsProcessor", (0.8,)),
        (NoRepeatNgram(2), "NoRepeatNGramLogitsProcessor", (2,)),
        (NoRepeatNgram(1), "NoRepeatNGramLogitsProcessor", (1,)),
    ],
    ids=repr,
)
def test_a_strategy_is_that_of_transformers(processors, strategy, name, args) -> None:
    processor = getattr(processors, name)(*args)
    changed = 0
    for logits, tokens in rows():
        before = logits.copy()
        found = strategy(logits, tokens, 1)
        np.testing.assert_array_equal(logits, before)  # what comes in is left as it is
        assert found.dtype == np.float32
        wanted = theirs(processor, logits, tokens)
        np.testing.assert_array_equal(np.isneginf(found), np.isneginf(wanted))
        np.testing.assert_allclose(found, wanted, 1e-6)
        changed += not np.array_equal(found, logits)
    assert changed or strategy == TopK(500)


def test_together_they_are_those_of_transformers_in_any_order(processors) -> None:
    mine = [MinP(0.03), TopP(0.9), TopK(12), Temperature(1.4), RepetitionPenalty(1.2)]
    chain = [
        processors.RepetitionPenaltyLogitsProcessor(1.2),
        processors.TemperatureLogitsWarper(1.4),
        processors.TopKLogitsWarper(12),
        processors.TopPLogitsWarper(0.9),
        processors.MinPLogitsWarper(0.03),
    ]
    for logits, tokens in rows():
        wanted = logits
        for processor in chain:
            wanted = theirs(processor, wanted, tokens)
        p = np.exp(wanted.astype(np.float64) - wanted.max())
        found = probabilities(logits, mine, tokens)
        np.testing.assert_allclose(found, p / p.sum(), 1e-6, 1e-12)
        np.testing.assert_array_equal(found, probabilities(logits, mine[::-1], tokens))


def test_penalties_of_what_was_generated_leave_the_prompt_alone() -> None:
    logits, tokens = np.zeros(5, "float32"), [4, 4, 4, 1, 2, 1]
    assert FrequencyPenalty(0.5)(logits, tokens, 3).tolist() == [0, -1.0, -0.5, 0, 0]
    assert PresencePenalty(0.5)(logits, tokens, 3).tolist() == [0, -0.5, -0.5, 0, 0]
    assert FrequencyPenalty(0.5)(logits, tokens[:3], 3).tolist() == [0] * 5


def test_draws_follow_the_probabilities() -> None:
    logits = np.log(np.array([0.5, 0.25, 0.125, 0.125, 1e-30]))
    n = 4000
    drawn = np.bincount([choose(logits, seed=s) for s in range(n)], minlength=5) / n
    np.testing.assert_allclose(drawn, [0.5, 0.25, 0.125, 0.125, 0], atol=4 * (0.25 / n) ** 0.5)
    by_step = np.bincount([choose(logits, (), [0] * k, seed=7) for k in range(500)], minlength=5)
    np.testing.assert_allclose(by_step / 500, [0.5, 0.25, 0.125, 0.125, 0], atol=0.09)


def test_a_draw_is_a_function_of_seed_and_step_alone() -> None:
    logits = np.zeros(1000, "float32")
    first = choose(logits, (), [1, 2, 3], seed=5)
    assert choose(logits, (), [7, 7, 7], seed=5) == first
    assert choose(logits, (), [1, 2], seed=5) != first
    assert choose(logits, (), [1, 2, 3], seed=6) != first
    assert choose(logits, (), [1, 2, 3], seed=-1) == choose(logits, (), [0] * 3, seed=2**64 - 1)


def test_greedy_after_penalties_takes_the_largest_that_is_left() -> None:
    logits = np.array([3.0, 2.9, 1.0], "float32")
    assert choose(logits, Greedy(), [0]) == 0
    assert choose(logits, [Greedy(), RepetitionPenalty(2.0)], [0]) == 1
    assert probabilities(logits, Greedy()).tolist() == [1, 0, 0]
    assert choose(logits, [Temperature(1e-4)], seed=3) == 0


def test_forbidden_tokens_are_never_drawn() -> None:
    logits = np.full(9, -np.inf, "float32")
    logits[[2, 5]] = 1.0, -80.0
    assert {choose(logits, seed=s) for s in range(200)} == {2}
    assert choose(logits, [TopK(1), TopP(0.0), MinP(1.0)]) == 2


def test_settings_come_back_from_json() -> None:
    chosen = (RepetitionPenalty(1.2), Temperature(0.8), TopK(40), TopP(0.95), MinP(0.02), Greedy())
    assert from_json(json.loads(json.dumps(to_json(chosen)))) == chosen
    with pytest.raises((TrainingError, GraphError)):
        from_json({"$class": "TopP", "p": 2.0})


def test_errors_name_the_strategy() -> None:
    for make, what in (
        (lambda: Temperature(0.0), r"Temperature\(temperature=0.0\) makes no sense"),
        (lambda: TopK(0), r"TopK\(k=0\)"),
        (lambda: TopP(1.5), r"TopP\(p=1.5\)"),
        (lambda: MinP(-0.1), r"MinP\(p=-0.1\)"),
        (lambda: NoRepeatNgram(0), r"NoRepeatNgram\(n=0\)"),
        (lambda: RepetitionPenalty(0.0), r"RepetitionPenalty\(penalty=0.0\)"),
        (lambda: in_order([TopK(2), TopK(3)]), "has a strategy twice"),
        (lambda: in_order(["greedy"]), "'greedy' is no sampling strategy"),
        (lambda: in_order("top_p"), "'top_p' is no sampling strategy"),
        (lambda: in_order(0.9), r"0.9 is no sampling strategy(.|\n)*gw.models.TopP\(0.9\)"),
        (lambda: choose([0.0, np.nan]), "the largest logit of a row is nan"),
        (lambda: choose([-np.inf] * 3), "the largest logit of a row is -inf"),
        (lambda: choose([1.0, 2.0], NoRepeatNgram(1), [0, 1]), "forbid every token"),
    ):
        with pytest.raises(GraphError, match=what):
            make()
