"""Calling a reward: the columns that it takes, and what it gave, checked."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import FeedError
from .reward import Reward, RowsError

Array = np.ndarray[Any, Any]


def called(reward: Reward, name: str, columns: Mapping[str, Sequence[Any]]) -> Array:
    """Return what a reward says of each row, f64[rows], given the columns that it takes.

    Raises FeedError for what ``taken`` and ``numbers`` refuse.

    >>> from gradwright.align.rewards.calling import called
    >>> def long(completions): return map(len, completions)
    >>> called(long, "long", {"completions": ["a", "bc"], "answer": [1, 2]}).tolist()
    [1.0, 2.0]
    """
    given = {key: columns[key] for key in taken(reward, name, columns)}
    return numbers(awaited(reward(**given)), name, len(columns["completions"]))


def awaited(said: Any) -> Any:
    """Return what a function gave, or, where it is an ``async`` one, what comes of it.

    >>> from gradwright.align.rewards.calling import awaited
    >>> async def ask(): return [1.0]
    >>> awaited(ask()), awaited([2.0])
    ([1.0], [2.0])
    """
    return asyncio.run(said) if inspect.iscoroutine(said) else said


def taken(reward: Reward, name: str, columns: Mapping[str, Any]) -> list[str]:
    """Return which columns a function takes; raises FeedError where it asks for one that is none.

    >>> from gradwright.align.rewards.calling import taken
    >>> taken(lambda completions, answer: [], "f", {"completions": [], "answer": [], "id": []})
    ['completions', 'answer']
    """
    asked = inspect.signature(reward).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in asked):
        return list(columns)
    named = [p for p in asked if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    missing = [p.name for p in named if p.default is p.empty and p.name not in columns]
    if missing:
        raise FeedError(
            f"the reward {name!r} asks for {missing[0]!r}, which is not there",
            facts=["there are: " + ", ".join(sorted(columns))],
            need="arguments that are columns",
        )
    return [p.name for p in named if p.name in columns]


def numbers(said: Any, name: str, rows: int) -> Array:
    """Return what a reward gave as f64[rows], None as NaN; raises FeedError for anything else.

    Infinite numbers are a RowsError.

    >>> from gradwright.align.rewards.calling import numbers
    >>> numbers([True, None], "f", 2).tolist()
    [1.0, nan]
    """
    problem = f"the reward {name!r}"
    try:
        held = [_number(value) for value in said]
    except (TypeError, ValueError) as error:
        raise FeedError(
            f"{problem} gave {type(said).__name__} {str(said)[:80]!r}: {error}",
            need=f"a number for each of {rows} rows, or None",
        ) from error
    if len(held) != rows:
        raise FeedError(
            f"{problem} gave {len(held)} numbers for {rows} completions",
            facts=[f"it gave {str(held[:8])[:120]}"],
            need="a number for each, or None where there is nothing to say",
        )
    found = np.array(held, np.float64)
    infinite = {int(row): f"gave {found[row]}" for row in np.flatnonzero(np.isinf(found))}
    if infinite:
        raise RowsError(name, np.where(np.isinf(found), np.nan, found).tolist(), infinite)
    return found


def _number(value: Any) -> float:
    if isinstance(value, str):
        raise TypeError(f"{value[:40]!r} is no number")
    return np.nan if value is None else float(value)
