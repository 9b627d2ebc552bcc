"""Making examples of rows: what is dropped or cut, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import GradwrightError
from ..rollouts.rollout import Prompt
from .codec import Encoder
from .columns import Row
from .report import Note, Problems
from .rows import TokenRow

EMPTY = "empty completion"
NO_PROMPT = "empty prompt"
SAME = "chosen and rejected are the same"
UNLEARNT = "no token left to learn"
MERGED = "tokens of prompt and completion merge"
ENDLESS = "does not end with eos"


class Maker:
    """Makes examples of rows, and notes what becomes of them."""

    def __init__(self, encoder: Encoder, kind: str) -> None:
        self.notes: list[Note] = []
        self._encoder = encoder
        self._make: Callable[[Row], Any] = {
            "text": self._alone,
            "completion": self._behind,
            "label": self._behind,
            "pair": self._behind,
            "prompt": self._prompt,
        }[kind]
        self._names = ("chosen", "rejected") if kind == "pair" else ("completion",)
        self._number = 0

    def made(self, rows: Sequence[Row]) -> list[tuple[Row, Any]]:
        """Return rows with what is made of them, without those that are dropped.

        Raises FeedError of all that tokenizer and template do not take.
        """
        made: list[tuple[Row, Any]] = []
        problems = Problems()
        for row in rows:
            self._number = row.number
            try:
                found = self._make(row)
            except Exception as error:  # a tokenizer or template of the user's may raise anything
                problems.add(row.number, next(iter(row.parts)), *_said(error))
                continue
            if found is not None:
                made.append((row, found))
        problems.check()
        return made

    def _note(self, fate: str, why: str) -> None:
        self.notes.append(Note(self._number, fate, why))

    def _prompt(self, row: Row) -> Prompt | None:
        tokens, text = self._encoder.prompt(row) if len(row.parts["prompt"]) else ([], "")
        most = self._encoder.codec.max_length
        if not tokens or (most is not None and len(tokens) > most):
            self._note("dropped", f"longer than {most:,} tokens" if tokens else NO_PROMPT)
            return None
        return Prompt(tokens, text, dict(row.others), dict(row.feeds))

    def _alone(self, row: Row) -> list[TokenRow] | None:
        return self._fitted([self._encoder.alone(row, next(iter(row.parts)))])

    def _behind(self, row: Row) -> list[TokenRow] | None:
        parts = [row.parts[name] for name in self._names]
        if not all(map(len, parts)) or (len(parts) > 1 and parts[0] == parts[1]):
            self._note("dropped", SAME if all(map(len, parts)) else EMPTY)
            return None
        found, merged = self._encoder.behind(row, *self._names)
        fitted = self._fitted(found)
        if fitted is None:
            return None
        if merged:
            self._note("kept", MERGED)
        if self._encoder.eos and not all(map(self._encoder.ends, found)):
            self._note("kept", ENDLESS)
        return fitted

    def _fitted(self, rows: list[TokenRow]) -> list[TokenRow] | None:
        """Return rows of which none is too long; None where nothing is left to learn of one."""
        codec = self._encoder.codec
        most = codec.max_length
        if most is not None and any(len(row) > most for row in rows):
            why = f"longer than {most:,} tokens"
            if codec.truncation == "drop":
                self._note("dropped", why)
                return None
            rows = [row.cut(most, keep_end=codec.truncation == "keep_end") for row in rows]
            if all(row.learns for row in rows):
                self._note("cut", why)
        if not all(row.learns for row in rows):
            self._note("dropped", UNLEARNT)
            return None
        return rows


def _said(error: Exception) -> tuple[str, str]:
    """Return what came and what was needed, as an error has it."""
    if isinstance(error, GradwrightError):
        came = "; ".join([error.problem, *error.facts])
        return came, error.need or "what tokenizer and template take"
    return f"{type(error).__name__}: {error!s:.200}", "what tokenizer and template take"
