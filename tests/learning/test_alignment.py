"""The short form: sums in base 6, a teacher that forgets to carry, and what mends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwright.align import HeldOut, compare, evaluate
from gradwright.models import Decoder
from tests.learning import alignment, preferences
from tests.learning.addition import FORM, SMALL, Split, Sum, model, start

Array = np.ndarray[Any, Any]
SPLIT = Split(5, base=6)
DRAWN = {"steps": 48, "batch": 128, "rate": 3e-4}


@pytest.fixture(scope="module")
def first() -> Mapping[str, Array]:
    return start(SPLIT, seed=1, steps=300, rows=128, config=SMALL)


@pytest.fixture(scope="module")
def before(first: Mapping[str, Array]) -> HeldOut:
    return answers(model(first, config=SMALL))


def answers(made: Decoder) -> HeldOut:
    """Return what a model answers to prompts that nothing was trained on."""
    how = {"max_new_tokens": 5, "form": FORM, "slices": ["carries"]}
    return evaluate(made, SPLIT.prompts(), alignment.RIGHT, **how)


def test_the_task_is_what_it_says() -> None:
    assert (Sum(37, 45).prompt, Sum(37, 45).answer, Sum(37, 45).forgotten) == (
        "37+45=",
        "280",
        "270",
    )
    learned, judged = ({s.prompt for s in part} for part in SPLIT.parts)
    assert not learned & judged and len(learned | judged) == 36**2
    pairs = preferences.pairs(SPLIT.learned, 200, 0)
    assert not preferences.lengths_differ(pairs)
    assert all(p["chosen"] != p["rejected"] for p in pairs)


def test_a_reward_teaches_what_the_teacher_forgot(
    first: Mapping[str, Array], before: HeldOut
) -> None:
    """GRPO moves what is likeliest, where the teacher was wrong; little else is lost."""
    made, _ = alignment.train(replace(alignment.METHODS["grpo"], **DRAWN), first, SPLIT, 0, SMALL)
    change = compare(before, answers(made))
    carries = before.groups()["carries=True"]
    assert before.rate(among=carries) < 0.2 and before.rate(among=~carries) > 0.9
    assert change.after.rate() > 0.8 and change.mcnemar().z > 4
    assert change.after.rate("sampled") > before.rate("sampled") + 0.05
    assert change.after.rate(among=~carries) > 0.9 and change.after.format_rate() > 0.98


def test_a_reward_that_coins_decide_does_not(first: Mapping[str, Array], before: HeldOut) -> None:
    """What it gains is within what chance does to 216 prompts, a third of what GRPO gains."""
    method = replace(alignment.METHODS["random reward"], **DRAWN | {"steps": 24})
    made, _ = alignment.train(method, first, SPLIT, 0, SMALL)
    change = compare(before, answers(made))
    assert change.after.rate() < before.rate() + 0.1 and change.mcnemar().z < 4


def test_preferences_teach_it(first: Mapping[str, Array], before: HeldOut) -> None:
    """With a little of the next-token loss, so that chosen answers do not become less likely."""
    method = replace(alignment.METHODS["dpo + nll"], steps=60, rate=2e-4)
    made, trainer = alignment.train(method, first, SPLIT, 0, SMALL)
    change, judges = compare(before, answers(made)), preferences.pairs(SPLIT.held_out, 300, 0)
    was, now = (preferences.log_probs(m, judges) for m in (model(first, config=SMALL), made))
    assert preferences.in_order(now) > preferences.in_order(was) + 0.1
    assert change.after.rate() > before.rate() + 0.1 and change.mcnemar().z > 4
    assert trainer.history.steps["rewards/accuracies"][-10:].mean() > 0.8
