"""Tokens as the text that each adds, however odd the tokenizer finds them."""

from __future__ import annotations

from collections.abc import Sequence

from gradwright.errors import GradwrightError
from gradwright.models.tokenizers import TextCodec, TextStream


def pieces(tokens: Sequence[int], n_prompt: int, tokenizer: TextCodec | None) -> list[str]:
    """Return the text that each token after the prompt adds.

    "" stands where a character is not complete yet, ``⟨7⟩`` for a token that the tokenizer does not
    have, such as one that only ends a row; without a tokenizer all are numbers.

    >>> from gradwright.models import CharTokenizer
    >>> pieces([0, 1, 2], 1, CharTokenizer("ab")), pieces([5, 7], 0, None)
    (['b', '⟨2⟩'], ['5 ', '7 '])
    """
    if tokenizer is None:
        return [f"{token} " for token in tokens[n_prompt:]]
    stream = TextStream(tokenizer)
    found = []
    for token in map(int, tokens):
        try:
            found.append(stream.push(token))
        except (GradwrightError, LookupError, ValueError):
            found.append(f"⟨{token}⟩")
            stream = TextStream(tokenizer)
    if len(tokens) > n_prompt:
        found[-1] += stream.finish()
    return found[n_prompt:]


def text_of(text: str, tokens: Sequence[int], tokenizer: TextCodec | None) -> str:
    """Return a text as it was given, else what its tokens say."""
    return text or "".join(pieces(tokens, 0, tokenizer))
