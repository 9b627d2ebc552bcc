"""Machine code of workers and of forks; `threads` says what they are.

A worker's text and a fork's are LLVM's, written out: they talk through the cells of the pool, all
accesses to which are in one order for everybody. Who takes a call changes ``WORD`` from what it has
seen, generation included, so that no one takes a call of a fork that is over. Who goes to sleep
counts itself in before it looks for the last time; who has something to say looks at the count
after it has said it.
"""

from __future__ import annotations

import functools
import sys
from enum import IntEnum

from ..llvm.target import Target, target

SERIAL, PARALLEL = -1, -2
TURNS = 16
"""Runs in which a fork is measured: eight each way, of which the shortest counts."""
OWN_TIME = 16 if sys.platform == "darwin" else 3
"""CLOCK_THREAD_CPUTIME_ID: what the fork's owner has worked and watched, not what others took from
it. By the time of day a busy machine, or another library's waiting threads, made forks look slow
that halve a step later: ResNet-50 took 53 ms in two threads instead of 38."""
SPINS, OWNER_SPINS = 2000, 4000
"""How often a worker looks for work, and a fork's owner for its end, before it sleeps: 50 µs."""


class Cell(IntEnum):
    """Where things stand in the pool: each has a cache line of its own."""

    TAKEN = 0
    WORD = 8
    """How many calls are left; above them, in 32 bits, how many forks there have been."""
    CALLS = 16
    DONE = 24
    SLEEPERS = 32
    WAITING = 40
    STOP = 48
    MUTEX = 64
    WORK = 80
    FINISHED = 96
    END = 112


class Place(IntEnum):
    """Where things stand in the block of a fork, after the address of the pool."""

    TURN = 1
    TIMES = 2
    WHOLE = 4
    PERCENT = 6
    COUNT = 7
    PAIRS = 8


@functools.cache
def worker_address() -> int:
    """Return the address of what a worker runs on the cells of the pool, until it is stopped."""
    return _compiled("worker")


@functools.cache
def fork_address() -> int:
    """Return the address of what runs the block of a fork.

    Raises RuntimeError where there are no POSIX threads.
    """
    return _compiled("fork")


def _compiled(kind: str) -> int:
    from ..llvm.compiler import compile_text  # llvmlite, which no import of ours may load

    if sys.platform == "win32":
        raise RuntimeError("no POSIX threads here")
    return compile_text(source(kind, target()))


def source(kind: str, target: Target) -> str:
    """Return the text of what a ``"worker"`` runs, or of a ``"fork"``.

    >>> "x86" in source("fork", Target("native", "aarch64", frozenset()))
    False
    """
    x86 = "declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"
    arm = "declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"
    declared, pause = x86 if target.is_x86 else arm if target.is_arm else ("", "fence seq_cst")
    numbers = {at.name.lower(): int(at) for at in (*Cell, *Place)}
    return (_COMMON + {"worker": _WORKER, "fork": _FORK}[kind]).format(
        **numbers,
        declared=declared,
        pause=pause,
        serial=SERIAL,
        parallel=PARALLEL,
        turns=TURNS,
        spins=SPINS,
        owner_spins=OWNER_SPINS,
        clock=OWN_TIME,
    )


_COMMON = """
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
{declared}

define internal i1 @claim(ptr %cells) noinline {{
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
  %got = call i1 @claim(ptr %cells)
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
  %spins = phi i64 [ {spins}, %claiming ], [ %fewer, %again ]
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
  %others = sub i64 %n, 1
  %new = or i64 %high, %others
  %was = atomicrmw xchg ptr %word.at, i64 %new seq_cst
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %sleeps = icmp sgt i64 %sleepers, 0
  br i1 %sleeps, label %rouse, label %own
rouse:
  call i32 @pthread_mutex_lock(ptr %mutex)
  br label %rousing
rousing:
  %wanted = phi i64 [ %others, %rouse ], [ %fewer.wanted, %rousing ]
  %fewer.wanted = sub i64 %wanted, 1
  call i32 @pthread_cond_signal(ptr %work)
  %more.wanted = icmp sgt i64 %fewer.wanted, 0
  br i1 %more.wanted, label %rousing, label %roused
roused:
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %own
own:
  %last.place = mul i64 %others, 2
  %last.at = getelementptr i64, ptr %calls, i64 %last.place
  %last.block.at = getelementptr i64, ptr %last.at, i64 1
  %last = load ptr, ptr %last.at
  %last.block = load ptr, ptr %last.block.at
  call void %last(ptr %last.block)
  br label %claiming
claiming:
  %got = call i1 @claim(ptr %cells)
  br i1 %got, label %claiming, label %watch
watch:
  %spins = phi i64 [ {owner_spins}, %claiming ], [ %fewer, %again ]
  %done = load atomic i64, ptr %done.at seq_cst, align 8
  %all = icmp eq i64 %done, %others
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
  %all.now = icmp eq i64 %done.now, %others
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
