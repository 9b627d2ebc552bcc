"""What threads share: a lock that outlives a fork, waiting, and a bounded cache for several."""

from __future__ import annotations

import collections
import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

ValueT = TypeVar("ValueT")
Buffers = Mapping[int, int]
"""Bytes of each buffer, by what identifies it: several values may hold the same one."""


def module_lock() -> threading.RLock:
    """Return a lock for what a module keeps; a forked child has it free.

    The thread that held it at that moment is not in the child, and would never give it back. What
    it guards must be whole between any two steps.
    """
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]
    return lock


first_use = module_lock()
"""Held while a part of this package is imported because its name was first asked for.

Of two threads that import a package and a module inside it, each may hold what the other needs;
Python then gives one of them a module that is half there. No module asks for another by its public
name while it is imported, so whoever holds this waits for nobody who wants it.
"""


LOOK = 0.2
"""Seconds between two looks of a thread that waits."""


def wait_for(condition: threading.Condition, question: Callable[[], Any]) -> None:
    """Wait, holding the condition, until the answer is true; signals come through meanwhile.

    One that arrives just before the main thread sleeps, or that another thread takes, does not
    wake it, and its handler would not run: so it looks up by itself, too.

    >>> changed = threading.Condition()
    >>> with changed:
    ...     wait_for(changed, lambda: True)
    """
    while not question():
        condition.wait(LOOK)


@functools.cache
def machine_bytes() -> int:
    """Return how many bytes of memory the machine has; where nobody tells, 8 GiB.

    >>> machine_bytes() > 0
    True
    """
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # where there is no sysconf
        return 1 << 33


def default_bytes() -> int:
    """Return how many bytes the plans of a session may hold by default: a quarter of the memory.

    >>> default_bytes() > 0
    True
    """
    return machine_bytes() // 4


_lock = module_lock()
"""Of all caches: it is held for a microsecond, and a cache per plan needs none of its own."""


COUNTED = 32
"""Values of a cache up to which its bytes are counted whenever one comes; of more, now and then."""


class Bounded(Generic[ValueT]):
    """A cache that forgets what was least recently used, by count and by bytes; for any thread.

    Args:
        most: how many values are kept.
        most_bytes: how many bytes their buffers may have together; the latest stays whatever it
            takes. None: any.
        buffers_of: the buffers of a value.
        let_go: is told each value that had to go.

    >>> cache = Bounded[str](2)
    >>> for word in ("a", "b", "c"):
    ...     cache.keep(word, word.upper())
    >>> cache.find("a"), cache.find("b"), list(cache), cache.latest
    (None, 'B', ['c', 'b'], 'B')
    """

    def __init__(
        self,
        most: int,
        most_bytes: int | None = None,
        buffers_of: Callable[[ValueT], Buffers] = lambda value: {},
        let_go: Callable[[ValueT], None] = lambda value: None,
    ) -> None:
        self.most, self.most_bytes, self._buffers_of = most, most_bytes, buffers_of
        self._let_go = let_go
        self._held: collections.OrderedDict[Any, ValueT] = collections.OrderedDict()
        self._uncounted = 0
        """How many values came since bytes were counted."""

    def find(self, key: Any) -> ValueT | None:
        """Return a value, which is then the latest used, or None."""
        with _lock:
            value = self._held.get(key)
            if value is not None:
                self._held.move_to_end(key)
            return value

    def keep(self, key: Any, value: ValueT) -> None:
        """Add a value as the latest used, and let others go until all bounds hold."""
        with _lock:
            held = self._held
            old, gone = held.get(key), []  # end with the call: what ends with a value may take long
            held[key] = value
            held.move_to_end(key)
            while len(held) > self.most:
                gone.append(held.popitem(last=False)[1])
            self._uncounted += 1
            if self.most_bytes is not None and self._uncounted * COUNTED > len(held):
                self._uncounted = 0  # counting takes 5 us a plan
                while len(held) > 1 and self.nbytes > self.most_bytes:
                    gone.append(held.popitem(last=False)[1])
        for other in gone:
            self._let_go(other)
        del old

    def values(self) -> list[ValueT]:
        """Return the values as they are now, the latest used last."""
        with _lock:
            return list(self._held.values())

    @property
    def latest(self) -> ValueT | None:
        """The value used last; None if there is none."""
        with _lock:
            return next(reversed(self._held.values()), None)

    def clear(self) -> None:
        """Let all values go."""
        with _lock:
            gone, self._held = self._held, collections.OrderedDict()
        gone.clear()

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers, each counted once."""
        together: dict[int, int] = {}
        for value in self.values():
            together.update(self._buffers_of(value))
        return sum(together.values())

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Any]:
        with _lock:
            return iter(list(self._held))
