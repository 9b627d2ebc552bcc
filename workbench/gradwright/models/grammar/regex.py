"""Regex: a strategy that lets through what goes on to a text that fits a pattern."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...errors import GraphError
from ...words.jsonable import jsonable
from ..sampling import Strategy
from ..tokenizers import TextCodec
from .automaton import Automaton
from .vocabulary import PATTERNS, Allowed, Vocabulary

Array = np.ndarray[Any, Any]
_KNOWN: weakref.WeakKeyDictionary[Any, dict[int, Vocabulary]] = weakref.WeakKeyDictionary()
"""The vocabularies of tokenizers that live, by their size."""


@jsonable
@dataclass(frozen=True)
class Regex(Strategy):
    r"""What is generated fits a regular expression as a whole, in the syntax of RE2.

    Tokens from which no text that fits can be reached are forbidden; those that end a row are
    allowed where it may end, and a row ends by itself, of ``"grammar"``, where nothing can follow.
    A row that ends of ``"length"`` before has a beginning of such a text. The pattern becomes an
    automaton over bytes, so tokens may end within a character. Of 128,000 tokens, spelling them
    costs a second, once a tokenizer; coming into a state of the automaton for the first time 2 to
    20 ms; a token after that 0.1 ms.

    >>> from gradwright.models import CharTokenizer, Decoder, DecoderConfig, Regex
    >>> tokenizer = CharTokenizer("0123456789-abc")
    >>> model = Decoder(DecoderConfig(vocabulary=14, width=8, layers=1, heads=2))
    >>> generation = model.generation(tokenizer=tokenizer)
    >>> (row,) = generation.generate("c", 20, sampling=[Regex(r"\d{4}-\d\d-\d\d")])
    >>> len(row.text), row.text[4], row.reason
    (10, '-', 'grammar')
    """

    pattern: str
    order: ClassVar[int] = 2

    def __post_init__(self) -> None:
        _automaton(self.pattern)

    def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
        """Raise: it has to be bound to a vocabulary first."""
        raise GraphError(
            f"{self} does not know what tokens spell",
            hint="generate(sampling=[Regex(...)]), or regex.bound(tokenizer, eos, vocabulary)",
        )

    def bound(self, tokenizer: TextCodec | None, eos: frozenset[int], vocabulary: int) -> Strategy:
        """Return the strategy for a vocabulary."""
        if tokenizer is None:
            raise GraphError(f"{self} needs a tokenizer", hint="Generation(tokenizer=...)")
        try:
            known = _KNOWN.setdefault(tokenizer, {})
        except TypeError:  # nothing can be remembered of it
            known = {}
        if vocabulary not in known:
            known[vocabulary] = Vocabulary(tokenizer, vocabulary)
        return _Following(self, known[vocabulary].allowed(self.pattern), eos)


class _Following(Strategy):
    """A pattern that is followed with the tokens of a generation."""

    order = Regex.order

    def __init__(self, regex: Regex, allowed: Allowed, eos: frozenset[int]) -> None:
        self._regex, self._allowed, self._eos = regex, allowed, sorted(eos)

    def __repr__(self) -> str:
        return repr(self._regex)

    def __call__(self, logits: Array, tokens: Sequence[int], n_prompt: int) -> Array:
        """Return the logits of what may follow."""
        state = self._allowed.state(tokens[n_prompt:])
        y = np.where(self._allowed.mask(state, len(tokens) == n_prompt), logits, -np.inf)
        if self._allowed.automaton.accepts(state):
            y[self._eos] = logits[self._eos]
        return np.asarray(y)

    def ended(self, tokens: Sequence[int], n_prompt: int) -> bool:
        """Tell whether a row fits, and nothing can follow."""
        state = self._allowed.state(tokens[n_prompt:])
        fits = self._allowed.automaton.accepts(state)
        return fits and not self._allowed.mask(state, len(tokens) == n_prompt).any()


@functools.lru_cache(maxsize=PATTERNS)
def _automaton(pattern: str) -> Automaton:
    """Compile a pattern, to tell what is wrong with it at once."""
    return Automaton(pattern)
