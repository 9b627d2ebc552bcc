"""Calls: steps of a program in order, of Python one by one, of machine code as chains."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..fuse.fused import Fused
from ..op import run_forward
from ..program.forward import ServedError
from ..program.program import Instr, Program
from ..program.turns import TURNS
from ..spec import TensorSpec
from .call import Call
from .llvm.blas import Limit
from .llvm.chain import IF_ZERO, chain
from .places import address
from .threads.threads import POOL, Fork

Array = np.ndarray[Any, Any]
Step = Callable[[], Any]
Link = tuple[int, int] | Fork
"""Machine code and the place of its block in the table, or several that make a fork."""


@dataclass
class Calls:
    """Calls in order; neighbours of machine code become one chain."""

    n_threads: int = 1
    """The most that a chain uses; with one OpenBLAS does as it likes."""
    found: list[tuple[int, Step | list[Link]]] = field(default_factory=list)
    """For each the first instruction that it runs; chains as functions and places in the table."""
    large: set[int] = field(default_factory=set)
    """Chains that do what several threads would be used for."""
    steps: list[int] = field(default_factory=list)
    """The instruction of each link of all chains."""
    alarms: list[tuple[Array, int, list[Any]]] = field(default_factory=list)
    """What machine code sets, the instruction whose ``forward`` says why, and its inputs."""

    def add(self, step: int, call: Step) -> None:
        """Add a call of Python."""
        TURNS.pause()
        self.found.append((step, call))

    def add_native(self, step: int, link: Link, *, is_large: bool) -> None:
        """Add machine code to the chain that ends here, or begin one."""
        TURNS.pause()
        if not self.found or not isinstance(self.found[-1][1], list):
            self.found.append((step, []))
        natives = self.found[-1][1]
        assert isinstance(natives, list)
        natives.append(link)
        self.steps.append(step)
        if is_large:
            self.large.add(len(self.found) - 1)

    def linked(self, table: Array, program: Program) -> tuple[list[Step], list[int]]:
        """Return the calls, now that the blocks have addresses, and their instructions.

        Alarms are looked at in the end.
        """
        start, calls = address(table), []
        for number, (_, call) in enumerate(self.found):
            if isinstance(call, list):
                call = self._chain(number, call, start)
            calls.append(call)
        heard, steps = self.listening(program)
        return [*calls, *heard], [*(step for step, _ in self.found), *steps]

    def singly(self, table: Array) -> Iterator[tuple[int, Step]]:
        """Yield all calls but alarms, each link by itself, with their instructions."""
        steps, start = iter(self.steps), address(table)
        for number, (step, call) in enumerate(self.found):
            if not isinstance(call, list):
                yield step, call
                continue
            for link in call:
                yield next(steps), self._chain(number, [link], start)

    def _chain(self, number: int, links: Sequence[Link], start: int) -> Step:
        """Return links of a chain as one call, with workers where they are of use."""
        call = chain([_linked(link, start) for link in links])
        several = self.n_threads > 1 and number in self.large
        return functools.partial(_threaded, call, self.n_threads) if several else call

    def listening(self, program: Program) -> tuple[list[Step], list[int]]:
        """Return what raises if an alarm is set, and for which instructions."""
        heard: list[Step] = [
            functools.partial(_listen, alarm, program, step, xs) for alarm, step, xs in self.alarms
        ]
        return heard, [step for _, step, _ in self.alarms]

    def links(self, table: Array) -> list[tuple[int, int]] | None:
        """Return one chain's links, which end at an alarm; None: Python or threads take part."""
        found: list[tuple[int, int]] = []
        for _, call in self.found:
            if not isinstance(call, list) or (self.n_threads > 1 and self.large):
                return None
            found += [_linked(link, address(table)) for link in call]
        return found + [(IF_ZERO, address(alarm)) for alarm, _, _ in self.alarms]


def _linked(link: Link, start: int) -> tuple[int, int]:
    """Return a link now that the table begins at an address."""
    return link.linked(start) if isinstance(link, Fork) else (link[0], start + 8 * link[1])


def _threaded(call: Step, n: int) -> None:
    """Run a chain with workers at hand, and with OpenBLAS in the thread that calls it."""
    if POOL.n_workers < n - 1:
        POOL.start(n - 1)
    with Limit(1):
        call()


def asked(call: Call, instr: Instr) -> list[int | None]:
    """Return the inputs that ``forward`` looks at where the alarm of a call is set."""
    if call.alarm is None or call.tells:
        return []
    return [i if call.about in (None, k) else None for k, i in enumerate(instr.ins)]


def _zeros(spec: TensorSpec) -> Array:
    shape: Any = spec.shape
    return np.broadcast_to(np.zeros((), spec.dtype), shape)


def _listen(alarm: Array, program: Program, step: int, xs: Sequence[Any]) -> None:
    """Let an op look at its inputs where machine code has found something wrong."""
    if not alarm[0]:
        return
    instr = program.instrs[step]
    if len(alarm) == 1:
        ins = [None if i is None else program.specs[i] for i in instr.ins]
        given = [_zeros(s) if x is None and s else x for x, s in zip(xs, ins, strict=True)]
        run_forward(instr.op, given, training=program.training)
        return
    _, place, size, operand = alarm.tolist()
    origin = instr.origins[instr.op.sites[operand]] if isinstance(instr.op, Fused) else instr.origin
    index = place if place >= 0 else place - size
    error = IndexError(f"index {index} is out of range for size {size}")
    raise ServedError(error, origin)
