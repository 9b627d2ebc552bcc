"""Tokens as a page gets them: their text, how likely they were, and what was likelier."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwright.models import Attention, Attribution, Choice, Score, TokenReading

from ...host.wire import Message, finite

MOST_MAP = 256
"""Tokens of a text whose attention is sent as a map; of a longer one it is a row."""


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
    read: int = 0
    """Of how many tokens of the prompt it is known what was thought of them."""
    told: int = 0
    """Of how many the page knows it."""
    _first: float = 0.0
    _last: float = 0.0

    def append(self, token: TokenReading) -> None:
        """Add a token that was generated now."""
        self._last = time.monotonic()
        if len(self.tokens) == self.n_prompt:
            self._first = self._last
        self.tokens.append(token)

    def hear(self, prompt: Sequence[TokenReading]) -> None:
        """Take in what is thought of the next tokens of the prompt."""
        self.tokens[self.read : self.read + len(prompt)] = prompt
        self.read += len(prompt)

    @property
    def rate(self) -> float:
        """Tokens in a second from the first one on; 0 where there are no two."""
        n, seconds = len(self.tokens) - self.n_prompt - 1, self._last - self._first
        return n / seconds if n > 0 and seconds > 0 else 0.0

    def all(self) -> Message:
        """Return all tokens."""
        self.sent = len(self.tokens)
        return self._message(0, self.sent)

    def news(self) -> list[Message]:
        """Return the tokens that the page does not have, or knows less of."""
        parts = [(self.told, self.read), (self.sent, len(self.tokens))]
        self.told, self.sent = self.read, len(self.tokens)
        return [self._message(*part) for part in parts if part[0] < part[1]] or [
            self._message(0, 0)
        ]

    def _message(self, start: int, stop: int) -> Message:
        rows = [row(token) for token in self.tokens[start:stop]]
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


def attention(found: Attention, head: int) -> Message:
    """Return the map of a head, -1 for the mean of all, and what is kept of the last token."""
    shown = found.weights.mean(0) if head < 0 else found.weights[head]
    small = shown if len(shown) <= MOST_MAP else shown[-1:]
    cache = np.stack([found.keys[:, -1], found.values[:, -1]])
    content = {
        "kind": "text.attention", "head": head, "rows": len(small), "kv_heads": cache.shape[1],
        "kept": found.keys.nbytes + found.values.nbytes,
    }  # fmt: skip
    return content, [np.ascontiguousarray(a, np.float32).tobytes() for a in (small, cache)]


def reasons(found: Attribution) -> Message:
    """Return what each token before one adds to its logit."""
    content = {
        "kind": "text.why", "chosen": choice(found.chosen),
        "scores": np.nan_to_num(found.scores).tolist(),
        "shares": np.nan_to_num(found.shares).tolist(),
    }  # fmt: skip
    return content, []
