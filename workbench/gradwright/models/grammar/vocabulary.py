"""The bytes that each token of a tokenizer adds to a text, and which of them an automaton takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...shared import Bounded
from ..tokenizers import TextCodec, Tokenizer
from .automaton import DEAD, START, UNKNOWN, Automaton

Array = np.ndarray[Any, Any]
TORN = "\N{REPLACEMENT CHARACTER}"
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
MASKS = 256
"""States whose tokens are kept: a byte a token each."""
PATTERNS = 16
"""Patterns that are remembered of a tokenizer."""


class Spellings:
    """The bytes of tokens, one behind the other; a token without any adds nothing to a text."""

    def __init__(self, spelled: Sequence[bytes]) -> None:
        lengths = np.array([len(s) for s in spelled], np.int64)
        self.flat = np.frombuffer(b"".join(spelled), np.uint8)
        self.starts, self.lengths = np.cumsum(lengths) - lengths, lengths

    def ends(self, automaton: Automaton, state: int) -> Array:
        """Return the state behind each token, i32[V]; those without bytes are dead.

        All tokens are walked at once, a byte at a time: 2 ms for 128,000 of which few fit, 20 ms
        where all do.
        """
        found = np.where(self.lengths > 0, state, DEAD).astype(np.int32)
        alive, n = np.flatnonzero(found), 0
        while alive.size:
            here = found[alive]
            new = here[automaton.table[here, 0] == UNKNOWN]
            automaton.fill(np.unique(new).tolist())
            found[alive] = automaton.table[here, self.flat[self.starts[alive] + n]]
            n += 1
            alive = alive[(found[alive] != DEAD) & (self.lengths[alive] > n)]
        return found


class Vocabulary:
    """What the tokens of a tokenizer spell for a model of ``size`` of them, and patterns allow.

    The tokens of a row's begin are spelled by themselves: a tokenizer of sentences gives a word no
    space there.
    """

    def __init__(self, tokenizer: TextCodec, size: int) -> None:
        first, later = spellings(tokenizer, size)
        self._spelled = Spellings(first), Spellings(later)
        self._allowed = Bounded[Allowed](PATTERNS)

    def allowed(self, pattern: str) -> Allowed:
        """Return what a pattern allows; the latest are remembered."""
        found = self._allowed.find(pattern)
        if found is None:
            found = Allowed(Automaton(pattern), *self._spelled)
            self._allowed.keep(pattern, found)
        return found


class Allowed:
    """Which tokens may follow where a text has to fit a pattern."""

    def __init__(self, automaton: Automaton, first: Spellings, later: Spellings) -> None:
        self.automaton, self._first, self._later = automaton, first, later
        self._steps: dict[tuple[int, int, bool], int] = {}
        self._masks = Bounded[Array](MASKS)

    def state(self, tokens: Sequence[int]) -> int:
        """Return the state behind the tokens of a row."""
        state = START
        for i, token in enumerate(tokens):
            key = state, token, i == 0
            if key not in self._steps:
                held = self._later if i else self._first
                here, start = state, int(held.starts[token])
                data = held.flat[start : start + int(held.lengths[token])].tolist()
                for byte in data:
                    here = self.automaton.step(here, byte)
                self._steps[key] = here if data else DEAD
            state = self._steps[key]
        return state

    def mask(self, state: int, at_begin: bool) -> Array:
        """Return which tokens may follow, bool[V]."""
        key = state, at_begin
        found = self._masks.find(key)
        if found is None:
            held = self._first if at_begin else self._later
            found = held.ends(self.automaton, state) != DEAD
            self._masks.keep(key, found)
        return found


def spellings(tokenizer: TextCodec, size: int) -> tuple[list[bytes], list[bytes]]:
    """Return the bytes of each token at the begin of a text, and of each behind others.

    >>> from gradwright.models import CharTokenizer
    >>> spellings(CharTokenizer("ab"), 3)
    ([b'a', b'b', b''], [b'a', b'b', b''])
    """
    alone = _decoded(tokenizer, [[i] for i in range(size)])
    begins = [i for i, text in enumerate(alone) if text.isascii() and text.isalnum()]
    if begins:  # behind a letter
        joined = _decoded(tokenizer, [[begins[0], i] for i in range(size)])
        behind = [text[len(alone[begins[0]]) :] for text in joined]
    else:
        behind = alone
    raw = {i: _raw(tokenizer, i) for i in range(size) if TORN in alone[i] or TORN in behind[i]}
    return (
        [raw[i] if i in raw else text.encode() for i, text in enumerate(alone)],
        [raw[i] if i in raw else text.encode() for i, text in enumerate(behind)],
    )


def _decoded(tokenizer: TextCodec, rows: list[list[int]]) -> list[str]:
    """Return the texts of rows; a row with a token that there is not has none."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer.decode_batch(rows)
    found = []
    for row in rows:
        try:
            found.append(tokenizer.decode(row))
        except (ValueError, LookupError):
            found.append("")
    return found


def _raw(tokenizer: TextCodec, token: int) -> bytes:
    """Return the bytes of a token that is no whole character: spelled ``<0x0A>``, or byte-level."""
    if not isinstance(tokenizer, Tokenizer):
        return b""
    text = tokenizer.inner.id_to_token(token) or ""
    if told := _BYTE.fullmatch(text):
        return bytes([int(told[1], 16)])
    codes = [BYTE_LEVEL.get(c, -1) for c in text]
    return bytes(codes) if min(codes, default=-1) >= 0 else b""


def _byte_level() -> dict[str, int]:
    """Return the byte that each character of a byte-level vocabulary stands for (Radford 2019)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return {chr(b): b for b in shown} | {chr(256 + n): b for n, b in enumerate(hidden)}


BYTE_LEVEL = _byte_level()
