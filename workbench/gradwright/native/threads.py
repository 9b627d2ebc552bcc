"""Threads: a pool that runs independent calls of one chain at the same time.

A fork of a chain names n calls. The thread that meets it and at most n - 1 workers take one after
the other until none is left; the first then waits only for what a worker has begun. So a worker
that the system does not let run costs nothing, whoever finds the pool taken makes all calls by
itself, and results are the same in any case: what is one call was decided when the plan was made.

Workers are threads of Python that sit in machine code, with the GIL free. Between two forks they
look for work for about 50 µs, then they sleep. They begin with the first run that needs them, and
end before a fork of the process and at its exit.

    cells of the pool     who has it · generation and calls left · calls · done · sleepers · ...
    block of a fork       cells · turn · serial time · parallel time · function, block · percent ·
                          n · n pairs

A fork whose turn is SERIAL or PARALLEL does that. With a turn from 0 on it is being measured: it
does one and the other in turns, keeps the shortest times, and after TURNS runs goes parallel if
that took less than ``percent`` of the serial time.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import platform
import sys
from collections.abc import Sequence
from threading import Lock, Thread
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SERIAL, PARALLEL = -1, -2
TURNS = 16
"""Runs in which a fork is measured: eight each way, of which the shortest counts."""
MAX_WORKERS = 63
_TAKEN, _WORD, _CALLS, _DONE, _SLEEPERS, _WAITING, _STOP = (8 * i for i in range(7))
_MUTEX, _WORK, _FINISHED = 64, 80, 96
_CELLS = 112
_TURN, _TIMES, _WHOLE, _PERCENT, _COUNT, _PAIRS = 1, 2, 4, 6, 7, 8
_WORKER_SPINS, _OWNER_SPINS = 2000, 4000
_CLOCK = 6 if sys.platform == "darwin" else 1
_HEAD = """
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
{declared}

define internal i1 @claim(ptr %cells, ptr %seen) noinline {{
; Take one of the calls that are left and make it; false if there is none.
entry:
  %word.at = getelementptr i64, ptr %cells, i64 {word}
  %calls.at = getelementptr i64, ptr %cells, i64 {calls}
  %done.at = getelementptr i64, ptr %cells, i64 {done}
  br label %look
look:
  %word = load atomic i64, ptr %word.at seq_cst, align 8
  %left = and i64 %word, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %no, label %take
take:
  %calls.i = load atomic i64, ptr %calls.at seq_cst, align 8
  %rest = sub i64 %word, 1
  %try = cmpxchg ptr %word.at, i64 %word, i64 %rest seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %try, 1
  br i1 %mine, label %do, label %look
do:
  %calls = inttoptr i64 %calls.i to ptr
  %index = sub i64 %left, 1
  %place = mul i64 %index, 2
  %function.at = getelementptr i64, ptr %calls, i64 %place
  %block.at = getelementptr i64, ptr %function.at, i64 1
  %function = load ptr, ptr %function.at
  %block = load ptr, ptr %block.at
  call void %function(ptr %block)
  %before = atomicrmw add ptr %done.at, i64 1 seq_cst
  ret i1 true
no:
  ret i1 false
}}
"""
_WORKER = """
define void @k(ptr %cells) {{
entry:
  %word.at = getelementptr i64, ptr %cells, i64 {word}
  %sleepers.at = getelementptr i64, ptr %cells, i64 {sleepers}
  %waiting.at = getelementptr i64, ptr %cells, i64 {waiting}
  %stop.at = getelementptr i64, ptr %cells, i64 {stop}
  %mutex = getelementptr i64, ptr %cells, i64 {mutex}
  %work = getelementptr i64, ptr %cells, i64 {work}
  %finished = getelementptr i64, ptr %cells, i64 {finished}
  br label %claiming
claiming:
  %got = call i1 @claim(ptr %cells, ptr null)
  br i1 %got, label %tell, label %watch
tell:
  %waits = load atomic i64, ptr %waiting.at seq_cst, align 8
  %is.waited = icmp ne i64 %waits, 0
  br i1 %is.waited, label %wake, label %claiming
wake:
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_signal(ptr %finished)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %claiming
watch:
  %spins = phi i64 [ {worker_spins}, %claiming ], [ %fewer, %again ]
  %now = load atomic i64, ptr %word.at seq_cst, align 8
  %some = and i64 %now, 4294967295
  %any = icmp ne i64 %some, 0
  br i1 %any, label %claiming, label %again
again:
  {pause}
  %fewer = sub i64 %spins, 1
  %more = icmp sgt i64 %fewer, 0
  br i1 %more, label %watch, label %tired
tired:
  call i32 @pthread_mutex_lock(ptr %mutex)
  %s0 = atomicrmw add ptr %sleepers.at, i64 1 seq_cst
  br label %asleep
asleep:
  %word = load atomic i64, ptr %word.at seq_cst, align 8
  %left = and i64 %word, 4294967295
  %stop = load atomic i64, ptr %stop.at seq_cst, align 8
  %either = or i64 %left, %stop
  %idle = icmp eq i64 %either, 0
  br i1 %idle, label %sleep, label %rise
sleep:
  call i32 @pthread_cond_wait(ptr %work, ptr %mutex)
  br label %asleep
rise:
  %s1 = atomicrmw sub ptr %sleepers.at, i64 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr %mutex)
  %ends = icmp ne i64 %stop, 0
  br i1 %ends, label %end, label %claiming
end:
  ret void
}}
"""
_FORK = """
declare i32 @clock_gettime(i32, ptr)

define internal void @alone(i64 %n, ptr %calls) noinline {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %end
body:
  %place = mul i64 %i, 2
  %function.at = getelementptr i64, ptr %calls, i64 %place
  %block.at = getelementptr i64, ptr %function.at, i64 1
  %function = load ptr, ptr %function.at
  %block = load ptr, ptr %block.at
  call void %function(ptr %block)
  %next = add i64 %i, 1
  br label %loop
end:
  ret void
}}

define internal void @together(ptr %cells, i64 %n, ptr %calls) noinline {{
entry:
  %taken.at = getelementptr i64, ptr %cells, i64 {taken}
  %word.at = getelementptr i64, ptr %cells, i64 {word}
  %calls.at = getelementptr i64, ptr %cells, i64 {calls}
  %done.at = getelementptr i64, ptr %cells, i64 {done}
  %sleepers.at = getelementptr i64, ptr %cells, i64 {sleepers}
  %waiting.at = getelementptr i64, ptr %cells, i64 {waiting}
  %mutex = getelementptr i64, ptr %cells, i64 {mutex}
  %work = getelementptr i64, ptr %cells, i64 {work}
  %finished = getelementptr i64, ptr %cells, i64 {finished}
  %try = cmpxchg ptr %taken.at, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %try, 1
  br i1 %mine, label %publish, label %busy
busy:
  call void @alone(i64 %n, ptr %calls)
  ret void
publish:
  %calls.i = ptrtoint ptr %calls to i64
  store atomic i64 %calls.i, ptr %calls.at seq_cst, align 8
  store atomic i64 0, ptr %done.at seq_cst, align 8
  %old = load atomic i64, ptr %word.at seq_cst, align 8
  %old.generation = lshr i64 %old, 32
  %generation = add i64 %old.generation, 1
  %high = shl i64 %generation, 32
  %new = or i64 %high, %n
  %was = atomicrmw xchg ptr %word.at, i64 %new seq_cst
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %sleeps = icmp sgt i64 %sleepers, 0
  br i1 %sleeps, label %rouse, label %claiming
rouse:
  call i32 @pthread_mutex_lock(ptr %mutex)
  br label %rousing
rousing:
  %wanted = phi i64 [ %n, %rouse ], [ %fewer.wanted, %rousing ]
  %fewer.wanted = sub i64 %wanted, 1
  call i32 @pthread_cond_signal(ptr %work)
  %more.wanted = icmp sgt i64 %fewer.wanted, 1
  br i1 %more.wanted, label %rousing, label %roused
roused:
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %claiming
claiming:
  %got = call i1 @claim(ptr %cells, ptr null)
  br i1 %got, label %claiming, label %watch
watch:
  %spins = phi i64 [ {owner_spins}, %claiming ], [ %fewer, %again ]
  %done = load atomic i64, ptr %done.at seq_cst, align 8
  %all = icmp eq i64 %done, %n
  br i1 %all, label %end, label %again
again:
  {pause}
  %fewer = sub i64 %spins, 1
  %more = icmp sgt i64 %fewer, 0
  br i1 %more, label %watch, label %tired
tired:
  call i32 @pthread_mutex_lock(ptr %mutex)
  store atomic i64 1, ptr %waiting.at seq_cst, align 8
  br label %asleep
asleep:
  %done.now = load atomic i64, ptr %done.at seq_cst, align 8
  %all.now = icmp eq i64 %done.now, %n
  br i1 %all.now, label %rise, label %sleep
sleep:
  call i32 @pthread_cond_wait(ptr %finished, ptr %mutex)
  br label %asleep
rise:
  store atomic i64 0, ptr %waiting.at seq_cst, align 8
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %end
end:
  store atomic i64 0, ptr %taken.at seq_cst, align 8
  ret void
}}

define internal i64 @clock() noinline {{
entry:
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 {clock}, ptr %time)
  %seconds = load i64, ptr %time
  %part.at = getelementptr i64, ptr %time, i64 1
  %part = load i64, ptr %part.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %part
  ret i64 %now
}}

define void @k(ptr %block) {{
entry:
  %turn.at = getelementptr i64, ptr %block, i64 {turn}
  %times.at = getelementptr i64, ptr %block, i64 {times}
  %function.at = getelementptr i64, ptr %block, i64 {whole}
  %whole.at = getelementptr i64, ptr %function.at, i64 1
  %count.at = getelementptr i64, ptr %block, i64 {count}
  %calls = getelementptr i64, ptr %block, i64 {pairs}
  %cells = load ptr, ptr %block
  %turn = load i64, ptr %turn.at
  %function = load ptr, ptr %function.at
  %whole = load ptr, ptr %whole.at
  %n = load i64, ptr %count.at
  switch i64 %turn, label %measure [ i64 {serial}, label %one
                                     i64 {parallel}, label %many ]
one:
  call void %function(ptr %whole)
  ret void
many:
  call void @together(ptr %cells, i64 %n, ptr %calls)
  ret void
measure:
  %start = call i64 @clock()
  %way = and i64 %turn, 1
  %odd = icmp eq i64 %way, 1
  br i1 %odd, label %measure.many, label %measure.one
measure.one:
  call void %function(ptr %whole)
  br label %measured
measure.many:
  call void @together(ptr %cells, i64 %n, ptr %calls)
  br label %measured
measured:
  %stop = call i64 @clock()
  %took = sub i64 %stop, %start
  %time.at = getelementptr i64, ptr %times.at, i64 %way
  %best = load i64, ptr %time.at
  %less = icmp slt i64 %took, %best
  %better = select i1 %less, i64 %took, i64 %best
  store i64 %better, ptr %time.at
  %next = add i64 %turn, 1
  store i64 %next, ptr %turn.at
  %ready = icmp sge i64 %next, {turns}
  br i1 %ready, label %settle, label %end
settle:
  %parallel.at = getelementptr i64, ptr %times.at, i64 1
  %serial.time = load i64, ptr %times.at
  %parallel.time = load i64, ptr %parallel.at
  %percent.at = getelementptr i64, ptr %block, i64 {percent}
  %percent = load i64, ptr %percent.at
  %part = mul i64 %parallel.time, 100
  %bound = mul i64 %serial.time, %percent
  %pays = icmp slt i64 %part, %bound
  %settled = select i1 %pays, i64 {parallel}, i64 {serial}
  store i64 %settled, ptr %turn.at
  br label %end
end:
  ret void
}}
"""
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
        return int(self._block[_TURN])

    def linked(self, start: int) -> tuple[int, int]:
        """Return function and block of the fork, now that the table is at an address."""
        at = start + 8 * self._places
        self._block[_WHOLE + 1], self._block[_PAIRS + 1 :: 2] = at[0], at[1:]
        return fork_address(), int(self._block.ctypes.data)


@functools.cache
def fork_address() -> int:
    """Return the address of what runs a fork; raises RuntimeError where there are no threads."""
    from .compiler import compile_text  # llvmlite, which no import of ours may load

    if sys.platform == "win32":
        raise RuntimeError("no POSIX threads here")
    worker = compile_text(_filled(_WORKER))
    POOL.entry = _FUNCTION(worker)
    return compile_text(_filled(_FORK))


@functools.cache
def can_fork() -> bool:
    """Tell whether there are threads that run machine code: not on Windows, nor without llvmlite.

    >>> isinstance(can_fork(), bool)
    True
    """
    from .compiler import available

    try:
        return available() and fork_address() > 0
    except RuntimeError:
        return False


def _filled(text: str) -> str:
    x86 = "declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"
    arm = "declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"
    pauses = {"x86_64": x86, "AMD64": x86, "aarch64": arm, "arm64": arm}
    declared, pause = pauses.get(platform.machine(), ("", "fence seq_cst"))
    return (_HEAD + text).format(
        declared=declared, pause=pause, taken=_TAKEN, word=_WORD, calls=_CALLS, done=_DONE,
        sleepers=_SLEEPERS, waiting=_WAITING, stop=_STOP, mutex=_MUTEX, work=_WORK,
        finished=_FINISHED, worker_spins=_WORKER_SPINS, owner_spins=_OWNER_SPINS, clock=_CLOCK,
        turn=_TURN, times=_TIMES, whole=_WHOLE, count=_COUNT, pairs=_PAIRS, serial=SERIAL,
        parallel=PARALLEL, turns=TURNS, percent=_PERCENT,
    )  # fmt: skip


class Pool:
    """The workers of this process; plans name its cells, which stay where they are."""

    def __init__(self) -> None:
        raw = np.zeros(_CELLS + 8, np.int64)
        at = -(raw.ctypes.data // 8) % 8
        self._cells = raw[at : at + _CELLS]  # each in a cache line of its own
        self.address: int = self._cells.ctypes.data
        self.entry: Any = None
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
        return bool(self._cells[_TAKEN])

    @is_taken.setter
    def is_taken(self, value: bool) -> None:
        self._cells[_TAKEN] = value

    def start(self, n_workers: int) -> None:
        """See to it that there are so many workers."""
        with self._lock:
            self._initialise()
            while len(self._workers) < min(n_workers, MAX_WORKERS):
                name = f"gradwright-worker-{len(self._workers)}"
                worker = Thread(target=self.entry, args=(self.address,), name=name, daemon=True)
                worker.start()
                self._workers.append(worker)

    def stop(self) -> None:
        """End all workers; the next run that needs some begins them again."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._workers:
            mutex, work = self.address + 8 * _MUTEX, self.address + 8 * _WORK
            library = _libc()
            library.pthread_mutex_lock(mutex)
            self._cells[_STOP] = 1
            library.pthread_cond_broadcast(work)
            library.pthread_mutex_unlock(mutex)
            for worker in self._workers:
                worker.join()
            self._cells[_STOP] = 0
            self._workers = []

    def _initialise(self) -> None:
        if self._is_ready:
            return
        self._is_ready = True
        library = _libc()
        library.pthread_mutex_init(self.address + 8 * _MUTEX, None)
        for cell in (_WORK, _FINISHED):
            library.pthread_cond_init(self.address + 8 * cell, None)

    def _before_fork(self) -> None:
        self._lock.acquire()
        self._stop()

    def _after_fork(self) -> None:
        self._lock.release()

    def _in_child(self) -> None:
        self._cells[:_MUTEX] = 0  # the thread that had the pool is not in this process
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
