"""The short form: a small base, shifted to Python's source, learns as much as a method lets it."""

from __future__ import annotations

import pytest

from tests.learning import adapters
from tests.learning.base import SMALL


@pytest.fixture(scope="module")
def values():
    return SMALL.train()


def test_lora_learns_more_than_ia3_and_that_more_than_nothing(values) -> None:
    """In nats a character of modules not learned; frozen adapters stay where they were."""
    first = adapters.before("source", SMALL, values)
    found = {
        name: adapters.train(adapters.METHODS[name], 0, base=SMALL, values=values)
        for name in ("LoRA", "frozen")
    }
    print(first, found)
