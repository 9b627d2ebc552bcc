"""Checks of the exercises: each says that an answer is right, or what is wrong with it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

BLANK = "Fill in the blank, ..., and run this cell again."


class BlankError(Exception):
    """What was to be filled in is still ``...``."""


def exercise(check: Callable[..., str | None]) -> Callable[..., None]:
    """Make a check of a function that returns what is wrong with answers, or None.

    The check prints its finding.
    """

    @functools.wraps(check)
    def told(*answers: Any) -> None:
        try:
            wrong = check(*map(filled, answers))
        except Exception as error:  # whatever goes wrong in an answer is a finding
            if is_blank(error):
                print(BLANK)
                return
            wrong = f"{type(error).__name__}: {error}"
        print(f"Not yet. {wrong}" if wrong else "Right.")

    return told


def is_blank(error: BaseException | None) -> bool:
    """Tell whether an error is, or comes from, a blank."""
    while error is not None and not isinstance(error, BlankError):
        error = error.__cause__ or error.__context__
    return error is not None


def filled(answer: Any) -> Any:
    """Return an answer that is not blank; a function is asked again when it is called."""
    if answer is ...:
        raise BlankError
    if not callable(answer) or isinstance(answer, type):
        return answer

    @functools.wraps(answer)
    def asked(*given: Any, **options: Any) -> Any:
        return filled(answer(*given, **options))

    return asked
