"""What can be wrong with a JSON value: each field in type, range and depth, or gone, or doubled."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

DEEP: Any = 0
for _ in range(150):
    DEEP = [{"deep": DEEP}]
WRONG: list[Any] = [
    *(None, True, 0, -1, 3, 2**31, 2**70, -(2**70), 0.5, 1e308, -1e-320),
    *("", "x", "é\n\u2028", "9" * 5000, "<b>", "../..", "nan"),
    *([], [None], {}, {"$class": "Adam"}, {"$number": "inf"}, {"$class": []}, {"": {}}, DEEP),
]
"""What stands in a field's place."""
GONE = object()
"""The field is not there."""
MORE = object()
"""There is another field beside it."""


def fields(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of everything in a JSON value, the value itself first."""
    yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from fields(inner, (*at, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from fields(inner, (*at, i))


def changed(value: Any, at: tuple[Any, ...], wrong: Any) -> Any:
    """Return a JSON value with another one at a path, or without it, or with one more."""
    if not at:
        return wrong
    found = copy.deepcopy(value)
    holder = found
    for step in at[:-1]:
        holder = holder[step]
    if wrong is GONE:
        del holder[at[-1]]
    elif wrong is not MORE:
        holder[at[-1]] = wrong
    elif isinstance(holder, dict):
        holder["more"] = 1
    else:
        holder.append(holder[at[-1]])
    return found


Case = tuple[str, Callable[[], Any]]
"""A name, and what makes the forgery: most are not asked for."""


def forgeries(value: Any, made: Callable[[Any], Any] = lambda wrong: wrong) -> Iterator[Case]:
    """Yield a name, and what makes the forgery, for all that can be wrong with a JSON value."""
    for at in fields(value):
        for wrong in (*WRONG, GONE, MORE):
            if not at and wrong in (GONE, MORE):
                continue
            what = "gone" if wrong is GONE else "more" if wrong is MORE else repr(wrong)[:40]
            name = f"{'.'.join(map(str, at)) or '(all)'} = {what}"
            yield name, lambda at=at, wrong=wrong: made(changed(value, at, wrong))  # type: ignore[misc]


def written(value: Any) -> bytes:
    """Return JSON as it is stored."""
    return json.dumps(value).encode()
