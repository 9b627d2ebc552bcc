"""Updates that the device decides on: a step is begun as a whole, and no host looks in between.

    ok = commit_if ∧ no kernel has told of anything wrong        one launch for each that may
    new value of a variable = ok ? new : old

The choice is an op of the program, so that it becomes part of the kernel that overwrites the
variable: it reads one number more.
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from gradwright.fuse.dense import is_plain
from gradwright.ops.core.choice import Where
from gradwright.program.executor import Ask
from gradwright.program.program import Instr, Program
from gradwright.spec import TensorSpec

from ..compile.compiler import Call
from .array import DeviceArray
from .cuda import Cuda, Launch
from .launcher import Launcher

OK = TensorSpec((), "bool")
BLOCK = 256


def guarded(program: Program, ask: Ask) -> tuple[Program, int | None]:
    """Return a program whose updates are chosen, and the value that chooses, which nobody makes.

    None: an update is something else beside, or no array like its variable, or that is fed; the
    host decides then.
    """
    held = {t: number for number, t in program.sources.items()}
    read = set(ask.variables)
    counts = collections.Counter(ask.updates.values())
    pairs = [(v, t, program.numbers.get(t)) for v, t in ask.updates.items()]
    if not ask.is_whole or not all(
        n is not None
        and counts[t] == 1
        and t not in ask.kept
        and t is not ask.commit_if
        and (v not in held or v in read)
        and is_plain(v.spec)
        and program.specs[n] == v.spec
        for v, t, n in pairs
    ):
        return program, None
    work = dataclasses.replace(
        program,
        specs=list(program.specs),
        instrs=list(program.instrs),
        sources=dict(program.sources),
        numbers=dict(program.numbers),
    )
    ok = work.new_value(OK)
    for v, t, new in pairs:
        if v not in held:
            held[v] = work.new_value(v.spec)
            work.sources[held[v]] = v
        work.numbers[t] = work.new_value(v.spec)
        ins, outs = (ok, new, held[v]), (work.numbers[t],)
        work.instrs.append(Instr(Where(), ins, outs, t.node, t.node.name))
    return work, ok


def chosen_last(program: Program, ok: int) -> None:
    """Put last what depends on the choice."""
    found = {ok}
    free: list[Instr] = []
    bound: list[Instr] = []
    for instr in program.instrs:
        if found.isdisjoint(i for i in instr.ins if i is not None):
            free.append(instr)
        else:
            bound.append(instr)
            found.update(instr.outs)
    program.instrs = free + bound


@triton.jit
def _decide_kernel(held_ptr, alarm_ptr, ok_ptr, n, BLOCK: tl.constexpr):
    """Tell whether updates become values.

    held_ptr: bool[], what is asked for; alarm_ptr: [n], all 0 if nothing is wrong; ok_ptr: bool[].
    """
    ok = tl.full((1,), 1, tl.int32)
    if held_ptr is not None:
        ok = tl.load(held_ptr + tl.arange(0, 1)).to(tl.int32)
    if alarm_ptr is not None:
        for first in range(0, n, BLOCK):
            at = first + tl.arange(0, BLOCK)
            wrong = tl.load(alarm_ptr + at, mask=at < n, other=0) != 0
            ok = tl.where(tl.max(wrong.to(tl.int32), axis=0) > 0, 0, ok)
    tl.store(ok_ptr + tl.arange(0, 1), ok != 0)


def deciding(
    cuda: Cuda, ok: DeviceArray, asked: DeviceArray | None, alarms: Sequence[DeviceArray]
) -> list[Launch]:
    """Return the launches that decide, by what is asked for and by all alarms."""
    found: list[Launch] = []
    for held, alarm in [(asked, alarms[0] if alarms else None), *((ok, a) for a in alarms[1:])]:
        given = [a for a in (held, alarm, ok) if a is not None]
        args: dict[str, Any] = {
            "held_ptr": None if held is None else np.dtype(bool),
            "alarm_ptr": None if alarm is None else alarm.dtype,
            "ok_ptr": np.dtype(bool),
            "n": 0 if alarm is None else TensorSpec(alarm.shape, alarm.dtype).size,
            "BLOCK": BLOCK,
        }
        call = Call(_decide_kernel, (1, 1, 1), args, num_warps=1)
        Launcher(cuda.load(call), found.append)(*given)
    return found
