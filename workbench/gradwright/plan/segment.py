"""Segment: the executable form of a program: pre-bound calls over an arena."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..device import Device
from ..errors import GradwrightError, LoweringError
from ..graph import Tensor
from ..graph.build import failed, miscounted
from ..lowering import Launch, Returning, find_launch, numpy_launch, overwritable
from ..op import run_forward
from ..rewrite import Instr, Program
from ..spec import spec_of
from .liveness import Lifetimes, place
from .memory import Layout, Spares

Array = np.ndarray[Any, Any]
Registers = list[Any]
Observe = Callable[[int, Array], None]


class Segment:
    """Runs a program: reads sources into registers, calls step after step, returns outputs.

    A value lives in the arena when a launcher writes it and nobody outside keeps it. Each result
    that leaves the segment is an array that nobody else holds: who writes into it changes no other
    result, no feed and no stored value.
    """

    def __init__(self, program: Program, device: Device) -> None:
        self.program, self.device = program, device
        self.lives = Lifetimes(program)
        self._launches: list[Launch | Returning | None] = [
            numpy_launch(
                find_launch(
                    instr.op,
                    device.name,
                    [None if i is None else program.specs[i] for i in instr.ins],
                    [program.specs[o] for o in instr.outs],
                )
            )
            for instr in program.instrs
        ]
        self.layout, self.over = self._place(self._launches)
        self._frees = self._free_lists()
        self._transient = [
            i
            for i in range(len(program.specs))
            if i not in program.constants and i not in self.layout.offsets
        ]
        self.registers: Registers = []
        self._steps: list[Callable[[Registers], None]] = []
        self._writes: list[tuple[Tensor, int, Callable[[Array], Array] | None]] = []

    # -- preparation -----------------------------------------------------------------------------

    def _place(
        self, launches: Sequence[Launch | Returning | None]
    ) -> tuple[Layout, dict[int, int]]:
        """Lay out what launchers write; a ufunc writes over an input that dies."""
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
            if fixed[step] and instr.op.ufunc is not None
        }
        return place(self.lives, fixed, overwrites)

    def prepare(self) -> None:
        """Allocate the arena and bind every step to it; the first run does so."""
        program = self.program
        registers: Registers = [None] * len(program.specs)
        arena = self.device.arena(self.layout.nbytes)
        for number, array in program.constants.items():
            registers[number] = array
        for number, offset in self.layout.offsets.items():
            spec = program.specs[number]
            shape: Any = spec.shape
            registers[number] = np.ndarray(shape, spec.dtype, arena, offset)
        self.registers = registers
        self._steps = [self._bind(n, launch) for n, launch in enumerate(self._launches)]
        given_away = {*program.sources, *program.constants}
        self._writes = []
        for t in program.outputs:
            number = program.numbers[t]
            is_shared = self.lives.roots[number] != number or number in given_away
            self._writes.append((t, number, self._copier(number) if is_shared else None))
            given_away.add(number)

    def release(self) -> None:
        """Let the arena and all spare arrays go; the next run prepares them again."""
        self.registers, self._steps, self._writes = [], [], []

    @property
    def arena(self) -> Array | None:
        """The memory that it is bound to, if it is prepared."""
        for number in self.layout.offsets:
            base: Any = self.registers[number].base if self.registers else None
            return base  # type: ignore[no-any-return]
        return None

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
        if self.device.name != "cpu" or spec.by_reference or not spec.is_concrete:
            return lambda value: value.copy()
        take = Spares(spec, self.device.empty).take

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
            if len(ins) == 1 and ins[0] is not None:
                only = ins[0]
                return lambda regs: launch((regs[only],), results)
            if len(ins) == 2 and ins[0] is not None and ins[1] is not None:
                first, second = ins[0], ins[1]
                return lambda regs: launch((regs[first], regs[second]), results)
            return lambda regs: launch(read(regs), results)
        fresh = [o for o in outs if o not in self.layout.offsets]
        spares = [(o, Spares(self.program.specs[o], device.empty).take) for o in fresh]

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
        views, training = op.views, self.program.training

        def run(regs: Registers) -> None:
            xs = [None if i is None else regs[i] for i in ins]
            if launch is not None and not isinstance(launch, Returning):
                ys: Sequence[Array] = [device.empty(s) for s in specs]
                launch(xs, ys)
            else:
                ys = launch.run(xs) if launch else run_forward(op, xs, training=training)
                if len(ys) != len(specs):
                    raise miscounted(len(ys), len(specs))
                for s, y in zip(specs, ys, strict=True):
                    if y.dtype != s.dtype or (y.shape != s.shape and s.is_concrete):
                        raise LoweringError(
                            f"forward gave {y.dtype}{list(y.shape)}", need=f"{s}, as infer says"
                        )
                if device.guarded:
                    ys = [_copied(y, device) for y in ys]
                elif not views:
                    ys = [y.copy() if _is_part_of(y, xs) else y for y in ys]
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
        """Compute the outputs into ``env``; ``observe`` sees every value as it appears."""
        if not self.registers:
            self.prepare()
        regs = self.registers
        for number, t in self.program.sources.items():
            regs[number] = env[t]
        step = 0
        try:
            if observe is None:
                for call in self._steps:
                    call(regs)
                    step += 1
            else:
                for call, instr in zip(self._steps, self.program.instrs, strict=True):
                    held = [regs[i] for i in self._frees[step]]
                    call(regs)
                    for o in instr.outs:
                        if regs[o] is not None:
                            observe(o, regs[o])
                    del held
                    step += 1
            for t, number, copied in self._writes:
                env[t] = copied(regs[number]) if copied else regs[number]
        except GradwrightError as error:
            self._locate(error, step)
            raise
        except MemoryError:
            raise
        except Exception as error:
            raise self._explain(error, step) from error
        finally:
            for i in self._transient:
                regs[i] = None

    def _locate(self, error: GradwrightError, step: int) -> None:
        if not error.where:
            node = self.program.instrs[step].origin
            error.where = f"{node.op.name} {node.name!r}" + (
                f" ({node.where})" if node.where else ""
            )

    def _explain(self, error: Exception, step: int) -> LoweringError:
        instr = self.program.instrs[step]
        specs = [None if i is None else self.program.specs[i] for i in instr.ins]
        return failed(error, instr.origin, instr.op, specs, instr.path)


def _is_part_of(y: Array, xs: Sequence[Array | None]) -> bool:
    """Tell whether an op that declares no views returned an input, or a view of one."""
    if y.base is None:
        return any(y is x for x in xs)
    return any(x is not None and np.may_share_memory(y, x) for x in xs)


def _copied(y: Array, device: Device) -> Array:
    copy = device.empty(spec_of(y))
    np.copyto(copy, y)
    return copy
