"""Tokenizers of ours, of the library tokenizers, and of transformers, asked in one way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import FeedError
from ...models.tokenizers import TextCodec, TextStream
from .template import specials_of

Span = tuple[int, int]


class Tokenizing:
    """A tokenizer, and what its library can say beyond `TextCodec`."""

    def __init__(self, tokenizer: TextCodec) -> None:
        self._tokenizer = tokenizer
        self._library = getattr(tokenizer, "inner", getattr(tokenizer, "backend_tokenizer", None))

    def plain(self, text: str) -> list[int]:
        """Return the tokens of a text, with those that the tokenizer puts around it by itself."""
        return [int(token) for token in self._tokenizer.encode(text)]

    def written(self, text: str) -> list[int]:
        """Return the tokens of a text that has its special tokens written out."""
        return self.plain(text) if self._library is None else self._found(text).ids

    def placed(self, text: str) -> tuple[list[int], list[Span]]:
        """Return likewise, and from where to where of the text each token is.

        Raises FeedError where the tokenizer cannot tell.
        """
        if self._library is not None:
            found = self._found(text)
            return found.ids, found.offsets
        tokens = self.plain(text)
        return tokens, streamed_places(self._tokenizer, tokens, text)

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens."""
        return self._tokenizer.decode(list(tokens))

    def eos(self) -> list[int]:
        """Return the token that ends a row, if the tokenizer names it."""
        named = specials_of(self._tokenizer).get("eos_token")
        found = [] if named is None else self.written(named)
        return found if len(found) == 1 else []

    def _found(self, text: str) -> Any:
        return self._library.encode(text, add_special_tokens=False)  # type: ignore[union-attr]


def streamed_places(tokenizer: TextCodec, tokens: Sequence[int], text: str) -> list[Span]:
    """Return from where to where of a text each token is; raises FeedError if they give another.

    >>> import gradwright as gw
    >>> streamed_places(gw.models.CharTokenizer("ab"), [0, 1, 0], "aba")
    [(0, 1), (1, 2), (2, 3)]
    """
    if tokenizer.decode(list(tokens)) != text:
        raise FeedError(
            "the tokens of the conversation decode to another text",
            need="a tokenizer that says where its tokens stand, for assistant_only_loss",
        )
    stream, places, at = TextStream(tokenizer), [], 0
    for token in tokens:
        size = len(stream.push(token))
        places.append((at, at + max(1, size)))  # of a torn character, each token is all of it
        at += size
    return places
