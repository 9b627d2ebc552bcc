"""The tutorial on ONNX files; its cells assert what its text claims."""

from __future__ import annotations

import pytest

from tests.notebooks.tutorials import run

pytest.importorskip("onnxruntime", reason="pip install -e '.[test]'")


def test_the_tutorial_runs() -> None:
    run("models_from_elsewhere", {})
