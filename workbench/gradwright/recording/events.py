"""Events of a run: one JSON object a line, written beside the training and read back.

Numbers are strict JSON, as ``History.to_dict`` has them: None for NaN, "inf" for infinity. Steps
come many to a line, in columns, which costs the training the least.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import TrainingError
from ..files.plain import opened
from ..formats.checked import MAX_JSON
from ..train.history import Record

INTERVAL = 0.5
"""Seconds between two writes."""


def plain(value: Any) -> Any:
    """Return a number as strict JSON has it.

    >>> plain(0.5), plain(float("nan")), plain(float("-inf"))
    (0.5, None, '-inf')
    """
    value = float(value)
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)


def number(value: Any) -> float:
    """Return the number that ``plain`` wrote; raises TypeError or ValueError for what is none."""
    return math.nan if value is None else float(value)


@contextlib.contextmanager
def opened_events(path: Path) -> Iterator[BinaryIO | None]:
    """Give the file of events, or None where there is none.

    Raises TrainingError where it cannot be read, or is a link, a pipe or a device.
    """
    try:
        file = opened(path)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise TrainingError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    with file:
        yield file


def limited(line: bytes) -> bytes:
    """Return a line that is not too long; raises ValueError for others."""
    if len(line) >= MAX_JSON:
        raise ValueError(f"it has over {MAX_JSON:,} bytes")
    return line


def parsed(line: bytes) -> dict[str, Any]:
    """Return the event of a line; raises ValueError for another one."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise ValueError(f"{line[:60].rstrip()!r} is no event")
    return event


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a file; a last line that was torn by a crash is left out.

    Raises TrainingError for another line that is no event.
    """
    with opened_events(path) as file:
        n = 0
        while file is not None and (line := file.readline(MAX_JSON)):
            n += 1
            try:
                if not limited(line).endswith(b"\n"):
                    return
                yield parsed(line)
            except ValueError as error:
                raise TrainingError(f"{str(path)!r}, line {n}: {error}") from None


class EventWriter:
    """Appends events to a file from a thread of its own, twice a second and when it is closed.

    What is added is on its way to the disk after ``INTERVAL``; ``flush`` waits until it is there. A
    write that fails, as on a full disk, raises TrainingError at the next ``flush`` or ``close``;
    what could not be written is kept, and tried again.

    ``written`` is called after each write in the thread that wrote.
    """

    def __init__(self, path: Path, written: Callable[[], None]) -> None:
        self.path, self._written = path, written
        self._waiting: deque[Record | dict[str, Any]] = deque()
        self._unwritten = b""
        self._error: Exception | None = None
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        _cut_torn_line(path)
        self._file = opened(path, "ab")
        self._thread = threading.Thread(target=self._work, name="gradwright run", daemon=True)
        self._thread.start()

    def step(self, record: Record) -> None:
        """Add the record of a step: this is all that a step costs the training."""
        self._waiting.append(record)

    def add(self, event: str, **facts: Any) -> None:
        """Add another event; ``facts`` must be strict JSON."""
        self._waiting.append({"event": event, "time": round(time.time(), 3), **facts})

    def flush(self) -> None:
        """Return when all that was added is written; raises TrainingError if that failed."""
        self._write()
        error, self._error = self._error, None
        if error is not None:
            raise TrainingError(
                f"{str(self.path)!r} cannot be written: {error}",
                hint="nothing is lost: it is tried again, at the latest when the fit ends",
            ) from error

    def close(self) -> None:
        """Write what is left, and end the thread."""
        self._closed = True
        self._wake.set()
        self._thread.join()
        try:
            self.flush()
        finally:
            self._file.close()

    def _work(self) -> None:
        while not self._closed:
            self._wake.wait(INTERVAL)
            self._write()

    def _write(self) -> None:
        with self._writing:
            waiting = []
            while self._waiting:
                waiting.append(self._waiting.popleft())
            try:
                self._unwritten += b"".join(map(_line, _grouped(waiting)))
                while self._unwritten:
                    n = self._file.write(self._unwritten)
                    self._unwritten = self._unwritten[n:]
                if waiting:
                    self._written()
            except Exception as error:  # kept for who flushes: a thread has nobody to tell
                self._error = error


def _line(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _grouped(waiting: list[Record | dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield events, with steps in a row that measure the same as columns of one."""
    steps: list[Record] = []
    for item in waiting:
        record = item if isinstance(item, Record) else None
        if steps and (record is None or record.metrics.keys() != steps[0].metrics.keys()):
            yield _columns(steps)
            steps = []
        if isinstance(item, Record):
            steps.append(item)
        else:
            yield item
    if steps:
        yield _columns(steps)


def _columns(steps: list[Record]) -> dict[str, Any]:
    metrics = {n: [plain(r.metrics[n]) for r in steps] for n in steps[0].metrics}
    return {
        "event": "steps",
        "step": [r.step for r in steps],
        "epoch": [r.epoch for r in steps],
        "seconds": [round(r.seconds, 6) for r in steps],
        "metrics": metrics,
    }


def _cut_torn_line(path: Path) -> None:
    """Remove what a crash has left of a line, so that the next one is whole."""
    with contextlib.suppress(FileNotFoundError), opened(path, "rb+") as file:
        size = file.seek(0, os.SEEK_END)
        at = size
        while at:
            start = max(0, at - 65536)
            file.seek(start)
            found = file.read(at - start).rfind(b"\n")
            if found >= 0:
                at = start + found + 1
                break
            at = start
        if at < size:
            file.truncate(at)
