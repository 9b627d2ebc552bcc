"""The tutorial on language models from disk; its cells assert what its text claims."""

from __future__ import annotations

import pytest

from tests.notebooks.tutorials import run

pytest.importorskip("tokenizers", reason="pip install -e '.[text]'")


def test_the_tutorial_runs() -> None:
    run("open_a_language_model", {})
