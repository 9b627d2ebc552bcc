"""The tutorial that finds six planted bugs: its cells assert what its text claims."""

from __future__ import annotations

import pytest

from tests.notebooks.tutorials import run

pytest.importorskip("plotly", reason="pip install -e '.[test]'")
pytest.importorskip("sklearn", reason="pip install -e '.[test]'")
pytest.importorskip("anywidget", reason="pip install -e '.[test]'")


def test_the_tutorial_runs(capsys: pytest.CaptureFixture[str]) -> None:
    space = run("find_a_bug", {})
    said = capsys.readouterr().out
    assert "32 times what it should be" in said
    assert "div 'read:0:even'" in said
    assert space["view"].overlay["title"] == "norm of the gradient"
