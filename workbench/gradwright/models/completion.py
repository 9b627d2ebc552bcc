"""Completions: what is generated after a prompt, the text of it, and the rules by which it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import FeedError, GraphError
from .tokenizers import TextCodec, TextStream


@dataclass
class Completion:
    """A prompt and what was generated after it; given as a prompt, it goes on where it ended.

    One that ended by ``"eos"`` or ``"stop"`` is over, and stays as it is.

    ``reason`` says why it ended: ``"eos"``, ``"stop"`` (a text or token), ``"grammar"`` (nothing
    may follow), ``"length"``, ``"time"``, ``"until"``, ``"stopped"`` by ``Generation.stop``; None
    while it goes on. ``text`` leaves out the stop and what follows, ``tokens`` are all. Without a
    tokenizer ``text`` is empty. ``log_probs`` and ``entropy`` are of the softmax that a token was
    drawn from, before strategies left anything out; empty where nobody asked for them.

    >>> from gradwright.models import Decoder, DecoderConfig
    >>> generation = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2)).generation()
    >>> (row,) = generation.generate([[1, 2]], 3)
    >>> (more,) = generation.generate(row, 2)
    >>> more.tokens[:3] == row.tokens, len(more.tokens), more.reason
    (True, 5, 'length')
    """

    prompt: list[int]
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    reason: str | None = None
    seed: int = 0
    log_probs: list[float] = field(default_factory=list)
    entropy: list[float] = field(default_factory=list)


Prompts = str | Completion | Sequence[str | Sequence[int] | Completion]
"""One text or completion, or several, or lists of tokens."""
Stops = str | int | Sequence[str | int]
"""Texts and tokens that end a row."""


def tokens_of(eos: int | Sequence[int]) -> list[int]:
    """Return the tokens that end a row, of which there may be one.

    >>> tokens_of(2), tokens_of([2, 7])
    ([2], [2, 7])
    """
    return [eos] if isinstance(eos, int) else list(eos)


@dataclass(frozen=True)
class Piece:
    """What one step brought to one row: a token, and the text that is certain by now.

    >>> from gradwright.models import Decoder, DecoderConfig
    >>> generation = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2)).generation()
    >>> [(piece.row, piece.reason) for piece in generation.stream([[1], [2]], 2)]
    [(0, None), (1, None), (0, 'length'), (1, 'length')]
    """

    row: int
    token: int
    text: str
    reason: str | None
    """Why the row ends here; None if it goes on."""


@dataclass(frozen=True)
class Ends:
    """The rules by which a row ends."""

    eos: frozenset[int]
    tokens: frozenset[int]
    stops: Sequence[str]
    limit: int
    seconds: float | None
    until: Callable[[Completion], bool] | None

    def deadline(self) -> float:
        """Return when time is up."""
        return float("inf") if self.seconds is None else time.monotonic() + self.seconds

    def reason(
        self, row: Completion, n: int, found: bool, over: bool, late: bool, stopped: bool
    ) -> str | None:
        """Return why a row ends after its n-th token; None if it goes on."""
        told = self.until is not None and self.until(row)
        for name, holds in (
            ("eos", row.tokens[-1] in self.eos),
            ("stop", found or row.tokens[-1] in self.tokens),
            ("grammar", over),
            ("until", told),
            ("length", n >= self.limit),
            ("stopped", stopped),
            ("time", late),
        ):
            if holds:
                return name
        return None


class Text:
    """The text of a row as it grows: whole characters, and nothing of a stop string."""

    def __init__(self, codec: TextCodec | None, row: Completion, ends: Ends) -> None:
        self._row, self._ends, self._held = row, ends, ""
        self._stream = None if codec is None else TextStream(codec)
        for token in row.tokens if row.reason is None else ():  # of one that goes on
            self.push(token)

    def push(self, token: int) -> tuple[str, bool]:
        """Return the text that is certain now, and whether a stop string ends it."""
        if self._stream is None or token in self._ends.eos | self._ends.tokens:
            return "", False
        text = self._held + self._stream.push(token)
        found = [at for at in map(text.find, self._ends.stops) if at >= 0]
        sure = min(found) if found else len(text) - self._begun(text)
        self._held = text[sure:]
        self._row.text += text[:sure]
        return text[:sure], bool(found)

    def finish(self) -> str:
        """Return what was held back."""
        text = self._held + ("" if self._stream is None else self._stream.finish())
        self._row.text += text
        self._held = ""
        return text

    def _begun(self, text: str) -> int:
        """Return how many of the last characters may be the beginning of a stop string."""
        most = max(map(len, self._ends.stops), default=1) - 1
        for n in range(min(most, len(text)), 0, -1):
            if any(stop.startswith(text[-n:]) for stop in self._ends.stops):
                return n
        return 0


def begun(
    prompts: Any,
    seed: int | Sequence[int],
    codec: TextCodec | None,
    vocabulary: int,
    group: int = 1,
) -> list[Completion]:
    """Return the rows that prompts begin, a group each, with seeds; refuse what is none.

    >>> [(row.prompt, row.seed) for row in begun([[1, 2], [3]], 7, None, 4)]
    [([1, 2], 7), ([3], 8)]
    """
    listed: list[Any] = [prompts] if isinstance(prompts, str | Completion) else list(prompts)
    if not listed:
        raise FeedError("there is no prompt", need="one or more")
    n = len(listed) * group
    seeds = [seed + i for i in range(n)] if isinstance(seed, int) else list(seed)
    if len(seeds) != n or not all(isinstance(s, int) for s in seeds):
        of = f"{len(listed)} prompts" + (f" of {group} rows" if group > 1 else "")
        raise GraphError(f"{seeds} are no seeds of {of}", need="one int each")
    rows: list[Completion] = []
    for i, (prompt, own) in enumerate(zip(listed, seeds[::group], strict=True)):
        if isinstance(prompt, Completion):
            if group > 1:
                raise GraphError(
                    f"prompt {i} is a completion, which is one row",
                    need="texts or tokens where each prompt begins several",
                    hint="prompt=completion.prompt + completion.tokens",
                )
            row = Completion(list(prompt.prompt), list(prompt.tokens), seed=prompt.seed)
            if prompt.reason in ("eos", "stop"):
                row.text, row.reason = prompt.text, prompt.reason
        elif isinstance(prompt, str):
            if codec is None:
                raise FeedError(
                    f"prompt {i} is text, and there is no tokenizer",
                    hint="Generation(tokenizer=...), or a list of tokens",
                )
            row = Completion(codec.encode(prompt), seed=own)
        else:
            row = Completion(_numbers(prompt, i), seed=own)
        if not row.prompt:
            raise FeedError(
                f"prompt {i} is empty", need="a token", hint="begin with one that begins texts"
            )
        for t in row.prompt + row.tokens:
            if not 0 <= t < vocabulary:
                raise FeedError(
                    f"token {t} of prompt {i} is not in the vocabulary",
                    need=f"0 to {vocabulary - 1}",
                )
        rows += [
            row,
            *(Completion(list(row.prompt), seed=s) for s in seeds[i * group + 1 : (i + 1) * group]),
        ]
    return rows


def _numbers(prompt: Any, i: int) -> list[int]:
    """Return a prompt that is a row of integers as a list."""
    try:
        array = np.asarray(prompt)
    except ValueError:  # rows of different lengths
        array = np.empty((0, 0))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise FeedError(
            f"prompt {i} is {prompt!r}", need="a text, or a list of tokens", hint="[[1, 2]]"
        )
    return [int(t) for t in array]
