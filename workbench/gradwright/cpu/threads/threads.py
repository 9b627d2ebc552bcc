"""Threads: a pool that runs independent calls of one chain at the same time.

A fork of a chain names n calls. The thread that meets it makes the last one, and it and at most
n - 1 workers take the others until none is left; it then waits only for what a worker has begun.
So a worker that the system does not let run costs nothing, whoever finds the pool taken makes all
calls by itself, and results are the same in any case: what is one call was decided when the plan
was made. Of two pieces each stays with its thread, and what it writes with that thread's cache.

Workers are threads of Python that sit in machine code, with the GIL free. Between two forks they
look for work for about 50 µs, then they sleep. They begin with the first run that needs them, and
end before a fork of the process and at its exit.

A fork whose turn is SERIAL or PARALLEL does that. With a turn from 0 on it is being measured: it
does one and the other in turns, keeps the shortest times of its owner, and after TURNS runs goes
parallel if that took less than ``percent`` of the serial time.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
from collections.abc import Sequence
from threading import Lock, Thread
from typing import Any

import numpy as np

from .forks import PARALLEL, Cell, Place, fork_address, worker_address

Array = np.ndarray[Any, Any]
MAX_WORKERS = 63
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Fork:
    """A call, and calls that do the same in pieces: each a function and a place in a table.

    With ``turn=0`` it is measured whether the pieces take less than ``percent`` of the time.
    """

    def __init__(
        self,
        whole: tuple[int, int],
        calls: Sequence[tuple[int, int]],
        turn: int = PARALLEL,
        percent: int = 100,
    ) -> None:
        never = 2**62
        flat = [n for call in calls for n in call]
        head = [POOL.address, turn, never, never, *whole, percent, len(calls)]
        self._places = np.array([whole[1], *(place for _, place in calls)])
        self._block = np.array([*head, *flat], np.int64)

    @property
    def turn(self) -> int:
        """SERIAL, PARALLEL, or how often it has been measured."""
        return int(self._block[Place.TURN])

    def linked(self, start: int) -> tuple[int, int]:
        """Return function and block of the fork, now that the table is at an address."""
        at = start + 8 * self._places
        self._block[Place.WHOLE + 1], self._block[Place.PAIRS + 1 :: 2] = at[0], at[1:]
        return fork_address(), int(self._block.ctypes.data)


@functools.cache
def can_fork() -> bool:
    """Tell whether there are threads that run machine code: not on Windows, nor without llvmlite.

    >>> isinstance(can_fork(), bool)
    True
    """
    from ..llvm.compiler import available

    try:
        return available() and fork_address() > 0 and worker_address() > 0
    except RuntimeError:
        return False


class Pool:
    """The workers of this process; plans name its cells, which stay where they are."""

    def __init__(self) -> None:
        raw = np.zeros(Cell.END + 8, np.int64)
        at = -(raw.ctypes.data // 8) % 8
        self._cells = raw[at : at + Cell.END]  # each in a cache line of its own
        self.address: int = self._cells.ctypes.data
        self._workers: list[Thread] = []
        self._lock, self._is_ready = Lock(), False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before_fork, after_in_parent=self._after_fork,
                                after_in_child=self._in_child)  # fmt: skip

    @property
    def n_workers(self) -> int:
        """How many workers there are now."""
        return len(self._workers)

    @property
    def is_taken(self) -> bool:
        """Whether somebody has the pool; setting it takes the pool away from everybody."""
        return bool(self._cells[Cell.TAKEN])

    @is_taken.setter
    def is_taken(self, value: bool) -> None:
        self._cells[Cell.TAKEN] = value

    def start(self, n_workers: int) -> None:
        """See to it that there are so many workers, if the system has threads left."""
        entry = _FUNCTION(worker_address())  # takes the compiler's lock, as a fork does before ours
        with self._lock:
            self._initialise()
            while len(self._workers) < min(n_workers, MAX_WORKERS):
                name = f"gradwright-worker-{len(self._workers)}"
                worker = Thread(target=entry, args=(self.address,), name=name, daemon=True)
                try:
                    worker.start()
                except RuntimeError:  # no threads left, or the interpreter ends: forks do without
                    return
                self._workers.append(worker)

    def stop(self) -> None:
        """End all workers; the next run that needs some begins them again."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._workers:
            mutex, work = self.address + 8 * Cell.MUTEX, self.address + 8 * Cell.WORK
            library = _libc()
            library.pthread_mutex_lock(mutex)
            self._cells[Cell.STOP] = 1
            library.pthread_cond_broadcast(work)
            library.pthread_mutex_unlock(mutex)
            for worker in self._workers:
                worker.join()
            self._cells[Cell.STOP] = 0
            self._workers = []

    def _initialise(self) -> None:
        if self._is_ready:
            return
        self._is_ready = True
        library = _libc()
        library.pthread_mutex_init(self.address + 8 * Cell.MUTEX, None)
        for cell in (Cell.WORK, Cell.FINISHED):
            library.pthread_cond_init(self.address + 8 * cell, None)

    def _before_fork(self) -> None:
        self._lock.acquire()
        self._stop()

    def _after_fork(self) -> None:
        self._lock.release()

    def _in_child(self) -> None:
        self._cells[: Cell.MUTEX] = 0  # the thread that had the pool is not in this process
        self._lock, self._is_ready = Lock(), False


@functools.cache
def _libc() -> Any:
    library = ctypes.CDLL(None)
    for name in ("mutex_init", "cond_init"):
        getattr(library, f"pthread_{name}").argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    for name in ("mutex_lock", "mutex_unlock", "cond_broadcast"):
        getattr(library, f"pthread_{name}").argtypes = [ctypes.c_void_p]
    return library


POOL = Pool()
atexit.register(POOL.stop)
