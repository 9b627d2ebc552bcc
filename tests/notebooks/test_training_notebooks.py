"""The tutorials on training, each with fewer epochs where its claims still hold."""

from __future__ import annotations

import pytest

from tests.notebooks.tutorials import run

pytest.importorskip("plotly", reason="pip install -e '.[test]'")
pytest.importorskip("sklearn", reason="pip install -e '.[test]'")
SMALL = {
    "mixed_precision": {
        "np.arange(0, -7, -1)": "np.array([0, -6])",
        "epochs=12": "epochs=6",
        "<= 0.01 for": "<= 0.03 for",
        "width=512": "width=64",
    },
    "checkpoints": {
        "epochs=14": "epochs=12",
    },
    "distillation": {
        "epochs=20": "epochs=10",
        "steps=900": "steps=600",
        "[{}] * 600": "[{}] * 400",
    },
}


@pytest.mark.parametrize("name", SMALL)
def test_the_tutorial_runs(name: str) -> None:
    """Its cells assert what its text claims; what needs the whole training is asked for less."""
    run(name, SMALL[name])
