"""Streams of the simulated device: work waits until somebody waits for it.

So what a program has forgotten to wait for has not been done when it looks. Which work comes before
which is kept as vector clocks: for each stream how much of each other one it has seen. Two that
touch the same bytes, one of them writing, need an order.
"""

from __future__ import annotations

import collections
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass

from gradwright.errors import LoweringError

from .memory import Block, Use

Clock = dict[int, int]


@dataclass(frozen=True)
class Moment:
    """A piece of work: the stream it is in, which one of that stream, and what it does."""

    stream: int
    number: int
    what: str


@dataclass
class Mark:
    """A point of a stream that an event was recorded at; what had been seen there, once passed."""

    stream: int
    clock: Clock | None = None


class Streams:
    """Queues of work, and what each has seen of the others."""

    def __init__(self) -> None:
        self._queues: dict[int, collections.deque[tuple[str, Callable[[Moment], None]]]] = {}
        self._clocks: dict[int, Clock] = {}
        self._host: Clock = {}
        """What the host has waited for."""
        self._marks: dict[int, Mark] = {}
        """Where each event was recorded last."""
        self._numbers = itertools.count(1)
        self._doing = threading.RLock()
        """Held by the thread that does what waits: another one's work comes after it."""
        self._add(0)

    def make(self) -> int:
        """Return a new stream."""
        return self._add(next(self._numbers))

    def _add(self, stream: int) -> int:
        with self._doing:
            self._queues[stream], self._clocks[stream] = collections.deque(), dict(self._host)
        return stream

    def put(self, stream: int, what: str, do: Callable[[Moment], None]) -> None:
        """Give a stream work."""
        if stream not in self._queues:
            raise LoweringError(f"{what}: there is no stream {stream}")
        self._queues[stream].append((what, do))

    def wait(self, stream: int) -> None:
        """Do all that waits in a stream; what the host does next comes after it."""
        with self._doing:
            self.drain(stream)
            _join(self._host, self._clocks[stream])
            for clock in self._clocks.values():
                _join(clock, self._host)

    def drain(self, stream: int) -> None:
        """Do what waits in a stream, as it may be done at any time; nobody has waited for it."""
        queue, clock = self._queues[stream], self._clocks[stream]
        with self._doing:
            try:
                while queue:
                    what, do = queue.popleft()
                    clock[stream] = clock.get(stream, 0) + 1
                    do(Moment(stream, clock[stream], what))
            except BaseException:
                queue.clear()  # as on a GPU, whose context is lost: what came of it is undefined
                raise

    def event(self) -> int:
        """Return a new event."""
        return next(self._numbers)

    def record(self, event: int, stream: int) -> None:
        """Let an event be this point of a stream."""
        mark = self._marks[event] = Mark(stream)

        def do(moment: Moment) -> None:
            mark.clock = dict(self._clocks[stream])

        self.put(stream, "record an event", do)

    def wait_event(self, stream: int, event: int) -> None:
        """Have a stream wait for where an event is now; if nowhere, that holds up nothing."""
        mark = self._marks.get(event)

        def do(moment: Moment) -> None:
            if mark is not None:
                if mark.clock is None:
                    self.drain(mark.stream)
                _join(self._clocks[stream], mark.clock or {})

        self.put(stream, "wait for an event", do)

    def use(self, block: Block, low: int, high: int, moment: Moment, *, writes: bool) -> None:
        """Note a use of bytes; raises LoweringError if another stream's may be at the same time."""
        seen = self._clocks[moment.stream]
        for use in block.uses:
            ordered = use.stream == moment.stream or use.number <= seen.get(use.stream, 0)
            if not ordered and (writes or use.writes) and use.low < high and low < use.high:
                raise LoweringError(
                    f"{moment.what} (stream {moment.stream}) does not wait for {use.what}"
                    f" (stream {use.stream})",
                    facts=[f"both use bytes {max(low, use.low):,} to {min(high, use.high):,}"],
                    need="an event that one stream records and the other waits for",
                )
        made = Use(moment.stream, moment.number, low, high, writes, moment.what)
        known = (made.stream, low, high, writes)
        block.uses = [u for u in block.uses[-64:] if (u.stream, u.low, u.high, u.writes) != known]
        block.uses.append(made)


def _join(clock: Clock, other: Clock) -> None:
    for stream, number in list(other.items()):
        clock[stream] = max(clock.get(stream, 0), number)
