"""A cache of what is read when it is asked for, within bounds that hold at any moment; for threads.

Adapters in memory are one, by count and bytes; the slots of a graph are another, whose values are
numbers of slots. Both let the least recently used go *before* they read, never what somebody holds
or has pinned, and read outside of the lock, once for all threads that want a value.

    free ──hold──▶ reading ──▶ held by n ──release──▶ free, the latest used ──▶ … ──▶ evicted
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ...errors import GraphError
from ...shared import LOOK, wait_for

ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class Counts:
    """How often values were there, had to be read, and had to go."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0


class _Entry:
    """A value, or the room that is kept for one that is being read."""

    __slots__ = ("has_failed", "holds", "is_ready", "key", "nbytes", "stamp", "value")

    def __init__(self, key: Hashable, stamp: Hashable, nbytes: int) -> None:
        self.key, self.stamp, self.nbytes = key, stamp, nbytes
        self.value: Any = None
        self.is_ready = self.has_failed = False
        self.holds: Counter[int] = Counter()
        """How often each thread holds it."""


class Cache(Generic[ValueT]):
    """Values by key, read when they are first wanted, the least recently used let go before.

    Args:
        read: gives the value of a key; whatever it raises, whoever wanted the value gets, and the
            cache is as it was.
        most: how many values there are at most, those that are being read among them.
        most_bytes: how many bytes they have together at most; None is any number.
        size: bytes of a value, told before it is read.
        stamp: what changes when the value of a key does, such as the time of a file; a value of
            another stamp is read anew, and whoever holds the old one keeps it until then.
        gone: is told each key and value that goes, before its room is used.
        what: what values are, for errors.
        patience: for how many seconds a thread waits for others to release what they hold.

    >>> cache = Cache(str.upper, most=2, what="words")
    >>> for word in ("a", "b", "a", "c"):
    ...     with cache.holding([word]) as values:
    ...         print(*values, end=" ")
    A B A C
    >>> list(cache), cache.counts
    (['a', 'c'], Counts(hits=1, misses=3, evictions=1))
    """

    def __init__(
        self,
        read: Callable[[Any], ValueT],
        most: int,
        most_bytes: int | None = None,
        *,
        size: Callable[[Any], int] = lambda key: 0,
        stamp: Callable[[Any], Hashable] = lambda key: None,
        gone: Callable[[Any, ValueT], None] = lambda key, value: None,
        what: str = "values",
        patience: float = 60.0,
    ) -> None:
        for name, n, least in (("most", most, 1), ("most_bytes", most_bytes, 0)):
            if not (isinstance(n, int) and n >= least) and (n is not None or name == "most"):
                raise GraphError(f"{name}={n!r} bounds no {what}", need=f"an int >= {least}")
        self.most, self.most_bytes, self.what, self.patience = most, most_bytes, what, patience
        self._read, self._size, self._stamp, self._gone = read, size, stamp, gone
        self._changed = threading.Condition()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._stale: list[_Entry] = []
        """Held entries of keys whose value has changed meanwhile; they still take room."""
        self._pinned: set[Hashable] = set()
        self._waiting: list[object] = []
        self._hits = self._misses = self._evictions = 0

    # -- looking ---------------------------------------------------------------------------------

    @property
    def counts(self) -> Counts:
        """Hits, misses and evictions so far."""
        with self._changed:
            return Counts(self._hits, self._misses, self._evictions)

    @property
    def nbytes(self) -> int:
        """Bytes of all values, those that are being read among them."""
        with self._changed:
            return self._nbytes()

    @property
    def pinned(self) -> frozenset[Hashable]:
        """Keys whose values stay."""
        with self._changed:
            return frozenset(self._pinned)

    def __len__(self) -> int:
        with self._changed:
            return len(self._entries) + len(self._stale)

    def __iter__(self) -> Iterator[Hashable]:
        """Yield the keys of values that are there, the latest used last."""
        with self._changed:
            return iter([key for key, entry in self._entries.items() if entry.is_ready])

    def __contains__(self, key: object) -> bool:
        with self._changed:
            entry = self._entries.get(key)
            return entry is not None and entry.is_ready

    # -- holding ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def holding(self, keys: Iterable[Hashable]) -> Iterator[list[ValueT]]:
        """Read what is not there, and keep all values of ``keys`` in place until the block ends.

        Room for all is found at once, so that two threads never wait for each other. Raises
        GraphError where there is none: at once if no other thread could make it.
        """
        listed, thread = list(keys), threading.get_ident()
        entries = self._hold(list(dict.fromkeys(listed)))
        try:
            yield [entries[key].value for key in listed]
        finally:
            self._release(entries.values(), thread)

    def pin(self, key: Hashable) -> None:
        """Read a value, and keep it until it is unpinned."""
        with self.holding([key]), self._changed:
            self._pinned.add(key)

    def unpin(self, key: Hashable) -> None:
        """Let a value go when its time comes."""
        with self._changed:
            self._pinned.discard(key)
            self._changed.notify_all()

    def forget(self, key: Hashable) -> None:
        """Let a value go now, or when it is released; whoever wants it next reads it anew."""
        with self._changed:
            self._pinned.discard(key)
            entry = self._entries.pop(key, None)
            if entry is not None:
                self._retire(entry)
            self._changed.notify_all()

    # -- inside ----------------------------------------------------------------------------------

    def _hold(self, keys: Sequence[Hashable]) -> dict[Hashable, _Entry]:
        me = threading.get_ident()
        while True:
            stamps = {key: self._stamp(key) for key in keys}
            entries, mine = self._found(stamps), list[_Entry]()
            if entries is None:
                entries, mine = self._reserved(stamps, {key: self._size(key) for key in keys})
            try:
                for entry in mine:
                    value = self._read(entry.key)
                    with self._changed:
                        entry.value, entry.is_ready = value, True
                        self._changed.notify_all()
                if self._all_ready(entries.values()):
                    return entries
            except BaseException:
                self._fail(mine)
                self._release(entries.values(), me)
                raise
            self._release(entries.values(), me)  # another thread could not read one: it is our turn

    def _found(self, stamps: Mapping[Hashable, Hashable]) -> dict[Hashable, _Entry] | None:
        """Hold all values if they are there and nobody waits for room; else none."""
        with self._changed:
            found = {key: self._current(key, stamp) for key, stamp in stamps.items()}
            entries = {key: e for key, e in found.items() if e is not None and e.is_ready}
            if self._waiting or len(entries) < len(found):
                return None
            self._take(entries.values())
            return entries

    def _reserved(
        self, stamps: Mapping[Hashable, Hashable], sizes: Mapping[Hashable, int]
    ) -> tuple[dict[Hashable, _Entry], list[_Entry]]:
        """Hold what is there, and room for what has to be read; wait for that if need be.

        Who waits longest is served first, but for who holds something that others may wait for.
        """
        me, turn = threading.get_ident(), object()
        end = time.monotonic() + self.patience
        with self._changed:
            self._waiting.append(turn)
            try:
                while True:
                    self._check(sizes)
                    missing = [k for k, stamp in stamps.items() if self._current(k, stamp) is None]
                    is_next = self._waiting[0] is turn or any(me in e.holds for e in self._all())
                    going = self._going(sizes, missing) if is_next else None
                    if going is not None:
                        break
                    others = any(e.holds.keys() - {me} for e in self._all())
                    if (is_next and not others) or time.monotonic() > end:
                        raise self._full(missing)
                    self._changed.wait(LOOK)
                for entry in going:
                    del self._entries[entry.key]
                    self._evictions += 1
                    self._gone(entry.key, entry.value)
                mine = [self._placed(key, stamps[key], sizes[key]) for key in missing]
                self._misses += len(mine)
                self._take(e for key, e in self._entries.items() if key in stamps and e not in mine)
                return {key: self._entries[key] for key in stamps}, mine
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()

    def _going(
        self, wanted: Mapping[Hashable, int], missing: Sequence[Hashable]
    ) -> list[_Entry] | None:
        """Return what has to go for what is missing, the least recently used first."""
        old = [e for e in map(self._entries.get, missing) if e is not None and not e.holds]
        count = len(self._all()) - len(old) + len(missing)
        nbytes = self._nbytes() - sum(e.nbytes for e in old) + sum(wanted[k] for k in missing)
        going = []
        for entry in self._entries.values():
            if self._within(count, nbytes):
                break
            if not (entry.holds or entry.key in self._pinned or entry.key in wanted):
                going.append(entry)
                count, nbytes = count - 1, nbytes - entry.nbytes
        return going if self._within(count, nbytes) else None

    def _within(self, count: int, nbytes: int) -> bool:
        return count <= self.most and (self.most_bytes is None or nbytes <= self.most_bytes)

    def _placed(self, key: Hashable, stamp: Hashable, nbytes: int) -> _Entry:
        """Keep room for a value that this thread reads."""
        if (old := self._entries.pop(key, None)) is not None:
            self._retire(old)
        entry = self._entries[key] = _Entry(key, stamp, nbytes)
        entry.holds[threading.get_ident()] += 1
        return entry

    def _take(self, entries: Iterable[_Entry]) -> None:
        """Hold entries that are there, as the latest used."""
        me = threading.get_ident()
        for entry in list(entries):
            entry.holds[me] += 1
            self._entries.move_to_end(entry.key)
            self._hits += 1

    def _release(self, entries: Iterable[_Entry], thread: int) -> None:
        with self._changed:
            for entry in entries:
                entry.holds[thread] -= 1
                if not entry.holds[thread]:
                    del entry.holds[thread]
                if not entry.holds and entry in self._stale:
                    self._stale.remove(entry)
                    self._gone(entry.key, entry.value)
            self._changed.notify_all()

    def _all_ready(self, entries: Iterable[_Entry]) -> bool:
        """Wait until all values have been read; tell whether they could be."""
        with self._changed:
            wait_for(self._changed, lambda: all(e.is_ready or e.has_failed for e in entries))
            return not any(e.has_failed for e in entries)

    def _fail(self, mine: Iterable[_Entry]) -> None:
        """Give up the room of values that were not read."""
        with self._changed:
            for entry in mine:
                if not entry.is_ready:
                    entry.has_failed = True
                    if self._entries.get(entry.key) is entry:
                        del self._entries[entry.key]
                    elif entry in self._stale:
                        self._stale.remove(entry)
            self._changed.notify_all()

    def _retire(self, entry: _Entry) -> None:
        """Let an entry go that is not in the table any more, now or when it is released."""
        if entry.holds:
            self._stale.append(entry)
        else:
            self._gone(entry.key, entry.value)

    def _current(self, key: Hashable, stamp: Hashable) -> _Entry | None:
        entry = self._entries.get(key)
        return entry if entry is not None and entry.stamp == stamp else None

    def _all(self) -> list[_Entry]:
        return [*self._entries.values(), *self._stale]

    def _nbytes(self) -> int:
        return sum(entry.nbytes for entry in self._all())

    # -- errors ----------------------------------------------------------------------------------

    def _check(self, wanted: Mapping[Hashable, int]) -> None:
        """Refuse what there will never be room for."""
        kept = self._pinned - wanted.keys()
        pinned = [e for e in self._entries.values() if e.key in kept]  # stale ones will go
        nbytes = sum(wanted.values()) + sum(e.nbytes for e in pinned)
        if self._within(len(wanted) + len(pinned), nbytes):
            return
        n, facts = len(wanted), []
        if pinned:
            facts.append(f"{len(pinned)} pinned: {_listed(e.key for e in pinned)}")
        if len(wanted) + len(pinned) > self.most:
            raise GraphError(
                f"{n} {self.what} are wanted at once, and there is room for {self.most}",
                need=f"{self.most - len(pinned)} or fewer",
                facts=facts,
                hint="fewer at a time" + ", or unpin some" * bool(pinned),
            )
        raise GraphError(
            f"{_listed(wanted)} take {nbytes:,} bytes, and there is room for {self.most_bytes:,}",
            facts=facts,
            hint="most_bytes=...",
        )

    def _full(self, missing: Sequence[Hashable]) -> GraphError:
        held = [e.key for e in self._all() if e.holds]
        return GraphError(
            f"there is no room for {_listed(missing)}: all {self.what} are in use",
            facts=[f"in use: {_listed(held)}", f"pinned: {_listed(self._pinned) or 'none'}"],
            hint="end what holds them, such as a stream that has not come to its end",
        )


def _listed(keys: Iterable[object]) -> str:
    named = sorted(map(repr, keys))
    return ", ".join(named[:8]) + f" and {len(named) - 8} more" * (len(named) > 8)
