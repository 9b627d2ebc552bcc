"""Course: how far a run has come, told from its events without keeping them.

Nearly all bytes of a long run are steps, and only the last line of them is read: 2.6 million steps,
150 MB, are gone through in 30 ms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import TrainingError
from .events import limited, number, opened_events, parsed

STEPS = json.dumps({"event": "steps"}, separators=(",", ":"))[:-1].encode() + b","
"""How a line of steps begins."""
_ANOTHER = re.compile(rb"\n(?!" + re.escape(STEPS) + rb")")
SHORT = 1 << 11
"""Bytes of a line from which on it is faster to look for the end of each."""
CHUNK = 1 << 18
"""Bytes that are read at once; with 2**20, 2.6 million steps take a tenth longer."""


@dataclass(frozen=True)
class Epoch:
    """The end of an epoch."""

    epoch: int
    seconds: float
    metrics: Mapping[str, float]


class Course:
    """What the events of a run add up to.

    Where a fit went on from an earlier checkpoint, what came after that is as if it had never been.
    ``read`` returns the bytes between two places of the file.

    >>> course = Course()
    >>> course.take({"event": "fit_started", "step": 0, "epoch": 0, "pid": 7, "host": "here"})
    >>> course.take(
    ...     {"event": "epoch", "step": 2, "epoch": 1, "seconds": 0.3, "metrics": {"loss": 0.5}}
    ... )
    >>> course.epochs, course.seconds, course.metrics, course.pid, course.is_open
    (1, 0.3, {'loss': 0.5}, 7, True)
    """

    def __init__(self, read: Callable[[int, int], bytes] = lambda start, stop: b"") -> None:
        self._read = read
        self.pid, self.host = 0, ""
        """The process of the latest fit."""
        self.outcome = ""
        """How the latest fit has ended; nothing where it has not."""
        self.is_open = False
        """Whether a fit has begun that has not ended."""
        self.updated: float | None = None
        """The latest time that an event tells."""
        self.changes: dict[str, Any] = {}
        """What later fits have changed in the configuration."""
        self._begun = 0
        self._steps, self._seconds = 0, 0.0
        self._ends: list[Epoch] = []
        self._unread: tuple[int, int] | None = None
        """Where the latest line of steps is."""

    def pass_by(self, start: int, stop: int) -> None:
        """Note where a line of steps is."""
        self._unread, self.outcome = (start, stop), ""

    def take(self, event: Mapping[str, Any]) -> None:
        """Count another event; raises LookupError, TypeError or ValueError for a bad one."""
        self.outcome = ""
        if "time" in event:
            self.updated = time_of(event["time"])
        match event["event"]:
            case "fit_started":
                self._begin(event)
            case "epoch":
                metrics = {n: number(v) for n, v in fields(event["metrics"]).items()}
                self._ends.append(Epoch(whole(event["epoch"]), real(event["seconds"]), metrics))
            case "fit_ended":
                self._begun -= 1
                self.outcome = text(event["outcome"])
        self.is_open = self._begun > 0

    def _begin(self, event: Mapping[str, Any]) -> None:
        done, epoch = whole(event["step"]), whole(event["epoch"])
        self.settle()
        self._ends = [e for e in self._ends if e.epoch <= epoch]
        if done < self._steps:
            seconds = real(event.get("seconds", 0.0))
            self._steps, self._seconds = done, max([seconds, *(e.seconds for e in self._ends[-1:])])
        self._begun += 1
        self.pid, self.host = whole(event["pid"]), text(event["host"])
        self.changes.update(fields(event.get("config", {})))

    def settle(self) -> Course:
        """Read the latest line of steps."""
        place, self._unread = self._unread, None
        if place is not None:
            event = parsed(self._read(*place))
            self._steps, self._seconds = whole(event["step"][-1]), real(event["seconds"][-1])
        return self

    @property
    def steps(self) -> int:
        """The number of the last step."""
        self.settle()
        return self._steps

    @property
    def epochs(self) -> int:
        """The number of the last epoch that has ended."""
        return self._ends[-1].epoch if self._ends else 0

    @property
    def seconds(self) -> float:
        """Time spent training."""
        self.settle()
        return max([self._seconds, *(e.seconds for e in self._ends[-1:])])

    @property
    def metrics(self) -> Mapping[str, float]:
        """Those of the last epoch."""
        return self._ends[-1].metrics if self._ends else {}


def course_of(path: Path) -> Course:
    """Return what the events of a file add up to; nothing where there is no file.

    Raises TrainingError for a line that is no event, and for what is no file.
    """
    with opened_events(path) as file:
        if file is None:
            return Course()

        def read(start: int, stop: int) -> bytes:
            file.seek(start)
            return file.read(stop - start)

        course, n = Course(read), 0
        try:
            for n, start, stop, line in _lines(file):  # noqa: B007 - the error tells it
                if line:
                    course.take(parsed(line))
                else:
                    course.pass_by(start, stop)
            return course.settle()
        except (LookupError, TypeError, ValueError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise TrainingError(f"{str(path)!r}, line {n}: {what}") from error


def _lines(file: BinaryIO) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield lines: how many there are by then, where it starts and ends, and what it says.

    Of lines of steps in a row that are read at once it is the last, which says nothing.
    """
    n = offset = start = 0
    held, is_steps = b"", False
    while True:
        file.seek(offset)
        if not (chunk := file.read(CHUNK)):
            return  # what is held was torn by a crash
        at = 0
        while at < len(chunk):
            if not is_steps:
                head = held + chunk[at : at + len(STEPS)]
                is_steps = head.partition(b"\n")[0].startswith(STEPS)
            last = chunk.find(b"\n", at)
            if is_steps and at <= last < at + SHORT:  # one by one, they would take twice as long
                found = _ANOTHER.search(chunk, last)
                last = chunk.rfind(b"\n", at) if found is None else found.start()
            stop = last + 1 or len(chunk)
            if not is_steps:
                held = limited(held + chunk[at:stop])
            if last >= 0:
                n += chunk.count(b"\n", at, stop) if is_steps else 1
                before = chunk.rfind(b"\n", at, last) if is_steps else -1
                start = offset + before + 1 if before >= 0 else start
                yield n, start, offset + stop, b"" if is_steps else held
                start, held, is_steps = offset + stop, b"", False
            at = stop
        offset += len(chunk)


# -- what a field holds ----------------------------------------------------------------------------


def whole(value: Any) -> int:
    """Return a count; raises ValueError for what is none."""
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError(f"{_short(value)} is no count")
    return value


def real(value: Any) -> float:
    """Return a number of seconds; raises ValueError for what is none."""
    if type(value) not in (int, float) or not 0 <= value < 1e12:
        raise ValueError(f"{_short(value)} is no number of seconds")
    return float(value)


def time_of(value: Any) -> float:
    """Return seconds since 1970, before the year 9999, as calendars take them."""
    found = real(value)
    if not found < 2.5e11:
        raise ValueError(f"{_short(value)} is no time")
    return found


def text(value: Any) -> str:
    """Return text; raises ValueError for what is none."""
    if not isinstance(value, str):
        raise ValueError(f"{_short(value)} is no text")
    return value


def fields(value: Any) -> dict[str, Any]:
    """Return an object; raises ValueError for what is none."""
    if not isinstance(value, dict):
        raise ValueError(f"{_short(value)} is no object")
    return value


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) < 60 else f"{shown[:57]}..."
