"""A training by rewards that is small enough to watch: sums of digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradwright as gw
from gradwright.models import CharTokenizer, Decoder, DecoderConfig

TOKENIZER = CharTokenizer(" +0123456789=<>")
EOS = TOKENIZER.encode(" ")[0]


def sums(n: int = 6) -> list[gw.align.Prompt]:
    """Return prompts such as ``3+4=``, with their answers."""
    pairs = [(k % 5 + 1, k * 3 % 5) for k in range(n)]
    return [
        gw.align.Prompt(TOKENIZER.encode(f"{a}+{b}="), f"{a}+{b}=", {"answer": str(a + b)})
        for a, b in pairs
    ]


def near(completions: Sequence[str], answer: Sequence[str]) -> list[float]:
    """Return 1 for the answer, and half of it for what begins so."""
    told = zip(completions, answer, strict=True)
    return [0.5 * text.startswith(a) + 0.5 * (text == a) for text, a in told]


def digits(completions: Sequence[str]) -> list[float]:
    """Return the share of digits."""
    return [sum(c.isdigit() for c in text) / max(len(text), 1) for text in completions]


def speller() -> Decoder:
    """Return a small decoder of digits and signs, as it begins."""
    config = DecoderConfig(vocabulary=len(TOKENIZER), width=24, layers=1, heads=2, context=48)
    return Decoder(config, name="sums", tokenizer=TOKENIZER, eos=EOS, seed=3)


def adding(**settings: Any) -> gw.Trainer:
    """Return a trainer of a small decoder that is rewarded for sums."""
    given = {"num_generations": 4, "max_completion_length": 8, "num_iterations": 2, "beta": 0.02}
    method = gw.align.GRPO(**{**given, **settings})
    optimizer = gw.optim.AdamW(1e-2, weight_decay=0.0)
    return gw.align.trainer(speller(), method, rewards=[near, digits], optimizer=optimizer)


def preferring() -> tuple[gw.Trainer, list[dict[str, str]]]:
    """Return a trainer of a small decoder by pairs, and these: right sums before wrong ones."""
    data = [
        {"prompt": f"{a}+{b}=", "chosen": str(a + b), "rejected": f"<{a + b + 1}"}
        for a, b in ((k % 5 + 1, k * 3 % 5) for k in range(24))
    ]
    optimizer = gw.optim.AdamW(2e-3, weight_decay=0.0)
    return gw.align.trainer(speller(), gw.align.DPO(), optimizer=optimizer), data
