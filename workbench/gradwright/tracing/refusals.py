"""What traced code may not do, said with the user's line and what to try."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import TraceError, describe_site, user_site

BRANCH = "gw.where(...) or np.where(...) for values, gw.cond(...) for branches"
"""What takes the place of ``if`` on a value."""


def refusal(
    problem: str, *, need: str = "", hint: str = "", facts: Iterable[str] = ()
) -> TraceError:
    """Return an error of traced code that names the user's line."""
    where = describe_site(user_site())
    return TraceError(problem, where=where, need=need, hint=hint, facts=facts)


def unread(how: str, name: str, hint: str = "") -> TraceError:
    """Return the error of code that reads a value which is computed only when the graph runs."""
    return refusal(
        f"{how} reads {name}, which has no value while it is traced",
        hint=hint
        or 'return the array and read it there, or @gw.compile(fallback="eager") for plain numpy',
    )
