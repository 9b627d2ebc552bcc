"""Asking one reward within a limit of time, and finding the rows at fault."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...debug.stopping import stop
from ...errors import FeedError
from .calling import awaited, numbers, taken
from .reward import Reward, RowsError
from .rule import Rule

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
    given = {key: columns[key] for key in taken(reward, name, columns)}
    try:
        return numbers(_within(seconds, reward, given), name, rows)
    except FeedError:  # what it says of rows is known
        raise
    except Exception as error:
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


def _within(seconds: float | None, call: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    """Return ``call(**given)``; raises _TooLongError after ``seconds``, and stops the thread."""
    if seconds is None:
        return awaited(call(**given))
    ends: list[Any] = []

    def run() -> None:
        try:
            ends.append((awaited(call(**given)), None))
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
