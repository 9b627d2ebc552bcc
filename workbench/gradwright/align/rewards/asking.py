"""Asking one reward: the columns it takes, how long it may take, and what it gave, checked."""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...debug.stopping import stop
from ...errors import FeedError
from .reward import Reward, RowsError
from .rule import Rule, name_of

Array = np.ndarray[Any, Any]
LEAST = 0.05
"""Seconds that a row alone has at least."""


class _TooLongError(Exception):
    """A function did not come to its end in time."""


def ask(
    reward: Reward, name: str, columns: Mapping[str, Sequence[Any]], seconds: float | None
) -> Array:
    """Return what a reward says of each row, f64[rows]; NaN where it has nothing to say.

    A function has ``seconds`` for all rows together, in a thread of its own. If it fails or takes
    longer, it is asked again, row by row, each with its share of the time: so the rows at fault are
    found, and what was right of the others is kept. Raises RowsError with these; FeedError where a
    reward gives something else than a number for each row.

    >>> from gradwright.align.rewards.asking import ask
    >>> ask(lambda completions: [len(text) for text in completions], "f",
    ...     {"completions": ["a", "bc"]}, 1.0).tolist()
    [1.0, 2.0]
    """
    rows = len(columns["completions"])
    if isinstance(reward, Rule) and reward.limited:
        seconds = None
    given = {key: columns[key] for key in taken(reward, columns)}
    try:
        return numbers(_within(seconds, reward, given), name, rows)
    except (_TooLongError, Exception) as error:
        if isinstance(error, FeedError):
            raise
        whole = error
    share = None if seconds is None else max(seconds / rows, LEAST)
    values, failed = np.full(rows, np.nan), {}
    for row in range(rows):
        alone = {key: [column[row]] for key, column in given.items()}
        try:
            values[row] = numbers(_within(share, reward, alone), name, 1)[0]
        except _TooLongError:
            failed[row] = f"took more than {share:.3g} s"
        except FeedError as error:
            failed[row] = error.problem
        except Exception as error:
            failed[row] = f"{type(error).__name__}: {error}"
    if failed:
        raise RowsError(name, values.tolist(), failed) from whole
    return values


def taken(reward: Reward, columns: Mapping[str, Any]) -> list[str]:
    """Return which columns a function takes; raises FeedError where it asks for one that is none.

    >>> from gradwright.align.rewards.asking import taken
    >>> taken(lambda completions, answer: [], {"prompts": [], "completions": [], "answer": []})
    ['completions', 'answer']
    """
    asked = inspect.signature(reward).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in asked):
        return list(columns)
    named = [p for p in asked if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    missing = [p.name for p in named if p.default is p.empty and p.name not in columns]
    if missing:
        raise FeedError(
            f"the reward {name_of(reward)!r} asks for {missing[0]!r}, which is not there",
            facts=["there are: " + ", ".join(sorted(columns))],
            need="arguments that are columns",
        )
    return [p.name for p in named if p.name in columns]


def numbers(said: Any, name: str, rows: int) -> Array:
    """Return what a reward gave as f64[rows], None as NaN; raises FeedError for anything else.

    >>> from gradwright.align.rewards.asking import numbers
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
    infinite = np.flatnonzero(np.isinf(found)).tolist()
    if infinite:
        raise FeedError(
            f"{problem} gave {found[infinite[0]]} for row {infinite[0]}",
            facts=[f"rows: {infinite[:20]}"] if len(infinite) > 1 else [],
            need="finite numbers, or None",
        )
    return found


def _number(value: Any) -> float:
    if isinstance(value, str):
        raise TypeError(f"{value[:40]!r} is no number")
    return np.nan if value is None else float(value)


def _within(seconds: float | None, call: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Return ``call(**given)``; raises _TooLongError after ``seconds``, and stops the thread."""
    if seconds is None:
        return call(**given)
    ends: list[Any] = []

    def run() -> None:
        try:
            ends.append((call(**given), None))
        except BaseException as error:  # raised again by who waits
            ends.append((None, error))

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(run,), name="reward", daemon=True)
    thread.start()
    try:
        thread.join(seconds)
    finally:  # an interrupt of who waits ends it, too
        hangs = thread.is_alive()
        if hangs:
            stop(thread)
    if hangs:
        raise _TooLongError
    value, error = ends[0]
    if error is not None:
        raise error
    return value
