"""A reward of numbers: the one number that a completion gives, near the right one."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import FeedError, GraphError
from ...words.jsonable import jsonable
from .rule import Rule, Texts, column_of, name_of

NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))", re.ASCII)
"""Commas between thousands, to be left out; both patterns read a text in one go."""


@jsonable
@dataclass(frozen=True)
class NumberNear(Rule):
    """1 where the one number of a completion is near the right one, else 0.

    |x − y| <= max(tolerance, relative·|y|)

    Who gives two numbers gives none, so that who says every number is never right. Where ``after``
    is given, such as "####", only what stands behind it counts, and it has to stand there once.
    Numbers are decimal, with commas between thousands or none, and an exponent. With ``ended`` a
    completion that was cut is wrong, for more digits may have followed. Rows without an answer,
    None or NaN, have nothing to say. Raises FeedError for an answer that is no number.

    >>> import gradwright as gw
    >>> near = gw.align.NumberNear(tolerance=0.5)
    >>> near([""] * 4, ["It is 41.8.", "41 42", "1,042", "none"], answer=[42, 42, "1042", 42])
    [1.0, 0.0, 1.0, 0.0]
    """

    column: str = "answer"
    tolerance: float = 0.0
    relative: float = 0.0
    after: str = ""
    ended: bool = True

    def __post_init__(self) -> None:
        if not (0 <= self.tolerance < math.inf and 0 <= self.relative < math.inf):
            raise GraphError(f"{self} makes no sense", need="0 <= tolerance and 0 <= relative")

    def __call__(self, prompts: Texts, completions: Texts, **columns: Sequence[Any]) -> Any:
        answers = column_of(columns, self.column, len(completions), self)
        ends = columns.get("ended") if self.ended else None
        found = []
        for row, (text, held) in enumerate(zip(completions, answers, strict=True)):
            right = self._answer(held, row)
            if math.isnan(right):
                found.append(math.nan)
                continue
            said = self._said(text) if ends is None or ends[row] else math.nan
            near = abs(said - right) <= max(self.tolerance, self.relative * abs(right))
            found.append(float(near))
        return found

    def _said(self, text: str) -> float:
        """Return the one number of a text; NaN where there is none, or more."""
        if self.after:
            _, *behind = text.split(self.after)
            if len(behind) != 1:
                return math.nan
            text = behind[0]
        numbers = NUMBER.findall(THOUSANDS.sub("", text))
        return float(numbers[0]) if len(numbers) == 1 else math.nan

    def _answer(self, held: Any, row: int) -> float:
        if held is None:
            return math.nan
        try:
            right = float(THOUSANDS.sub("", held) if isinstance(held, str) else held)
        except (TypeError, ValueError):
            right = math.inf
        if math.isinf(right):
            raise FeedError(
                f"{name_of(self)!r} reads {self.column!r} of row {row}: {str(held)[:80]!r}",
                need="a finite number, or None",
            )
        return right
