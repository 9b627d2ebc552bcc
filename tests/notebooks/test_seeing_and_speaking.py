"""The notebooks on what sees and what speaks, shorter: tests/learning holds what they learn."""

from __future__ import annotations

import pytest

from tests.notebooks.tutorials import run

pytest.importorskip("plotly", reason="pip install -e '.[test]'")
pytest.importorskip("IPython", reason="pip install -e '.[test]'")


def test_digits_are_named_before_and_after_rewards() -> None:
    pytest.importorskip("sklearn", reason="pip install -e '.[test]'")
    short = {
        "steps = 150": "steps = 40",
        "group = 24, 32, 8": "group = 2, 8, 8",
        "warmup=5": "warmup=2",
        "held_out = order[:-500], order[-500:]": "held_out = order[:-100], order[-100:]",
        "assert comparison.mcnemar().z > 4": "",
        "by_luck.rate() < 0.16 and blank.rate() < 0.16": "by_luck.rate() < 0.3",
    }
    space = run("see_and_say", short)
    assert len(space["facts"]["reward"]) == 2 and space["comparison"].ways == ["greedy", "sampled"]


def test_a_word_is_said_that_was_never_heard() -> None:
    short = {
        '"forty", "fifty", "sixty", "seventy", "eighty", "ninety"': "",
        '"sixty three"': '"thirty three"',
        "steps = 300": "steps = 30",
        "assert unheard < other / 3 < nothing": "assert unheard < nothing",
        "assert nearest == held_out[:8]": "",
        "held_out[:8]": "held_out[:1]",
    }
    space = run("speak", short)
    assert len(space["sound"]) > 3000 and space["milliseconds"].min() > 0
