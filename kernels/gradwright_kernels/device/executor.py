"""The executor of a GPU: a program as a table of launches on fixed addresses.

    body   what the fetches need                         ┐ run
    tail   what only updates need; those that overwrite  ┘ commit

Feeds are copied in, launches follow each other on one stream, fetches are copied out. Variables
live on the device from the first run on; the host has copies of them when somebody asks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwright.errors import MemoryLimitError
from gradwright.graph import Tensor, Values
from gradwright.program.executor import Ask, Env, Observe
from gradwright.program.forward import ServedError, explained, results
from gradwright.program.lowering import Returning
from gradwright.program.program import Instr, Program
from gradwright.program.row import Row, names_of
from gradwright.spec import spec_of
from gradwright.words.tables import size

from .array import Block, DeviceArray, laid
from .lying import Lying, Step, up
from .rows import rows
from .value import DeviceValue

if TYPE_CHECKING:
    from .gpu import Gpu

Array = np.ndarray[Any, Any]
Act = Callable[[], None]


class GpuExecutor:
    """A segment on a GPU; see :class:`gradwright.program.executor.Executor`."""

    state = ""

    def __init__(self, program: Program, device: Gpu, ask: Ask, *, singly: bool = False) -> None:
        self._device, self._ask, self._program = device, ask, program
        how = device.cuda, device.name, device.fallback, ask
        self.laid = Lying(program, *how, singly=singly)
        self._watched: GpuExecutor | None = None
        """The same op by op, for who wants to see all values."""
        self._homes: dict[Tensor, DeviceValue] = {}
        """Where variables go that are on no device yet."""
        self._apart: dict[Tensor, DeviceValue] = {}
        """Where values go that are not the variables' own."""
        self._bound: dict[Tensor, DeviceValue] = {}
        """Where variables lie for the launches as they are written down."""
        self._constants: dict[int, DeviceArray] = {}
        self._arrays: dict[int, DeviceArray] = {}
        self._table: list[list[Act]] = []
        """For each step what is done."""
        self._arena: Block | None = None
        self._feeds: list[tuple[Tensor, DeviceArray]] = []
        self._alarms: list[tuple[int, DeviceArray, Sequence[int]]] = []
        made = {o: n for n, i in enumerate(self.laid.program.instrs) for o in i.outs}
        numbers, n_body = self.laid.program.numbers, self.laid.n_body
        homes = {o.new for o in self.laid.overwrites}
        found = [(t, numbers[t]) for t in self.laid.program.outputs if numbers[t] not in homes]
        self._early = [(t, n) for t, n in found if made.get(n, -1) < n_body]
        self._late = [(t, n) for t, n in found if made.get(n, -1) >= n_body]

    # -- running ---------------------------------------------------------------------------------

    def step(self, env: Env, values: Values) -> bool | None:
        """Say that a run and its commit are two calls."""
        return None

    def run(self, env: Env, values: Values | None = None, observe: Observe = None) -> None:
        """Compute all outputs into ``env``; what only updates need is left to ``commit``."""
        if observe is not None and self._watched is not self:
            self._op_by_op().run(env, values, observe)
            return
        self._read(env, values)
        self._enter(env)
        see = observe and observe(self.laid.program)
        self._do(range(self.laid.n_body), see)
        self._leave(env, self._early)
        self._look_at_alarms()

    def commit(self, env: Env, values: Values, observe: Observe = None) -> bool:
        """Finish the step that ``run`` began: commit all updates, or none; return whether it did.

        What overwrites its variable on the device comes last; nobody ends a step in between.
        """
        if observe is not None and self._watched is not self:
            return self._op_by_op().commit(env, values, observe)
        ask, n = self._ask, len(self.laid.program.instrs)
        if ask.commit_if is not None and not env[ask.commit_if]:
            return False
        see = observe and observe(self.laid.program)
        n_last = len(self._last())
        with values.lock:
            self._do(range(self.laid.n_body, n - n_last), see)
            self._leave(env, self._late)
            homes = set(self.laid.homes.values())
            new = {v: env[t] for v, t in ask.updates.items() if v not in homes}
            with self._device.uninterrupted():
                self._do(range(n - n_last, n), see)
                self._wait()
                self._take(values, new)
        return bool(ask.updates)

    def _op_by_op(self) -> GpuExecutor:
        """Return what runs each op as a kernel of its own, to be held against its ``forward``."""
        if self._watched is None:
            self._watched = GpuExecutor(self._program, self._device, self._ask, singly=True)
            self._watched._watched = self._watched
        return self._watched

    def lend(self, arrays: Mapping[Tensor, Array]) -> None:
        """Do nothing: results are copied to the host."""

    def drop(self) -> None:
        """Do nothing: it holds no array of the host's."""

    @contextlib.contextmanager
    def singly(self, env: Env) -> Iterator[Iterable[tuple[int, Callable[[], Any]]]]:
        """Give its steps one by one, to be timed; nothing commits.

        Updates that overwrite their variables are left out, as they would.
        """
        self._read(env, None)
        self._enter(env)
        n = len(self.laid.program.instrs) - len(self._last())
        yield [(k, functools.partial(self._timed, k)) for k in range(n)]

    def _timed(self, step: int) -> None:
        self._do([step], None)
        self._wait()

    def _last(self) -> list[Instr]:
        """Return the instructions that overwrite variables, which come last."""
        return list({id(o.instr): o.instr for o in self.laid.overwrites}.values())

    def _do(self, steps: Iterable[int], see: Callable[[int, Array], None] | None) -> None:
        for at in steps:
            with self._explaining(at):
                for act in self._table[at]:
                    act()
                for o in self.laid.program.instrs[at].outs if see is not None else ():
                    self._show(o, see)

    @contextlib.contextmanager
    def _explaining(self, step: int) -> Iterator[None]:
        """Have errors name the node of a step."""
        try:
            yield
        except Exception as error:
            cause = explained(error, self.laid.program, step)
            if cause is error:
                raise
            raise cause from error

    def _show(self, number: int, see: Any) -> None:
        """Let a value be seen, and be set by who sees it."""
        array = self._arrays[number]
        found = self._host(array)
        before = found.tobytes()
        see(number, found)
        if found.tobytes() != before and array.flags.c_contiguous:
            cuda, stream = self._device.cuda, self._device.stream
            cuda.copy_in(array.address, found.ctypes.data, found.nbytes, stream)
            cuda.wait(stream)

    def _wait(self) -> None:
        self._device.cuda.wait(self._device.stream)

    # -- what comes in and goes out --------------------------------------------------------------

    def _read(self, env: Env, values: Values | None) -> None:
        """Have all variables on the device, and in ``env`` those that are wanted there."""
        if values is None:
            found = {t: self._home(t, None) for t in self._sources}
            self._bind(found)
            for t, home in found.items():
                home.load(env[t])
            return
        with values.lock:
            found = {t: self._home(t, values) for t in self._sources}
            self._bind(found)
            moved = {}
            for t, home in found.items():
                if values.buffer(t.node.name) is not home:
                    home.load(values.array(t.node.name))
                    moved[t.node.name] = home
            if moved:
                values.move(moved)
            for t in self._ask.variables:
                if t in self._ask.wanted and t not in env:
                    env[t] = values.array(t.node.name)

    @functools.cached_property
    def _sources(self) -> list[Tensor]:
        """The variables that it reads or overwrites."""
        return [t for t in self.laid.program.sources.values() if t.kind == "variable"]

    def _home(self, t: Tensor, values: Values | None) -> DeviceValue:
        """Return where a variable lies, or will."""
        device, own = self._device, self._apart if values is None else self._homes
        held = None if values is None else values.buffer(t.node.name)
        if isinstance(held, DeviceValue) and held.cuda is device.cuda:
            return held
        if t not in own or (own[t] in self._apart.values() and own is self._homes):
            return DeviceValue(device.cuda, device.stream, t.spec, t.node.name)
        return own[t]

    def _enter(self, env: Env) -> None:
        """Copy feeds to the device; they are held until they are there."""
        cuda, stream = self._device.cuda, self._device.stream
        self._held = []
        for t, array in self._feeds:
            dense = np.ascontiguousarray(env[t])
            self._held.append(dense)
            cuda.copy_in(array.address, dense.ctypes.data, dense.nbytes, stream)

    def _leave(self, env: Env, outputs: Sequence[tuple[Tensor, int]]) -> None:
        """Copy results to the host, and wait for them."""
        cuda, stream = self._device.cuda, self._device.stream
        raw = []
        for t, number in outputs:
            array = self._arrays[number]
            raw.append((t, array, np.empty(array.extent, np.uint8)))
            cuda.copy_out(raw[-1][2].ctypes.data, array.address, array.extent, stream)
        self._wait()
        self._held = []
        env.update((t, laid(found, array)) for t, array, found in raw)

    def _host(self, array: DeviceArray) -> Array:
        raw = np.empty(array.extent, np.uint8)
        cuda, stream = self._device.cuda, self._device.stream
        cuda.copy_out(raw.ctypes.data, array.address, raw.nbytes, stream)
        cuda.wait(stream)
        return laid(raw, array)

    def _take(self, values: Values, new: Mapping[Tensor, Array]) -> None:
        """Count what was overwritten, and let other updates be the values."""
        overwritten = [t.node.name for t in self.laid.homes.values()]
        fresh = {}
        for t, array in new.items():
            array = array.copy() if array.base is not None or t in self._ask.kept else array
            array.flags.writeable = False
            fresh[t.node.name] = array
        if overwritten:
            values.overwritten(overwritten)
        if fresh:
            values.commit(fresh)

    def _look_at_alarms(self) -> None:
        """Run the op of a step whose kernel has found something wrong, which tells what."""
        for at, alarm, operands in self._alarms:
            found = self._host(alarm).reshape(-1)
            if not found.any():
                continue
            instr: Any = self.laid.program.instrs[at]
            self._do(range(at), None)  # its inputs may be gone by now
            with self._explaining(at):
                try:
                    self._forward(at)
                except Exception as error:
                    if not operands:
                        raise
                    site = instr.op.sites[operands[int(found.argmax())]]
                    raise ServedError(error, instr.origins[site]) from error

    # -- binding ---------------------------------------------------------------------------------

    def _bind(self, homes: Mapping[Tensor, DeviceValue]) -> None:
        """Write down all launches, for variables that lie there; done again when one has moved."""
        if self._arena is not None and all(self._bound.get(t) is h for t, h in homes.items()):
            return
        if self._arena is None:
            self._check_memory()
            self._arena = self._device.arena(self.laid.layout.nbytes, self._names)
        self._bound, self._alarms = dict(homes), []
        self._lie()
        program = self.laid.program
        self._table = []
        for n, (instr, step) in enumerate(zip(program.instrs, self.laid.steps, strict=True)):
            with self._explaining(n):
                self._table.append(self._acts(n, instr, step))

    @property
    def _names(self) -> str:
        return names_of(self.laid.program.outputs)

    def _check_memory(self) -> None:
        """Raise before anything runs if the device has too little memory."""
        layout, program = self.laid.layout, self.laid.program
        free, total = self._device.cuda.memory()
        constants = sum(program.constants[n].nbytes for n in self._read_constants)
        need = layout.nbytes + constants
        if need > free:
            raise MemoryLimitError(
                f"a run of {self._names} takes {size(need)} on device {self._device.name!r}",
                facts=[
                    f"{size(layout.nbytes)} for what it computes, at its peak",
                    f"{size(constants)} for constants",
                    f"{size(free)} of {size(total)} are free",
                ],
                hint='a smaller batch, checkpoint="sqrt", or half precision',
            )

    @functools.cached_property
    def _read_constants(self) -> set[int]:
        program = self.laid.program
        roots = self.laid.lives.roots
        read = {roots[i] for instr in program.instrs for i in instr.ins if i is not None}
        return {n for n in program.constants if n in read or n in set(program.numbers.values())}

    def _lie(self) -> None:
        """Give each value its place."""
        lying, program = self.laid, self.laid.program
        assert self._arena is not None
        arrays: dict[int, DeviceArray] = {}
        at, self._feeds = self._arena.address + lying.sources, []
        for number, t in program.sources.items():
            if t in self._bound:
                arrays[number] = self._bound[t].array
                continue
            arrays[number] = DeviceArray(at, program.specs[number], name=t.name)
            self._feeds.append((t, arrays[number]))
            at += up(program.specs[number].nbytes)
        for n, step in enumerate(lying.steps):
            for alarm, operands in step.recorder.alarms if step.recorder else ():
                alarm.address = at
                self._alarms.append((n, alarm, operands))
                at += up(alarm.extent)
        for number in self._read_constants:
            if number not in self._constants:
                self._constants[number] = self._uploaded(number)
        arrays |= self._constants
        names = {o: i.path for i in program.instrs for o in i.outs}
        for o in lying.overwrites:
            arrays[o.new] = self._bound[o.variable].array
        for number, offset in lying.layout.offsets.items():
            spec = program.specs[number]
            arrays[number] = DeviceArray(self._arena.address + offset, spec, name=names[number])
        for instr, step in zip(program.instrs, lying.steps, strict=True):
            if step.kind == "view":
                x = instr.ins[0]
                assert x is not None
                for o in instr.outs:
                    shift = lying.ghost(o).ctypes.data - lying.ghost(x).ctypes.data
                    address, strides = arrays[x].address + shift, lying.ghost(o).strides
                    spec = program.specs[o]
                    arrays[o] = DeviceArray(address, spec, strides, name=arrays[x].name)
        self._arrays = arrays

    def _uploaded(self, number: int) -> DeviceArray:
        """Return a constant on the device: one number where it is one throughout."""
        array, ghost = self.laid.program.constants[number], self.laid.ghost(number)
        is_dense = ghost.flags.c_contiguous
        held = np.ascontiguousarray(array) if is_dense else array.reshape(-1)[:1].copy()
        value = DeviceValue(self._device.cuda, self._device.stream, spec_of(held), "constant")
        value.load(held)
        strides = None if is_dense else ghost.strides
        return DeviceArray(
            value.array.address, spec_of(array), strides, name="constant", held=value
        )

    def _acts(self, number: int, instr: Instr, step: Step) -> list[Act]:
        """Return what a step does, in order."""
        if step.kind == "view":
            return []
        if step.kind != "kernel":
            return [functools.partial(self._forward, number)]
        device, recorder = self._device, step.recorder
        assert recorder is not None and self._arena is not None
        at = self._arena.address + self.laid.scratch
        for array in recorder.scratch:
            array.address = at
            at += up(array.extent)
        xs: list[Any] = [None if i is None else self._arrays[i] for i in instr.ins]
        ys = [self._arrays[o] for o in instr.outs]
        launches = recorder.record(step.run, xs, ys)
        node = instr.op.name, instr.path, instr.origin
        acts: list[Act] = []
        if device.cuda.is_checked:
            old = {x.address for x in xs if x is not None}
            fresh = [a for a in (*ys, *recorder.scratch) if a.address not in old]
            acts += [
                functools.partial(device.cuda.forget, a.address, a.extent, device.stream)
                for a in fresh
            ]
        return acts + [
            functools.partial(
                device.cuda.launch, dataclasses.replace(launch, node=node), device.stream
            )
            for launch in launches
        ]

    def _forward(self, number: int) -> None:
        """Run a step on the host: a loop's plans, or an op that has no kernel here."""
        program, step = self.laid.program, self.laid.steps[number]
        instr, device = program.instrs[number], self._device
        xs = [None if i is None else self._host(self._arrays[i]) for i in instr.ins]
        if step.kind == "plans" and not isinstance(step.run, Returning):
            ys: Sequence[Array] = [self._empty(o) for o in instr.outs]
            step.run(xs, ys)
        else:
            returning = step.run if isinstance(step.run, Returning) else None
            ys = results(program, instr, returning, xs)
        held = [np.ascontiguousarray(y) for y in ys]
        for o, y in zip(instr.outs, held, strict=True):
            device.cuda.copy_in(self._arrays[o].address, y.ctypes.data, y.nbytes, device.stream)
        self._wait()

    def _empty(self, number: int) -> Array:
        shape: Any = self.laid.program.specs[number].shape
        return np.empty(shape, self.laid.program.specs[number].dtype)

    # -- reports ---------------------------------------------------------------------------------

    def rows(self, first: int, chain: int) -> list[Row]:
        """Return what each step runs as; all launches are one chain."""
        return rows(self.laid, first, chain)

    def ask(self) -> None:
        """Do nothing: kernels are compiled when a plan is made."""

    def buffers(self) -> Mapping[int, int]:
        """Return the bytes that it keeps between runs: its arena, which other plans share."""
        if self._arena is None:
            return {id(self.laid): self.laid.layout.nbytes}
        return {id(self._arena): self._arena.nbytes}

    def release(self) -> None:
        """Let the arena go; the next run takes it anew. Variables stay."""
        self._arena, self._arrays, self._table, self._feeds = None, {}, [], []
        self._constants, self._homes, self._apart, self._bound = {}, {}, {}, {}
