"""The tutorial on GRPO, so short that it learns little: ``make docs`` runs what it claims."""

from __future__ import annotations

import pytest

from tests.notebooks.tutorials import run

pytest.importorskip("plotly", reason="pip install -e '.[test]'")
pytest.importorskip("anywidget", reason="pip install -e '.[test]'")
SHORT = {
    "\nassert ": "\n_ = ",
    "held_out, learned = sums[:1000], sums[1000:]": "held_out, learned = sums[:64], sums[9000:]",
    "steps=400, batch_size=128": "steps=10, batch_size=64",
    "rollouts = 40": "rollouts = 2",
    "steps=40": "steps=4",
    "batch_size=256": "batch_size=64",
}


def test_rewards_are_learned_from_in_the_background() -> None:
    space = run("grpo", SHORT)
    assert space["trainer"].steps_done == 8 and space["control"].steps_done == 4
    assert space["trainer"].objective.drawn == 2 and space["panel"].rollout["rows"] == 128
    assert [r["name"] for r in space["panel"].rollout_rewards] == ["right", "formed"]
    assert space["trainer"].history.steps["clip_ratio/low_mean"][0] == 0
    assert space["change"].before is space["before"]
