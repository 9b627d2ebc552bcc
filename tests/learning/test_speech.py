"""The short form of ``python -m tests.learning.speech``: 39 words of our own voice, in seconds."""

from __future__ import annotations

from gradwright.models import FormantVoice
from tests.learning import speech


def test_words_that_were_never_heard_are_said_as_they_should_be() -> None:
    data = speech.words(0, FormantVoice(), speech.TENS[:3], held_out=6)
    model, untrained = speech.train(data, 0, steps=140, rows=8, width=64, rate=4e-3)
    found = speech.judge(model, untrained, data)
    assert not speech.problems(found), found
    assert found["length"] < 0.05 and found["L1"] < 0.3
