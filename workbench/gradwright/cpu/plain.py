"""Plain: a program in numpy, pre-bound calls over an arena."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Tensor
from ..graph.collecting import without_collecting
from ..program.forward import apart, explained, results
from ..program.liveness import Lifetimes, place
from ..program.lowering import Found, Launch, Returning
from ..program.memory import Layout
from ..program.program import Instr, Program
from ..spec import spec_of
from .blocks import Loan, name_of
from .call import numpy_launch, overwritable
from .launchers import Launchers
from .memory import Memory

Array = np.ndarray[Any, Any]
Registers = list[Any]
Observe = Callable[[int, Array], None]
Write = tuple[Tensor, int, Callable[[Array], Array] | None]
"""A result, its register, and what copies it if others have it, too."""


class Plain:
    """Runs a program: reads sources into registers, calls step after step, returns outputs.

    A value lives in the arena when a launcher writes it and nobody outside keeps it. Each result
    that leaves the segment is an array that nobody else holds: who writes into it changes no other
    result, no feed and no stored value.
    """

    def __init__(self, program: Program, device: Memory) -> None:
        self.program, self.device = program, device
        self.launchers = Launchers(program, device.name)
        self.registers: Registers = []
        self._steps: list[Callable[[Registers], None]] = []
        n = len(program.instrs)
        self.n_body = n if program.n_body is None else program.n_body
        self._writes: tuple[list[Write], list[Write]] = [], []
        """What the body and the tail write."""
        self._filled: list[tuple[list[Any], Sequence[int]]] = []
        """Arguments of calls that lie in the arena."""

    # What only its own runs need: a plan whose kernels are on disk never makes it.

    @functools.cached_property
    def lives(self) -> Lifetimes:
        """When its values are alive."""
        return Lifetimes(self.program)

    @property
    def found(self) -> list[Found]:
        """How each instruction runs; some hold plans of their own."""
        return self.launchers.all()

    @functools.cached_property
    def _launches(self) -> list[Launch | Returning | None]:
        return [numpy_launch(found) for found in self.found]

    @functools.cached_property
    def _placed(self) -> tuple[Layout, dict[int, int]]:
        return self._place(self._launches)

    @property
    def layout(self) -> Layout:
        """Where values lie in the arena."""
        return self._placed[0]

    @property
    def over(self) -> dict[int, int]:
        """Values that are written over another one."""
        return self._placed[1]

    @functools.cached_property
    def _frees(self) -> list[list[int]]:
        return self._free_lists()

    @functools.cached_property
    def _transient(self) -> list[int]:
        there = self.program.constants.keys() | self.layout.offsets.keys()
        return [i for i in range(len(self.program.specs)) if i not in there]

    @functools.cached_property
    def _loan(self) -> Loan | None:
        return Loan.of(self.device.blocks, self.layout.nbytes, self.program, self._lie)

    # -- preparation -----------------------------------------------------------------------------

    def _place(
        self, launches: Sequence[Launch | Returning | None]
    ) -> tuple[Layout, dict[int, int]]:
        """Lay out what launchers write; some write over an input that dies."""
        if self.device.guarded:
            return Layout({}, 0, 0), {}
        program = self.program
        fixed = [launch is not None and not isinstance(launch, Returning) for launch in launches]
        overwrites = {
            step: overwritable(
                instr.op,
                self.device.name,
                [None if i is None else program.specs[i] for i in instr.ins],
                [program.specs[o] for o in instr.outs],
            )
            for step, instr in enumerate(program.instrs)
            if fixed[step]
        }
        return place(self.lives, fixed, overwrites)

    @without_collecting()
    def prepare(self) -> None:
        """Allocate the arena and bind every step to it; the first run does so."""
        program = self.program
        registers: Registers = [None] * len(program.specs)
        for number, array in program.constants.items():
            registers[number] = array
        self.registers, self._filled = registers, []
        if self._loan is None:
            self._lie(self.device.arena(self.layout.nbytes, name_of(program)))
        self._steps = [self._bind(n, launch) for n, launch in enumerate(self._launches)]
        given_away = {*program.sources, *program.constants}
        self._writes = [], []
        for t in program.outputs:
            number = program.numbers[t]
            is_shared = self.lives.roots[number] != number or number in given_away
            is_late = self.lives.born.get(number, -1) >= self.n_body
            write = t, number, self._copier(number) if is_shared else None
            self._writes[is_late].append(write)
            given_away.add(number)

    def _lie(self, arena: Array | None) -> None:
        """Lie in an arena, be it for one run; None: in none any more."""
        registers, specs = self.registers, self.program.specs
        for number, offset in self.layout.offsets.items():
            shape: Any = specs[number].shape
            registers[number] = (
                None if arena is None else np.ndarray(shape, specs[number].dtype, arena, offset)
            )
        for arguments, numbers in self._filled:
            arguments[:] = [registers[i] for i in numbers]

    def release(self) -> None:
        """Let the arena and all spare arrays go; the next run prepares them again."""
        if self.registers and self._loan is not None:
            self._loan.end()
        self.registers, self._steps, self._writes, self._filled = [], [], ([], []), []

    @property
    def arena(self) -> Array | None:
        """The memory that it is bound to, if it is prepared."""
        for number in self.layout.offsets if self.registers else ():
            base: Any = getattr(self.registers[number], "base", None)
            return base  # type: ignore[no-any-return]
        return None

    @property
    def homes(self) -> dict[int, Tensor]:
        """Updates that overwrite their variables: none, new arrays are swapped in."""
        return {}

    def _free_lists(self) -> list[list[int]]:
        """Return per step the registers whose arrays nobody reads afterwards."""
        frees: list[list[int]] = [[] for _ in self.program.instrs]
        roots, dies = self.lives.roots, self.lives.dies
        for instr in self.program.instrs:
            for o in instr.outs:
                if o not in self.layout.offsets and roots[o] not in self.lives.leaving:
                    frees[dies[roots[o]]].append(o)
        return frees

    def _copier(self, number: int) -> Callable[[Array], Array]:
        """Return what copies a value that others hold, too."""
        spec = self.program.specs[number]
        if self.device.guarded or spec.by_reference or not spec.is_concrete:
            return lambda value: value.copy()
        take = self.device.results(spec)

        def copied(value: Array) -> Array:
            result = take()
            np.copyto(result, value)
            return result

        return copied

    def _bind(self, number: int, launch: Launch | Returning | None) -> Callable[[Registers], None]:
        instr, device, frees = self.program.instrs[number], self.device, self._frees[number]
        ins, outs = instr.ins, instr.outs
        if launch is None or isinstance(launch, Returning) or device.guarded:
            return self._bind_forward(instr, launch, frees)
        if any(i is None for i in ins):
            padded = tuple(-1 if i is None else i for i in ins)
            read: Any = lambda regs: [None if i < 0 else regs[i] for i in padded]  # noqa: E731
        else:
            read = lambda regs: [regs[i] for i in ins]  # noqa: E731
        fixed = all(o in self.layout.offsets for o in outs)
        if fixed and not frees:
            results = [self.registers[o] for o in outs]
            self._filled.append((results, outs))
            if len(ins) == 1 and ins[0] is not None:
                only = ins[0]
                return lambda regs: launch((regs[only],), results)
            if len(ins) == 2 and ins[0] is not None and ins[1] is not None:
                first, second = ins[0], ins[1]
                return lambda regs: launch((regs[first], regs[second]), results)
            return lambda regs: launch(read(regs), results)
        fresh = [o for o in outs if o not in self.layout.offsets]
        spares = [(o, device.results(self.program.specs[o])) for o in fresh]

        def run(regs: Registers) -> None:
            for o, take in spares:
                regs[o] = take()
            launch(read(regs), [regs[o] for o in outs])
            for i in frees:
                regs[i] = None

        return run

    def _bind_forward(
        self, instr: Instr, launch: Launch | Returning | None, frees: Sequence[int]
    ) -> Callable[[Registers], None]:
        op, ins, outs, device = instr.op, instr.ins, instr.outs, self.device
        specs = [self.program.specs[o] for o in outs]
        program, views = self.program, op.views

        def run(regs: Registers) -> None:
            xs = [None if i is None else regs[i] for i in ins]
            if launch is not None and not isinstance(launch, Returning):
                ys: Sequence[Array] = [device.empty(s) for s in specs]
                launch(xs, ys)
            else:
                ys = results(program, instr, launch, xs)
                if device.guarded:
                    ys = [_copied(y, device) for y in ys]
                elif not views:
                    ys = apart(ys, xs)
            for o, y in zip(outs, ys, strict=True):
                regs[o] = y
            if device.guarded:
                device.check(f"{op.name} {instr.path!r}")
            for i in frees:
                if device.guarded:
                    device.free(regs[i])
                regs[i] = None

        return run

    # -- running ---------------------------------------------------------------------------------

    def run(self, env: dict[Tensor, Array], observe: Observe | None = None) -> None:
        """Compute the outputs into ``env``, but for those that only ``finish`` makes.

        ``observe`` sees every value as it appears.
        """
        self._begin(env)
        self._run(False, env, observe)
        if self.n_body == len(self._steps):
            self.drop()

    def finish(self, env: dict[Tensor, Array], observe: Observe | None = None) -> None:
        """Compute what only updates need, after ``run``."""
        self._run(True, env, observe)
        self.drop()

    @contextlib.contextmanager
    def singly(self, env: Mapping[Tensor, Array]) -> Iterator[list[tuple[int, Callable[[], Any]]]]:
        """Yield its calls one by one with their steps, in order; ``env`` is as in ``run``."""
        self._begin(env)
        try:
            yield [
                (step, functools.partial(call, self.registers))
                for step, call in enumerate(self._steps)
            ]
        finally:
            self.drop()

    def _begin(self, env: Mapping[Tensor, Array]) -> None:
        """Take memory, and what comes in."""
        if not self.registers:
            self.prepare()
        if self._loan is not None:
            self._loan.begin()
        for number, t in self.program.sources.items():
            self.registers[number] = env[t]

    def drop(self) -> None:
        """Hold no array that is not its own."""
        for i in self._transient:
            self.registers[i] = None
        if self._loan is not None:
            self._loan.end()

    def _run(self, is_tail: bool, env: dict[Tensor, Array], observe: Observe | None) -> None:
        regs = self.registers
        start, stop = (self.n_body, len(self._steps)) if is_tail else (0, self.n_body)
        step = start
        try:
            if observe is None:
                for call in self._steps[start:stop]:
                    call(regs)
                    step += 1
            else:
                for step in range(start, stop):
                    held = [regs[i] for i in self._frees[step]]
                    self._steps[step](regs)
                    for o in self.program.instrs[step].outs:
                        if regs[o] is not None:
                            observe(o, regs[o])
                    del held
            for t, number, copied in self._writes[is_tail]:
                env[t] = copied(regs[number]) if copied else regs[number]
        except Exception as error:
            self.drop()
            cause = explained(error, self.program, step)
            if cause is error:
                raise
            raise cause from error
        except BaseException:
            self.drop()
            raise


def _copied(y: Array, device: Memory) -> Array:
    copy = device.empty(spec_of(y))
    np.copyto(copy, y)
    return copy
