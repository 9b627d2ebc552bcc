"""The loop of a generation: prompts are read, then token after token, until all rows have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .completion import Piece
from .reading import Reader, Run
from .running import Running
from .speculation import Guesses

Array = np.ndarray[Any, Any]
WORTH = 8
"""How many tokens may still have to come for rows that have ended to be taken out."""


@dataclass
class Loop:
    """Rows, what reads them, and what guesses."""

    rows: Running
    reader: Reader
    run: Run
    """Gives the logits after the last token of each row."""
    group: int
    """How many rows each prompt is of: it is read once."""
    reread: int | None
    """After how many tokens a row is read anew."""
    shrinks: bool
    """Whether rows that have ended are taken out."""
    guesses: Guesses | None = None
    all_run: Run | None = None
    """Gives the logits after each token, where there are guesses."""

    def steps(self, is_stopped: Callable[[], bool]) -> Iterator[list[Piece]]:
        """Take step after step; yield what comes."""
        rows, anew = self.rows, True
        guessed: dict[int, list[int]] = {}
        while rows.live:
            if guessed:
                pieces = self._guessed(guessed, is_stopped)
            else:
                logits = self._anew() if anew else self._next()
                pieces = rows.take(logits, is_stopped())
            yield pieces
            anew = self._forget()
            # What is read anew is read in one piece, without guesses.
            guessed = {} if anew or self.guesses is None else self._guesses()
            if self.shrinks and rows.live and rows.left(rows.live[0]) >= WORTH:
                self.reader.shrink(rows.live)

    def _anew(self) -> Array:
        """Read rows of which nothing is known, those of a group as one; return their logits."""
        rows, group = self.rows, self.group
        wanted = {b // group: rows.tokens[b] for b in rows.live[::group]}
        logits = np.stack(self.reader.read(self.run, wanted))
        if group > 1:
            self.reader.spread(group)
            self.group = 1
        return np.repeat(logits, group, axis=0)

    def _next(self) -> Array:
        """Read the last token of each row."""
        live, tokens = self.rows.live, self.rows.tokens
        return self.reader.next(self.run, live, [tokens[b][-1] for b in live])

    def _guessed(
        self, guessed: Mapping[int, list[int]], is_stopped: Callable[[], bool]
    ) -> list[Piece]:
        """Read what was guessed, and keep what holds."""
        rows, reader, guesses, run = self.rows, self.reader, self.guesses, self.all_run
        assert guesses is not None and run is not None
        live, tokens = rows.live, rows.tokens
        told = [guessed.get(b, []) for b in live]
        wanted = {b: [*tokens[b], *own] for b, own in zip(live, told, strict=True)}
        read, pieces = reader.read(run, wanted, guesses.width), []
        for piece, guess in rows.take_guessed(read, told, is_stopped()):
            pieces.append(piece)
            if guess >= 0:
                guesses.tell(piece.token == guess)
        for b in live:
            reader.keep(b, len(tokens[b]) - 1)
        return pieces

    def _guesses(self) -> dict[int, list[int]]:
        """Return what comes next in rows by the draft."""
        rows, n = self.rows, self.reread
        most = {b: rows.left(b) - 1 for b in rows.live}
        if n is not None:  # none beyond the token that has all read anew
            for b in most:
                before = n - len(rows.tokens[b])
                most[b] = min(most[b], before) if before >= 0 else most[b]
        assert self.guesses is not None
        return self.guesses.of(rows.tokens, most) if most else {}

    def _forget(self) -> bool:
        """Forget rows that have just become longer than ``reread``; tell whether there are any."""
        n, rows, reader = self.reread, self.rows, self.reader
        if n is None:
            return False
        longer = [b for b in rows.live if reader.known[b] <= n < len(rows.tokens[b])]
        for b in longer:
            reader.keep(b, 0)
        return bool(longer)
