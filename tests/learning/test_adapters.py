"""The short form: a small base, shifted to Python's source, learns as much as a method lets it."""

from __future__ import annotations

from tests.learning import adapters
from tests.learning.base import SMALL


def test_lora_learns_more_than_ia3_and_that_more_than_nothing() -> None:
    """In nats a character of modules that nothing was trained on; what is frozen stays as it is."""
    values = SMALL.train()
    first = adapters.before("source", SMALL, values)["100"]
    steps = {"LoRA": adapters.STEPS, "IA3": adapters.STEPS, "frozen": 20}
    found = {
        name: adapters.train(adapters.METHODS[name], 0, base=SMALL, values=values, told=[n])
        for name, n in steps.items()
    }
    lora, ia3, frozen = (found[name][str(n)] for name, n in steps.items())
    assert lora < ia3 - 0.1
    assert ia3 < first - 0.06
    assert abs(frozen - first) < 1e-6
    assert all(abs(run["disabled"] - first) < 1e-6 for run in found.values())
