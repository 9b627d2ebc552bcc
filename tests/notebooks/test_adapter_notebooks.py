"""The tutorials on adapters: the second reads the model that the first has made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.notebooks.tutorials import NOTEBOOKS, run

pytest.importorskip("plotly", reason="pip install -e '.[test]'")
pytest.importorskip("tokenizers", reason="pip install -e '.[text]'")
HALF = {"steps = 2 * ": "steps = ", "epochs=2": "epochs=1"}
"""A model that has read the manual once."""
SHORT = {
    **HALF,
    "1920": "960",
    "640": "320",
    "steps = 120": "steps = 60",
    "[0, 40, 80, 120]": "[0, 20, 40, 60]",
    "tinit=24, tfinal=30": "tinit=12, tfinal=15",
    "warmup=12": "warmup=6",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home of their own, in which they keep what they make."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))


def test_five_methods_side_by_side(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its cells assert what its text claims."""
    run("adapters", SHORT)
    assert "peft" in capsys.readouterr().out
    saved = (home / ".cache/gradwright-notebooks").glob("*/*/adapter_model.safetensors")
    assert {path.parent.name for path in saved} == {"source", "pirate"}


def test_from_a_table_to_an_adapter_in_twenty_lines() -> None:
    space = run("my_data_to_an_adapter", HALF)
    assert space["right"] > 0.95 and space["found"].text.strip() == "repair"
    cells = json.loads((NOTEBOOKS / "my_data_to_an_adapter.ipynb").read_text("utf-8"))["cells"]
    (lines,) = (c["source"] for c in cells if any("adapters.save(" in line for line in c["source"]))
    assert len(lines) <= 20
