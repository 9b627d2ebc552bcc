"""Speculative decoding: a small model guesses tokens, and the large one reads several at once.

A guess counts where it is the token that the large model chooses by itself, with the draw that
belongs to this place of the row (common random numbers: Daliri et al. 2025; the idea is that of
Leviathan et al. 2023). So a draft changes how fast tokens come, and not one of them, whatever the
strategies are. Drawn tokens agree a little less often than by Leviathan's rule, which makes other
draws than the model alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import GraphError
from .choosing import Draws, chosen
from .completion import Completion
from .reading import Reader
from .sampling import Strategy

if TYPE_CHECKING:
    from .generation import Generation


class Draft:
    """A smaller model that guesses for a larger one of the same vocabulary.

    It pays where reading ``tokens`` + 1 tokens at once takes hardly longer than reading one, as in
    a large model, and where ``share``, the part of guesses that held, is high.

    >>> from gradwright.models import Decoder, DecoderConfig, Draft
    >>> large = Decoder(DecoderConfig(vocabulary=20, width=32, layers=2, heads=2)).generation()
    >>> small = Decoder(DecoderConfig(vocabulary=20, width=8, layers=1, heads=1)).generation()
    >>> draft = Draft(small)
    >>> alone = large.generate([[1, 2, 3]], 12)
    >>> large.generate([[1, 2, 3]], 12, draft=draft) == alone, draft.guessed > 0
    (True, True)
    """

    def __init__(self, generation: Generation, tokens: int = 4) -> None:
        if not isinstance(tokens, int) or tokens < 1:
            raise GraphError(f"a draft of {tokens!r} tokens", need="an int >= 1")
        self.generation, self.tokens = generation, tokens
        self.guessed = self.held = 0
        """How many tokens were guessed, and how many of them held."""

    @property
    def share(self) -> float:
        """The part of guesses that held; 0 before there are any."""
        return self.held / self.guessed if self.guessed else 0.0

    def __repr__(self) -> str:
        return f"<Draft of {self.tokens} tokens: {self.held:,} of {self.guessed:,} held>"


class Guesses:
    """Guesses of a draft for rows that are being generated; ``last`` are tokens that end one."""

    def __init__(
        self,
        draft: Draft,
        reader: Reader,
        rows: Sequence[Completion],
        rules: Sequence[Strategy],
        last: frozenset[int],
    ) -> None:
        self._draft, self._reader, self._rules, self._last = draft, reader, rules, last
        self.width = draft.tokens + 1
        """How many tokens of a row are read at once where some are guesses."""
        self._n_prompt = [len(row.prompt) for row in rows]
        self._draws = Draws([row.seed for row in rows], draft.tokens)

    def of(self, tokens: Sequence[Sequence[int]], most: Mapping[int, int]) -> dict[int, list[int]]:
        """Return what comes next in some rows, up to so many tokens each."""
        guessed: dict[int, list[int]] = {b: [] for b in most}
        going = [b for b, limit in most.items() if limit > 0]
        for b in most:
            self._reader.keep(b, len(tokens[b]) - 1)
        for n in range(self._draft.tokens):
            wanted = {b: [*tokens[b], *guessed[b]] for b in going if n < most[b]}
            if not wanted:
                break
            logits = np.stack(self._reader.read(self._draft.generation.run, wanted))
            rows, begun = list(wanted), [self._n_prompt[b] for b in wanted]
            new, _ = chosen(logits, self._rules, list(wanted.values()), begun, self._draws, rows)
            for (b, row), token in zip(wanted.items(), new, strict=True):
                guessed[b].append(token)
                over = any(rule.ended([*row, token], self._n_prompt[b]) for rule in self._rules)
                if over or token in self._last:
                    going.remove(b)
        self._draft.guessed += sum(map(len, guessed.values()))
        return guessed

    def tell(self, held: bool) -> None:
        """Note whether a guess held."""
        self._draft.held += held
