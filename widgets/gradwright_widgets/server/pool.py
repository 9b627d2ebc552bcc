"""Processes that read files for the server: few, bounded, begun when they are needed.

Each does one thing at a time. One that takes too long, or whose answer nobody waits for any more,
is ended; the next request begins another. They end with the server, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from .refused import RefusedError
from .wire import read_answer, write_request

IDLE = 300.0
"""Seconds after which a process that nobody asks is ended."""


@dataclass(frozen=True)
class Lane:
    """How many processes a kind of task has, and how many seconds each task may take."""

    processes: int
    seconds: float


LANES = {"quick": Lane(2, 60.0), "long": Lane(1, 600.0)}
MAX_WAITING = 64
"""Requests of a lane that wait at most."""


class Reader:
    """A process that reads files."""

    def __init__(self) -> None:
        one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        # -P: a file where the server was started may be called as a module is.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "gradwright_widgets.server.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **one},
        )  # fmt: skip
        self._to = cast(BinaryIO, self._process.stdin)
        self._from = cast(BinaryIO, self._process.stdout)

    def ask(self, request: Mapping[str, Any]) -> tuple[int, bytes]:
        """Send a request and wait for the answer; raises EOFError where the process ends before."""
        try:
            write_request(self._to, request)
            return read_answer(self._from)
        except OSError as error:
            raise EOFError from error

    def end(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()
        for stream in (self._to, self._from):
            with contextlib.suppress(OSError):
                stream.close()


class Pool:
    """The processes of all lanes."""

    def __init__(self, lanes: Mapping[str, Lane] = LANES) -> None:
        self._lanes = lanes
        self._free: dict[str, list[tuple[Reader, asyncio.TimerHandle]]] = {n: [] for n in lanes}
        self._room: dict[str, asyncio.Semaphore] = {}
        self._waiting = dict.fromkeys(lanes, 0)
        most = sum(lane.processes for lane in lanes.values())
        self._threads = ThreadPoolExecutor(2 * most, "gradwright reader")

    async def ask(self, lane: str, request: Mapping[str, Any]) -> bytes:
        """Return the answer to a request, as JSON; raises RefusedError where there is none."""
        bounds = self._lanes[lane]
        room = self._room.setdefault(lane, asyncio.Semaphore(bounds.processes))
        if self._waiting[lane] >= MAX_WAITING:
            raise RefusedError(503, "too many requests wait", code="busy", hint="ask again soon")
        self._waiting[lane] += 1
        try:
            await room.acquire()
        finally:
            self._waiting[lane] -= 1
        try:
            status, data = await self._ask(lane, bounds.seconds, request)
        finally:
            room.release()
        if status != 200:
            raise RefusedError(status, **json.loads(data))
        return data

    async def _ask(
        self, lane: str, seconds: float, request: Mapping[str, Any]
    ) -> tuple[int, bytes]:
        loop = asyncio.get_running_loop()
        reader = await self._take(lane)
        answer = loop.run_in_executor(self._threads, reader.ask, request)
        try:
            found = await asyncio.wait_for(asyncio.shield(answer), seconds)
        except BaseException as error:
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.shield(loop.run_in_executor(self._threads, reader.end))
            if isinstance(error, TimeoutError | asyncio.TimeoutError):
                raise RefusedError(
                    504, f"it took longer than {seconds:.0f} seconds", code="time"
                ) from None
            if isinstance(error, EOFError):
                raise RefusedError(
                    503, "the process that read the file has ended", code="ended",
                    hint="the file may need more memory than is allowed",
                ) from None  # fmt: skip
            raise
        timer = loop.call_later(IDLE, self._retire, lane, reader)
        self._free[lane].append((reader, timer))
        return found

    async def _take(self, lane: str) -> Reader:
        """Return a process that is free, or a new one."""
        if self._free[lane]:
            reader, timer = self._free[lane].pop()
            timer.cancel()
            return reader
        return await asyncio.get_running_loop().run_in_executor(self._threads, Reader)

    def _retire(self, lane: str, reader: Reader) -> None:
        """End a process that nobody has asked for long."""
        self._free[lane] = [held for held in self._free[lane] if held[0] is not reader]
        reader.end()

    def close(self) -> None:
        """End all processes that are free."""
        for held in self._free.values():
            while held:
                reader, timer = held.pop()
                timer.cancel()
                reader.end()
        self._threads.shutdown(wait=False)
