"""Ledger: what memory a device has taken for its plans, and a log of what was freed, and why."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from ..words.tables import Table, Tabular, size

Manager = Literal["arena", "caching", "none"]
MOST = 256
"""How many lines a log has; the oldest go."""
UNUSED = "no plan uses it any more"


class Held(Protocol):
    """A block of memory: an array, or what a device has in its place."""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""

    @property
    def base(self) -> Any:
        """What holds the memory, if it is another; else None."""


@dataclass(frozen=True, slots=True)
class Freed:
    """Blocks of one kind that were freed for one reason: how many, and how many bytes together."""

    count: int
    nbytes: int
    what: str
    """The run that a block was taken for."""
    why: str


@dataclass(frozen=True, slots=True)
class Released:
    """What was let go: how many plans, and how many bytes of memory.

    >>> Released(2, 1_500_000)
    2 plans, 1.5 MB
    """

    plans: int
    nbytes: int

    def __repr__(self) -> str:
        return f"{self.plans} plan{'s' * (self.plans != 1)}, {size(self.nbytes)}"


class Ledger(Tabular):
    """Blocks of memory that plans compute in: what is held, what was at most, what was freed.

    A block counts until its last byte is free, whoever holds on to it. Print it to see the log; any
    thread may write and read.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None,))
    >>> session = gw.Session(g, memory="none", kernels="off")
    >>> y = session.run((x * 2.0).sum(), {"x": np.ones(1000, "f4")})
    >>> session.memory
    <memory 'none': 0 B now, 4.03 kB at most, 1 block freed>
    >>> print(session.memory)
    memory 'none': 0 B now, 4.03 kB at most, 1 block freed
    freed  bytes    what  why
    1      4.03 kB  sum   the run has ended
    """

    def __init__(self, manager: Manager = "arena") -> None:
        self.manager = manager
        """How memory is managed: ``"arena"``, ``"caching"`` or ``"none"``."""
        self.held = 0
        """Bytes that are taken now."""
        self.peak = 0
        """The most that were taken at once, since the last ``reset``."""
        self._lock = threading.RLock()  # collecting garbage may free a block in the midst of this
        self._why: dict[int, str] = {}
        self._ending = threading.local()
        self._log: dict[tuple[str, str], Freed] = {}

    def took(self, block: Held, what: str) -> None:
        """Note a new block, and have it noted when it is freed."""
        owner = block if block.base is None else block.base
        with self._lock:
            self.held += block.nbytes
            self.peak = max(self.peak, self.held)
        done = weakref.finalize(owner, self._gone, id(owner), block.nbytes, what)
        done.atexit = False

    def because(self, block: Held, why: str) -> None:
        """Say why a block is about to be freed."""
        with self._lock:
            self._why[id(block if block.base is None else block.base)] = why

    @contextmanager
    def ending(self, why: str) -> Iterator[None]:
        """Say why blocks are freed that this thread frees in a ``with`` block."""
        self._ending.why = why
        try:
            yield
        finally:
            self._ending.why = UNUSED

    def _gone(self, key: int, nbytes: int, what: str) -> None:
        with self._lock:
            self.held -= nbytes
            why = self._why.pop(key, getattr(self._ending, "why", UNUSED))
            before = self._log.pop((what, why), Freed(0, 0, what, why))
            self._log[what, why] = Freed(before.count + 1, before.nbytes + nbytes, what, why)
            while len(self._log) > MOST:
                del self._log[next(iter(self._log))]

    @property
    def log(self) -> list[Freed]:
        """What was freed and why, the latest last; what is alike is one line."""
        with self._lock:
            return list(self._log.values())

    def reset(self) -> None:
        """Empty the log, and begin anew to look for the most that is taken at once."""
        with self._lock:
            self._log.clear()
            self.peak = self.held

    def table(self) -> Table:
        """Return the log as a table."""
        rows = [[f"{f.count:,}", size(f.nbytes), f.what, f.why] for f in self.log]
        return Table(["freed", "bytes", "what", "why"], rows, title=self._said())

    def _said(self) -> str:
        n = sum(f.count for f in self.log)
        now, most = size(self.held), size(self.peak)
        freed = f"{n:,} block{'s' * (n != 1)} freed"
        return f"memory {self.manager!r}: {now} now, {most} at most, {freed}"

    def __repr__(self) -> str:
        return f"<{self._said()}>"
