"""Rewards of how long completions are and how often they repeat themselves, in tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import GraphError
from ...words.jsonable import jsonable
from .rule import Rule, Texts, column_of

UNITS = ("tokens", "characters", "words")


@jsonable
@dataclass(frozen=True)
class Length(Rule):
    """How near the length n of a completion is to a target: max(0, 1 − |n − target|/width).

    ``width`` is the target unless given; ``unit`` is "tokens", "characters" or "words".

    >>> import gradwright as gw
    >>> gw.align.Length(target=4, unit="words")(["", ""], ["one two three four", "one"])
    [1.0, 0.25]
    """

    target: int
    width: int | None = None
    unit: str = "tokens"

    def __post_init__(self) -> None:
        if self.target < 1 or (self.width is not None and self.width < 1):
            raise GraphError(f"{self} makes no sense", need="target >= 1 and width >= 1")
        if self.unit not in UNITS:
            raise GraphError(f"unit={self.unit!r} is not known", need="one of " + ", ".join(UNITS))

    def __call__(self, prompts: Texts, completions: Texts, **columns: Sequence[Any]) -> Any:
        held: Sequence[Any] = completions
        if self.unit == "tokens":
            held = column_of(columns, "completion_ids", len(completions), self)
        elif self.unit == "words":
            held = [text.split() for text in completions]
        width = self.width or self.target
        return [max(0.0, 1 - abs(len(each) - self.target) / width) for each in held]


@jsonable
@dataclass(frozen=True)
class Overlong(Rule):
    """Punishes completions that come near the longest there may be (Yu et al. 2025, DAPO, eq. 13).

    0 where n <= L − c;  (L − c − n)/c where L − c < n <= L;  −1 where n > L

    n is the number of tokens, L is ``max_completion_len``, c is ``soft_punish_cache``.

    >>> import gradwright as gw
    >>> rule = gw.align.Overlong(max_completion_len=100, soft_punish_cache=20)
    >>> rule([""] * 3, [""] * 3, completion_ids=[[1] * 80, [1] * 90, [1] * 101])
    [0.0, -0.5, -1.0]
    """

    max_completion_len: int
    soft_punish_cache: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.soft_punish_cache <= self.max_completion_len:
            raise GraphError(
                f"{self} makes no sense", need="0 <= soft_punish_cache <= max_completion_len"
            )

    def __call__(self, prompts: Texts, completions: Texts, **columns: Sequence[Any]) -> Any:
        held = column_of(columns, "completion_ids", len(completions), self)
        return [self._of(len(tokens)) for tokens in held]

    def _of(self, n: int) -> float:
        over = n - (self.max_completion_len - self.soft_punish_cache)
        if over <= 0:
            return 0.0
        return -1.0 if n > self.max_completion_len else -over / self.soft_punish_cache


@jsonable
@dataclass(frozen=True)
class Repetition(Rule):
    """Punishes n-grams of tokens that come again (Yeo et al. 2025, appendix C.2).

    max_penalty·(1 − different n-grams/n-grams); 0 where a completion is shorter than one

    >>> import gradwright as gw
    >>> gw.align.Repetition(ngram_size=2)(["", ""], ["", ""], completion_ids=[[1, 2, 3], [5] * 5])
    [0.0, -0.75]
    """

    ngram_size: int = 3
    max_penalty: float = -1.0

    def __post_init__(self) -> None:
        if self.ngram_size < 1 or not -float("inf") < self.max_penalty <= 0:
            raise GraphError(f"{self} makes no sense", need="ngram_size >= 1, max_penalty <= 0")

    def __call__(self, prompts: Texts, completions: Texts, **columns: Sequence[Any]) -> Any:
        held = column_of(columns, "completion_ids", len(completions), self)
        return [self._of([int(token) for token in tokens]) for tokens in held]

    def _of(self, tokens: Sequence[int]) -> float:
        n = len(tokens) - self.ngram_size + 1
        different = {tuple(tokens[i : i + self.ngram_size]) for i in range(n)}
        return 0.0 if len(different) >= n else self.max_penalty * (1 - len(different) / n)
