"""A training by rewards that is small enough to watch: sums of digits."""

from __future__ import annotations

from collections.abc import Sequence

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


def adding(**settings: object) -> gw.Trainer:
    """Return a trainer of a small decoder that is rewarded for sums."""
    config = DecoderConfig(vocabulary=len(TOKENIZER), width=24, layers=1, heads=2, context=32)
    model = Decoder(config, name="sums", tokenizer=TOKENIZER, eos=EOS, seed=3)
    method = gw.align.GRPO(
        num_generations=4, max_completion_length=8, beta=0.02, num_iterations=2, **settings
    )
    return gw.align.trainer(
        model, method, rewards=[near, digits], optimizer=gw.optim.AdamW(1e-2, weight_decay=0.0)
    )
