"""Rooms: memory that calls of one plan have for themselves, one after the other.

Steps of a plan run one by one, so that what a convolution needs while it runs is free for the next:
it is in the cache, and a deep network takes no more of it than a flat one. Pieces of one call run
at the same time, and have rooms of other numbers. What is made of a constant is the same for all
plans, and is kept as long as one of them names it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np

Array = np.ndarray[Any, Any]
T = TypeVar("T")


@dataclass
class _Rooms:
    constants: frozenset[int]
    """Which arrays are, by identity."""
    made: dict[Hashable, Any] = field(default_factory=dict)


@dataclass
class Kept:
    """An array that was made of a constant, which lives as long."""

    constant: Array
    array: Array


_rooms: ContextVar[_Rooms | None] = ContextVar("_rooms", default=None)
_kept: WeakValueDictionary[Hashable, Kept] = WeakValueDictionary()


@contextlib.contextmanager
def sharing(constants: Iterable[Array] = ()) -> Iterator[None]:
    """Have the calls that are bound here share their rooms, and know which arrays never change.

    >>> with sharing():
    ...     shared("place", list) is shared("place", list)
    True
    >>> shared("place", list) is shared("place", list)
    False
    """
    token = _rooms.set(_Rooms(frozenset(map(id, constants))))
    try:
        yield
    finally:
        _rooms.reset(token)


def shared(key: Hashable, make: Callable[[], T]) -> T:
    """Return what was made for a key by a call before, or make it."""
    rooms = _rooms.get()
    if rooms is None:
        return make()
    if key not in rooms.made:
        rooms.made[key] = make()
    found: T = rooms.made[key]
    return found


def is_constant(array: Array) -> bool:
    """Tell whether an array is one of those that never change."""
    rooms = _rooms.get()
    return rooms is not None and id(array) in rooms.constants


def kept(constant: Array, key: Hashable, make: Callable[[], Array]) -> Kept:
    """Return what was made of a constant for a key by any plan that still is, or make it."""
    found = _kept.get((id(constant), key))
    if found is None:
        found = _kept[id(constant), key] = Kept(constant, make())
    return found
