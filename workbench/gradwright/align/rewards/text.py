"""Rewards of text: the right answer, a pattern, a format."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import GraphError
from ...ops.texts.regex import Pattern as Automaton
from ...words.jsonable import jsonable
from .rule import Rule, Texts, column_of


@jsonable
@dataclass(frozen=True)
class ExactMatch(Rule):
    """1 where a completion is the answer and nothing else, and came to its end; else 0.

    No answer is looked for inside a longer text, so that who says everything is never right. With
    ``strip`` white space around both does not count, with ``ignore_case`` nor do capitals. A
    column may hold several answers for a row, as a list, or None, where there is nothing to say.
    With ``ended`` a completion that was cut is wrong; called without the column ``ended``, all
    have ended.

    >>> import gradwright as gw
    >>> gw.align.ExactMatch()([""] * 3, ["82", "1 2 82", "8"], answer=["82", "82", 8])
    [1.0, 0.0, 1.0]
    """

    column: str = "answer"
    strip: bool = True
    ignore_case: bool = False
    ended: bool = True

    def __call__(self, prompts: Texts, completions: Texts, **columns: Sequence[Any]) -> Any:
        answers = column_of(columns, self.column, len(completions), self)
        ends = columns.get("ended") if self.ended else None
        found = []
        for row, (text, held) in enumerate(zip(completions, answers, strict=True)):
            right = held if isinstance(held, list | tuple | set) else [held]
            if held is None:
                found.append(float("nan"))
                continue
            same = self._plain(text) in {self._plain(str(answer)) for answer in right}
            found.append(float(same and (ends is None or bool(ends[row]))))
        return found

    def _plain(self, text: str) -> str:
        text = text.strip() if self.strip else text
        return text.casefold() if self.ignore_case else text


@jsonable
@dataclass(frozen=True)
class Pattern(Rule):
    r"""1 where a completion fits a regular expression as a whole, else 0.

    The syntax is RE2's, matched in time linear in the text: no pattern can make it hang, and there
    are no back references and no looking around. With ``whole=False`` the pattern may fit
    anywhere. Raises GraphError for what is no pattern.

    >>> import gradwright as gw
    >>> gw.align.Pattern(r"(\d+)+ apples?")(["", ""], ["12 apples", "12 apples!"])
    [1.0, 0.0]
    """

    pattern: str
    whole: bool = True

    def __post_init__(self) -> None:
        _compiled(self.pattern)

    def __call__(self, prompts: Texts, completions: Texts, **columns: Sequence[Any]) -> Any:
        fits = _compiled(self.pattern)
        return [
            float(fits.matches(text) if self.whole else fits.find(text) is not None)
            for text in completions
        ]


@jsonable
@dataclass(frozen=True)
class Format(Rule):
    """1 where a completion begins with a part between marks, with anything behind it; else 0.

    The opening mark stands at the very begin and nowhere else, the closing one somewhere behind:
    as TRL's ``think_format_reward`` has it.

    >>> import gradwright as gw
    >>> gw.align.Format()(["", ""], ["<think>7*6</think>42", "7*6</think>42"])
    [1.0, 0.0]
    """

    opening: str = "<think>"
    closing: str = "</think>"

    def __post_init__(self) -> None:
        if not self.opening or not self.closing:
            raise GraphError(f"{self} has an empty mark", need="an opening and a closing mark")

    def __call__(self, prompts: Texts, completions: Texts, **columns: Sequence[Any]) -> Any:
        return [float(self._fits(text)) for text in completions]

    def _fits(self, text: str) -> bool:
        rest = text.removeprefix(self.opening)
        return rest != text and self.closing in rest and self.opening not in rest


@functools.lru_cache(maxsize=64)
def _compiled(pattern: str) -> Automaton:
    return Automaton(pattern)
