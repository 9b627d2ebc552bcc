"""The tutorials on alignment, too short to learn much: ``make docs`` holds what they claim."""

from __future__ import annotations

import pytest

from tests.notebooks.tutorials import run

pytest.importorskip("plotly", reason="pip install -e '.[test]'")
pytest.importorskip("anywidget", reason="pip install -e '.[test]'")
SHORT = {
    "\nassert ": "\n_ = ",  # nothing is learnt that could be proven
    "range(40)": "range(2)",
    "sums[BASE**3 :]": "sums[-200:]",
    "BASE**3": "32",
}
"""What both have, and what it is here."""


def test_preferences() -> None:
    shorter = {
        "steps=300": "steps=30",
        "size=128": "size=16",
        "size=64": "size=8",
        "steps=60": "steps=3",
    }
    space = run("dpo", SHORT | shorter)
    assert set(space["after"]) == set(space["methods"])
    for name, look in space["looks"].items():
        assert len(look) == 32 and space["trainers"][name].steps_done == 3
    assert space["before"].rate(among=~space["carries"]) >= 0


def test_a_reward_model_and_ppo() -> None:
    shorter = {
        '"steps": 300, "batch_size": 128': '"steps": 20, "batch_size": 16',
        '"steps": 250, "batch_size": 64': '"steps": 6, "batch_size": 16',
        "steps=60, batch_size=128": "steps=4, batch_size=16",
        "range(15)": "range(1)",
    }
    space = run("reward_model_to_ppo", SHORT | shorter)
    report, folder = space["report"], space["folder"]
    assert report.is_done and space["pipeline"].report(folder).is_done
    held, loose = space["courses"].values()
    assert len(held["rewards/rule/mean"]) == len(loose["objective/kl"]) == 4
    assert space["fooled"].before == report.trained("examples").after
