"""A tokenizer of ours and transformers' own of the same, and random texts and conversations."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import gradwright as gw
from tests.align.chat_templates import SPECIAL

WORDS = [*("a", "the", "two", "three", "plus", "is", "it", "cat", "dog", "sings", "über")]
WORDS += ["12", "345", "x=y", ".", "?", "\n", "", "ok;", "naïve", "木"]


@functools.cache
def tokenizer() -> gw.models.Tokenizer:
    """Return byte pairs that merge across words and spaces, with every special token."""
    rng = np.random.default_rng(0)
    texts = [text(rng, 12) for _ in range(80)]
    return gw.models.Tokenizer.train(texts, 340, special=SPECIAL)


@functools.cache
def theirs(template: str | None = None, *, bos: bool = False) -> Any:
    """Return transformers' tokenizer of the same tokens; with ``bos`` one that begins texts so."""
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer.from_str(tokenizer().inner.to_str())
    if bos:
        begun = [("<bos>", inner.token_to_id("<bos>"))]
        inner.post_processor = TemplateProcessing(single="<bos> $A", special_tokens=begun)
    names = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>"}
    found = PreTrainedTokenizerFast(tokenizer_object=inner, **names)
    found.chat_template = template
    return found


def text(rng: np.random.Generator, most: int) -> str:
    """Return a text of one to ``most`` words, some of which stand without a space between them."""
    words = rng.choice(WORDS, rng.integers(1, most + 1))
    return "".join(word + " " * int(rng.integers(0, 2)) for word in words)


def conversation(rng: np.random.Generator, turns: int, last: str) -> list[dict[str, Any]]:
    """Return messages of user and assistant in turn, the last one by ``last``; perhaps a system."""
    roles = ["user", "assistant"]
    first = roles.index(last) + turns + 1
    messages = [{"role": roles[(first + i) % 2], "content": text(rng, 6)} for i in range(turns)]
    if rng.random() < 0.5:
        messages.insert(0, {"role": "system", "content": text(rng, 4)})
    return messages
