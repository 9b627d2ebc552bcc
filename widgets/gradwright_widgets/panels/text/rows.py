"""Tokens as a page gets them: their text, how likely they were, and what was likelier."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from gradwright.models import Choice, Score, TokenReading

from ...host.wire import Message, finite


@dataclass
class Written:
    """A text as it grows, and how fast it does."""

    run: int = 0
    tokens: list[TokenReading] = field(default_factory=list)
    n_prompt: int = 0
    wanted: int = 0
    """How many tokens were asked for beside the prompt's."""
    error: str = ""
    scored: bool = False
    sent: int = 0
    """How many tokens the page has."""
    _first: float = 0.0
    _last: float = 0.0

    def append(self, token: TokenReading) -> None:
        """Add a token that was generated now."""
        self._last = time.monotonic()
        if len(self.tokens) == self.n_prompt:
            self._first = self._last
        self.tokens.append(token)

    @property
    def rate(self) -> float:
        """Tokens in a second from the first one on; 0 where there are no two."""
        n, seconds = len(self.tokens) - self.n_prompt - 1, self._last - self._first
        return n / seconds if n > 0 and seconds > 0 else 0.0

    def message(self, *, everything: bool) -> Message:
        """Return the tokens that the page does not have."""
        start = 0 if everything else self.sent
        rows = [row(token) for token in self.tokens[start:]]
        self.sent = start + len(rows)
        score = Score(self.tokens[self.n_prompt if not self.scored else 0 :])
        return (
            {
                "kind": "text.tokens", "run": self.run, "start": start, "rows": rows,
                "prompt": self.n_prompt, "wanted": self.wanted, "rate": self.rate,
                "likelihood": finite(score.log_likelihood), "perplexity": finite(score.perplexity),
                "scored": self.scored, "error": self.error,
            },
            [],
        )  # fmt: skip


def row(token: TokenReading) -> dict[str, Any]:
    """Return a token in words that JSON has.

    >>> row(TokenReading(3, " a"))
    {'text': ' a', 'id': 3, 'p': None, 'rank': None, 'choices': []}
    """
    return {
        "text": token.text, "id": token.token, "p": finite(token.probability), "rank": token.rank,
        "choices": [choice(c) for c in token.choices],
    }  # fmt: skip


def choice(c: Choice) -> list[Any]:
    """Return text, number, logit and probability of a token that might come."""
    return [c.text, c.token, finite(c.logit), finite(c.probability)]
