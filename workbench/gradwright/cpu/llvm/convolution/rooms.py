"""Rooms: memory that calls of one plan have for themselves, one after the other.

Steps of a plan run one by one, so that what a convolution needs while it runs is free for the next:
it is in the cache, and a deep network takes no more of it than a flat one. Pieces of one call run
at the same time, and have rooms of other numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
_rooms: ContextVar[dict[Hashable, Any] | None] = ContextVar("_rooms", default=None)


@contextlib.contextmanager
def sharing() -> Iterator[None]:
    """Have the calls that are bound here share their rooms.

    >>> with sharing():
    ...     shared("place", list) is shared("place", list)
    True
    >>> shared("place", list) is shared("place", list)
    False
    """
    token = _rooms.set({})
    try:
        yield
    finally:
        _rooms.reset(token)


def shared(key: Hashable, make: Callable[[], T]) -> T:
    """Return what was made for a key by a call before, or make it."""
    rooms = _rooms.get()
    if rooms is None:
        return make()
    if key not in rooms:
        rooms[key] = make()
    found: T = rooms[key]
    return found
