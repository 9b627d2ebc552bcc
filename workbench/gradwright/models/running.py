"""Rows that are being generated: what each has so far, and what one more token makes of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .choosing import Draws, chosen
from .completion import Completion, Ends, Piece, Text
from .sampling import Strategy
from .tokenizers import TextCodec

Array = np.ndarray[Any, Any]


class Running:
    """Rows, and the next tokens of those that go on.

    Args:
        rows: which they are; what they become is written into them.
        rules: strategies in order.
        ends: by which rows end.
        codec: makes texts.
        is_told: whether pieces are asked for, or guesses come; else texts are made where a row
            ends, at once.
        said_at: the temperature at which log-probabilities and entropies of tokens are kept, too.
    """

    def __init__(
        self,
        rows: Sequence[Completion],
        rules: Sequence[Strategy],
        ends: Ends,
        codec: TextCodec | None,
        *,
        is_told: bool = True,
        said_at: float | None = None,
    ) -> None:
        self.rows, self._said_at = rows, said_at
        self.tokens = [row.prompt + row.tokens for row in rows]
        """All tokens of each row so far."""
        self.live = [b for b, row in enumerate(rows) if row.reason is None]
        """Those that go on."""
        self._rules, self._ends, self._codec = rules, ends, codec
        self._begun = [len(row.tokens) for row in rows]
        self._longest = [n + ends.limit for n in self._begun]
        self._n_prompt = [len(row.prompt) for row in rows]
        self._draws = Draws([row.seed for row in rows], ends.limit)
        self._deadline = ends.deadline()
        watched = any(type(rule).ended is not Strategy.ended for rule in rules)
        self._is_plain = not (is_told or ends.stops or ends.until is not None or watched)
        """Whether rows end by their last token, their length and time alone."""
        self._texts = [] if self._is_plain else [Text(codec, row, ends) for row in rows]
        self._last = ends.eos | ends.tokens

    def left(self, row: int) -> int:
        """Return how many tokens may still come."""
        return self._longest[row] - len(self.rows[row].tokens)

    def take(self, logits: Sequence[Array] | Array, stopped: bool) -> list[Piece]:
        """Let a token come to each row that goes on, for logits f32[n, V]; return the pieces."""
        live, late = self.live, time.monotonic() >= self._deadline
        new = self._chosen(np.asarray(logits), live)
        if not self._is_plain:
            pieces = [self._push(b, y, late, stopped) for b, y in zip(live, new, strict=True)]
            self.live = [piece.row for piece in pieces if piece.reason is None]
            return pieces
        rows, tokens, going = self.rows, self.tokens, []
        last, longest, all_end = self._last, self._longest, late or stopped
        for b, token in zip(live, new, strict=True):
            tokens[b].append(token)
            own = rows[b].tokens
            own.append(token)
            if token in last or all_end or len(own) >= longest[b]:
                self._end(b, late, stopped)
            else:
                going.append(b)
        self.live = going
        return []

    def take_guessed(
        self,
        logits: Sequence[Array],
        guessed: Sequence[Sequence[int]],
        stopped: bool,
    ) -> Iterator[tuple[Piece, int]]:
        """Let tokens come to each row as far as its guesses hold, and one more.

        ``logits``, f32[n + 1, V] of a row, are what comes in place of each guess and after them.
        Yields each piece, with what had been guessed in its place; −1 after the last.
        """
        late, going = time.monotonic() >= self._deadline, []
        for b, told, of_row in zip(self.live, guessed, logits, strict=True):
            for y, guess in zip(of_row, [*told, -1], strict=True):
                token = self._chosen(y[None], [b])[0]
                piece = self._push(b, token, late, stopped)
                yield piece, guess
                if piece.reason is not None or token != guess:
                    break
            if self.rows[b].reason is None:
                going.append(b)
        self.live = going

    def _chosen(self, logits: Array, rows: Sequence[int]) -> list[int]:
        held, n_prompt = [self.tokens[b] for b in rows], [self._n_prompt[b] for b in rows]
        said_at = self._said_at
        new, told = chosen(logits, self._rules, held, n_prompt, self._draws, rows, said_at)
        if told is not None:
            for b, log_prob, entropy in zip(rows, *told.tolist(), strict=True):
                row = self.rows[b]
                row.log_probs.append(log_prob)
                row.entropy.append(entropy)
        return new

    def _push(self, b: int, token: int, late: bool, stopped: bool) -> Piece:
        """Let a token come to a row whose text is told, or looked at."""
        row, tokens, text = self.rows[b], self.tokens[b], self._texts[b]
        tokens.append(token)
        row.tokens.append(token)
        new, found = text.push(token)
        over = any(rule.ended(tokens, len(row.prompt)) for rule in self._rules)
        n = len(row.tokens) - self._begun[b]
        reason = row.reason = self._ends.reason(row, n, found, over, late, stopped)
        if reason is not None and not found:
            new += text.finish()
        return Piece(b, token, new, reason)

    def _end(self, b: int, late: bool, stopped: bool) -> None:
        """End a plain row, and make its text."""
        row = self.rows[b]
        n = len(row.tokens) - self._begun[b]
        row.reason = self._ends.reason(row, n, False, False, late, stopped)
        if self._codec is not None:
            row.text = self._codec.decode([y for y in row.tokens if y not in self._last])
