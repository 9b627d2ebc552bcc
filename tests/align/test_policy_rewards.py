"""Rewards on their way into a policy's steps: composed, weighted, kept, limited."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import GRPO, Gate, Prompt, Rollout, RowsError, Weighted
from gradwright.align.objectives.kept import arrays_of, experience_of
from gradwright.errors import GraphError
from gradwright.models import Decoder, DecoderConfig

EOS, GROUP = 0, 3
PROMPTS = [Prompt([1, 2], "12"), Prompt([3], "3")]
ROWS = [[4, 5, EOS], [6, 6], [EOS], [5, EOS], [4, 4, 4, EOS], [6, 5, 4, 4]]
FIRST = [1.0, 0.0, 2.0, 0.5, -0.5, 3.0]


class Fixed:
    """A sampler that always draws the same."""

    def sample(self, prompts: Any, group: int, seed: int) -> Rollout:
        ends = ["eos" if row[-1] == EOS else "length" for row in ROWS]
        return Rollout(prompts, group, ROWS, [""] * len(ROWS), ends, list(range(len(ROWS))))


def first(completion_ids: Any) -> list[float]:
    return [FIRST[ROWS.index(list(row))] for row in completion_ids]


def long(completion_ids: Any) -> list[float]:
    return [float(len(row)) for row in completion_ids]


def trainer_of(rewards: Any, method: dict[str, Any] | None = None, **settings: Any) -> gw.Trainer:
    model = Decoder(DecoderConfig(vocabulary=8, width=8, layers=1, heads=2), eos=EOS)
    how = GRPO(num_generations=GROUP, max_completion_length=4, **(method or {}))
    return gw.align.trainer(model, how, rewards=rewards, sampler=Fixed(), **settings)


def scaled(x: Any) -> Any:
    return (x - x.mean()) / (x.std(ddof=1) + 1e-4)


def test_rewards_are_put_on_one_scale_as_they_are_composed() -> None:
    """GDPO (arXiv:2601.05242): z of each reward in its group, weighted, and z of all their sums."""
    a, n = np.array(FIRST), np.array([float(len(row)) for row in ROWS])
    gate = Gate(long, Weighted(first, -2.0), threshold=2.0, otherwise=-1.0)
    composed = [Weighted(first, 0.5) + long, gate]
    by_hand = [0.5 * a + n, np.where(n >= 2, -2 * a, -1.0)]
    trainer = trainer_of(
        composed,
        {"multi_objective_aggregation": "normalize_then_sum", "reward_weights": (1.0, 3.0)},
    )
    trainer.fit(PROMPTS, steps=1, batch_size=6, progress=False)
    made = trainer.objective.experience
    groups = [np.split(column, 2) for column in by_hand]
    summed = sum(w * np.stack([scaled(g) for g in c]) for w, c in zip((1, 3), groups, strict=True))
    np.testing.assert_allclose(made.advantages, scaled(summed).reshape(-1), rtol=1e-5, atol=1e-6)
    assert made.scores.each.shape == (6, 4), "each part has its curve"
    np.testing.assert_allclose(made.scores.terms, np.transpose(by_hand))
    kept = experience_of(arrays_of(made))
    np.testing.assert_array_equal(kept.scores.terms, made.scores.terms)


def weak(completion_ids: Any) -> list[float]:
    if [6, 6] in [list(row) for row in completion_ids]:
        raise ZeroDivisionError("no sixes")
    return long(completion_ids)


def test_rows_that_cannot_be_judged_end_a_training_or_are_skipped() -> None:
    how: dict[str, Any] = {"steps": 1, "batch_size": 6, "progress": False}
    ends, goes_on = trainer_of(weak), trainer_of(weak, on_reward_error="skip")
    with pytest.raises(RowsError, match="row 1: ZeroDivisionError: no sixes"):
        ends.fit(PROMPTS, **how)
    assert ends.steps_done == 0 and ends.objective.experience is None
    goes_on.fit(PROMPTS, **how)
    made = goes_on.objective.experience
    assert [(f.reward, f.row) for f in made.scores.failures] == [("weak", 1)]
    assert np.isnan(made.scores.total).tolist() == [False, True, *[False] * 4]
    assert made.advantages[1] == 0 and made.advantages[0] > 0
    ends.objective.drawing.on_reward_error = "skip"
    ends.fit(PROMPTS, **how)
    assert ends.objective.experience.scores.failures == made.scores.failures


def test_a_reward_that_hangs_has_so_much_time_and_no_more() -> None:
    waits = threading.Event()

    def hangs(completions: Any) -> list[float]:
        waits.wait(30)
        return [0.0] * len(completions)

    trainer = trainer_of(hangs, reward_seconds=0.3)
    with pytest.raises(RowsError, match=r"row 5: took more than 0\.05 s"):
        trainer.fit(PROMPTS, steps=1, batch_size=6, progress=False)
    waits.set()
    assert trainer.steps_done == 0
    with pytest.raises(GraphError, match="on_reward_error='pass'"):
        trainer_of(hangs, on_reward_error="pass")
    unlimited = trainer_of(long, reward_seconds=None)
    assert unlimited.objective.drawing.reward_seconds is None
