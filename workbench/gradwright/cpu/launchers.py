"""Launchers: how the instructions of a program run, each made when it is first asked for."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ..fuse.dense import Dense
from ..program.lowering import Found
from ..program.options import current, using
from ..program.program import Instr, Program
from .call import Native, launcher
from .dense import launch_of


class Launchers:
    """The launchers of a program; some hold plans of their own, with the options of now."""

    def __init__(self, program: Program, device: str) -> None:
        self._program, self._device, self._options = program, device, current()
        self._made: dict[int, Found] = {}

    def all(self) -> list[Found]:
        """Return how each instruction runs."""
        with using(*self._options):
            return [self._at(n) for n in range(len(self._program.instrs))]

    def made(self) -> list[Found]:
        """Return those that there are by now."""
        return list(self._made.values())

    def of(self, instr: Instr) -> tuple[bool, Found]:
        """Return whether there is an instruction with its op and outputs, and how it runs."""
        n = self._numbers.get(instr.outs)
        if n is None or self._program.instrs[n].op is not instr.op:
            return False, None
        with using(*self._options):
            return True, self._at(n)

    def within(self, program: Program, instr: Instr) -> Found:
        """Return how an instruction runs among kernels: as here, where it may hold plans."""
        is_there, found = self.of(instr)
        if is_there:
            return found
        if isinstance(instr.op, Dense):
            return launch_of(program, instr)
        return self._launcher(program, instr)

    def in_place(self, instr: Instr) -> Sequence[tuple[int, int]]:
        """Return which outputs of an op that has machine code may lie over which inputs."""
        found = self.of(instr)[1]
        return found.in_place if isinstance(found, Native) else ()

    @functools.cached_property
    def _numbers(self) -> dict[tuple[int, ...], int]:
        return {instr.outs: n for n, instr in enumerate(self._program.instrs)}

    def _at(self, n: int) -> Found:
        if n not in self._made:
            self._made[n] = self._launcher(self._program, self._program.instrs[n])
        return self._made[n]

    def _launcher(self, program: Program, instr: Instr) -> Found:
        ins = [None if i is None else program.specs[i] for i in instr.ins]
        return launcher(instr.op, self._device, ins, [program.specs[o] for o in instr.outs])
