"""The tutorial on language models from disk; its cells assert what its text claims."""

from __future__ import annotations

import sys

import pytest

from tests.notebooks.tutorials import run

pytest.importorskip("tokenizers", reason="pip install -e '.[text]'")


@pytest.mark.parametrize("there", [True, False], ids=["beside transformers", "without it"])
def test_the_tutorial_runs(there, monkeypatch) -> None:
    if not there:
        monkeypatch.setitem(sys.modules, "transformers", None)  # as where it is not installed
    run("open_a_language_model", {})
