"""What a program does on a device, step by step, with all addresses filled in.

A step that is one from feeds to updates is done launch by launch at first; from the second time on
it is a graph, which has the same addresses, and is launched as one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwright.errors import LoweringError
from gradwright.graph import Tensor
from gradwright.program.executor import Env
from gradwright.program.forward import ServedError, explained
from gradwright.program.program import Instr
from gradwright.spec import spec_of

from .array import Block, DeviceArray, get, put
from .cuda import Cuda, Launch
from .guard import OK, deciding
from .joined import Joined
from .launcher import Launcher
from .lying import Lying, Step, up
from .staging import Traffic
from .value import DeviceValue

if TYPE_CHECKING:
    from .gpu import Gpu

Array = np.ndarray[Any, Any]
Act = Callable[[], None]
See = Callable[[int, Array], None] | None


class Graph:
    """What a stream was given since it began to keep that; forgotten when nobody holds it."""

    def __init__(self, cuda: Cuda, stream: int) -> None:
        self.handle = cuda.end_graph(stream)
        weakref.finalize(self, cuda.free_graph, self.handle).atexit = False


class Table:
    """A program bound to memory: for each step the launches, written down once.

    ``constants`` are those that lie on the device, and stay there; ``results`` are what the host
    gets, but for those that ``stay``. ``asked`` is the value on which updates depend, if the
    program has it.
    """

    def __init__(
        self,
        lying: Lying,
        device: Gpu,
        arena: Block,
        homes: Mapping[Tensor, DeviceValue],
        constants: dict[int, DeviceArray],
        results: Mapping[Tensor, int],
        stay: Collection[Tensor],
        asked: int | None,
    ) -> None:
        self._start, self._arena, self.homes = arena.address, weakref.ref(arena), dict(homes)
        self._lying, self._device = lying, device
        self._feeds: list[tuple[Tensor, DeviceArray]] = []
        self._alarms: list[tuple[int, DeviceArray, Sequence[int]]] = []
        self._arrays = self._lie(constants)
        self._held: list[DeviceArray] = []
        """What launches read beside values."""
        self._acts: list[list[Act]] = []
        for n, (instr, step) in enumerate(zip(lying.program.instrs, lying.steps, strict=True)):
            with self._explaining(n):
                self._acts.append(self._of(n, instr, step))
        alarms = [alarm for _, alarm, _ in self._alarms]
        given = None if asked is None else self._arrays[asked]
        self._allow = [] if lying.ok is None else self._deciding(None, [])
        self._decide = [] if lying.ok is None and not alarms else self._deciding(given, alarms)
        self._results, self._stay = results, stay
        there: dict[Tensor | None, DeviceArray] = {}
        if lying.ok is not None or alarms:
            there[None] = self._ok
        there |= {t: self._arrays[n] for t, n in results.items() if n in self._arrays}
        self._traffic = Traffic(device, self._feeds, there)
        self._graph: Graph | None = None
        self._has_run = False

    def is_bound(self, arena: Block, homes: Mapping[Tensor, DeviceValue]) -> bool:
        """Tell whether all lies where it did."""
        is_same = self._arena() is arena and self.homes == homes
        return is_same and self._traffic.is_there

    @property
    def arena(self) -> Block | None:
        """The memory that it is bound to, which the device holds; None: it has let it go."""
        return self._arena()

    # -- where values lie ------------------------------------------------------------------------

    def _lie(self, constants: dict[int, DeviceArray]) -> dict[int, DeviceArray]:
        lying, program, start = self._lying, self._lying.program, self._start
        arrays: dict[int, DeviceArray] = {}
        at = start + lying.sources
        for number, t in program.sources.items():
            if t in self.homes:
                arrays[number] = self.homes[t].array
        for number in lying.fed:
            t, spec = program.sources[number], program.specs[number]
            arrays[number] = DeviceArray(at, spec, name=t.name)
            self._feeds.append((t, arrays[number]))
            at += up(spec.nbytes)
        for n, step in enumerate(lying.steps):
            for alarm, operands in step.recorder.alarms if step.recorder else ():
                alarm.address = at
                self._alarms.append((n, alarm, operands))
                at += up(alarm.extent)
        self._ok = DeviceArray(at, OK, name="ok")
        if lying.ok is not None:
            arrays[lying.ok] = self._ok
        for number in lying.read_constants() - constants.keys():
            constants[number] = self._uploaded(number)
        arrays |= constants
        for o in lying.overwrites:
            arrays[o.new] = self.homes[o.variable].array
        names = {o: i.path for i in program.instrs for o in i.outs}
        for number, offset in lying.layout.offsets.items():
            spec = program.specs[number]
            arrays[number] = DeviceArray(start + offset, spec, name=names[number])
        for instr, step in zip(program.instrs, lying.steps, strict=True):
            if step.kind == "view":
                arrays |= self._views(instr, arrays)
        return arrays

    def _views(self, instr: Instr, arrays: Mapping[int, DeviceArray]) -> dict[int, DeviceArray]:
        """Return the results of an op that are views of its first input."""
        lying, x = self._lying, instr.ins[0]
        assert x is not None
        found = {}
        for o in instr.outs:
            ghost = lying.ghost(o)
            at = arrays[x].address + ghost.ctypes.data - lying.ghost(x).ctypes.data
            spec = lying.program.specs[o]
            found[o] = DeviceArray(at, spec, ghost.strides, name=arrays[x].name)
        return found

    def _uploaded(self, number: int) -> DeviceArray:
        """Return a constant on the device: one number where it is one throughout."""
        array, ghost = self._lying.program.constants[number], self._lying.ghost(number)
        cuda, stream = self._device.cuda, self._device.stream
        if ghost.flags.c_contiguous:
            return put(cuda, array, stream, "constant")
        held = put(cuda, array[(slice(0, 1),) * array.ndim], stream, "constant")
        spec = spec_of(array)
        return DeviceArray(held.address, spec, ghost.strides, name="constant", held=held)

    # -- what is done ----------------------------------------------------------------------------

    def _of(self, number: int, instr: Instr, step: Step) -> list[Act]:
        """Return what a step does, in order."""
        if step.kind == "view":
            return []
        if step.kind != "kernel":
            return [functools.partial(self._forward, number)]
        cuda, stream, recorder = self._device.cuda, self._device.stream, step.recorder
        assert recorder is not None
        at = self._start + self._lying.scratch
        for array in recorder.scratch:
            array.address = at
            at += up(array.extent)
        for array, numbers in recorder.constants:
            if array.held is None:
                array.held = put(cuda, numbers, stream, "constant")
                array.address = array.held.address
        xs: list[Any] = [None if i is None else self._arrays[i] for i in instr.ins]
        ys = [self._arrays[o] for o in instr.outs]
        joined = self._lying.in_joined.get(number)
        if joined is not None:
            launches = self._joined(joined) if number == joined.steps[-1] else []
        else:
            launches = recorder.record(step.run, xs, ys)
        node = instr.op.name, instr.path, instr.origin
        acts: list[Act] = []
        if cuda.is_checked:
            old = {x.address for x in xs if x is not None}
            for a in (*ys, *recorder.scratch):
                if a.address not in old:
                    acts.append(functools.partial(cuda.forget, a.address, a.extent, stream))
        for launch in launches:
            said = dataclasses.replace(launch, node=node)
            acts.append(functools.partial(cuda.launch, said, stream))
        return acts

    def _joined(self, joined: Joined) -> list[Launch]:
        """Return the launch of updates that are one, with their addresses in a table."""
        cuda, stream, made = self._device.cuda, self._device.stream, joined.made
        instrs = self._lying.program.instrs[joined.steps.start : joined.steps.stop]
        operands = [[self._arrays[n] for n in (*i.ins, *i.outs) if n is not None] for i in instrs]
        table = made.table([[array.address for array in row] for row in operands])
        given = [put(cuda, made.of, stream, "of"), put(cuda, table, stream, "table")]
        self._held += given
        launch = Launcher(joined.function).bind(tuple(given))
        followed = {a.address: (a.name, a.address, a.extent) for row in operands for a in row}
        return [dataclasses.replace(launch, followed=tuple(followed.values()))]

    def _deciding(self, asked: DeviceArray | None, alarms: Sequence[DeviceArray]) -> list[Act]:
        """Return what decides whether updates become values."""
        cuda, stream = self._device.cuda, self._device.stream
        launches = deciding(cuda, self._ok, asked, alarms)
        return [functools.partial(cuda.launch, launch, stream) for launch in launches]

    def allow(self) -> None:
        """Have updates become values: the host has decided."""
        for act in self._allow:
            act()

    def do(self, steps: Iterable[int], see: See = None) -> None:
        """Begin steps, one after the other; ``see`` is shown each value, and may set it."""
        for at in steps:
            with self._explaining(at):
                for act in self._acts[at]:
                    act()
                if see is not None:
                    for o in self._lying.program.instrs[at].outs:
                        self._show(o, see)

    def timed(self, step: int) -> None:
        """Do one step, and wait for it."""
        self.do([step])
        self._device.wait_for_all()

    @contextlib.contextmanager
    def _explaining(self, step: int) -> Iterator[None]:
        """Have errors name the node of a step."""
        try:
            yield
        except Exception as error:
            cause = explained(error, self._lying.program, step)
            if cause is error:
                raise
            raise cause from error

    def _show(self, number: int, see: Callable[[int, Array], None]) -> None:
        array, device = self._arrays[number], self._device
        found = get(device.cuda, array, device.stream)
        before = found.tobytes()
        see(number, found)
        if found.tobytes() != before and array.flags.c_contiguous:
            device.cuda.copy_in(array.address, found.ctypes.data, found.nbytes, device.stream)
            device.wait_for_all()

    def _forward(self, number: int) -> None:
        """Run a step on the host: a loop's plans, or an op that has no kernel here."""
        instr, device = self._lying.program.instrs[number], self._device
        cuda, stream = device.cuda, device.stream
        xs = [None if i is None else get(cuda, self._arrays[i], stream) for i in instr.ins]
        ys = self._lying.forward(number, xs)
        held = [np.ascontiguousarray(y) for y in ys]
        for o, y in zip(instr.outs, held, strict=True):
            cuda.copy_in(self._arrays[o].address, y.ctypes.data, y.nbytes, stream)
        device.wait_for_all()

    # -- all at once -----------------------------------------------------------------------------

    def whole(
        self,
        env: Env,
        updates: Mapping[Tensor, int],
        results: Sequence[Tensor],
        asked: Tensor | None,
    ) -> bool:
        """Do a step from feeds to updates; return whether these have become values.

        Nobody waits in between. What kernels have told to be wrong is raised, but of steps that
        only updates need if those are not ``asked`` for.
        """
        cuda, stream = self._device.cuda, self._device.stream
        self._traffic.enter(env)
        if self._graph is None and self._has_run:
            cuda.begin_graph(stream)
            try:
                self._all_of_it(updates, results)
            except BaseException:
                with contextlib.suppress(LoweringError):  # a driver may have given it up already
                    Graph(cuda, stream)
                    self._device.wait_for_all()  # feeds are on their way
                raise
            self._graph = Graph(cuda, stream)
        if self._graph is None:
            self._all_of_it(updates, results)
            self._has_run = True
        else:
            cuda.launch_graph(self._graph.handle, stream)
        self._give(env, results)
        is_well = self._traffic.was_well()
        if not is_well:
            is_asked = asked is None or bool(env[asked])
            self.look_at_alarms(range(len(self._acts) if is_asked else self._lying.n_body))
        return is_well

    def _all_of_it(self, updates: Mapping[Tensor, int], results: Sequence[Tensor]) -> None:
        n, first = len(self._acts), self._lying.first_chosen
        self.do(range(first))
        for act in self._decide:
            act()
        self.do(range(first, n))
        self.copy(updates)
        self._traffic.fetch([None, *self._made(results, go=True)])

    # -- what comes in and goes out --------------------------------------------------------------

    def enter(self, env: Env) -> None:
        """Begin to copy feeds to the device."""
        self._traffic.enter(env)

    def leave(self, env: Env, results: Sequence[Tensor]) -> None:
        """Copy results to the host, and wait for all that was begun."""
        self._traffic.fetch(self._made(results, go=True))
        self._give(env, results)

    def _give(self, env: Env, results: Sequence[Tensor]) -> None:
        """Give the host results, when all that was begun is done."""
        made, program = self._made(results), self._lying.program
        self._traffic.leave(env, made, self._stay)
        for t in results:
            number = self._results[t]
            if number not in self._arrays:  # it is the host's, and passes through
                held = program.constants.get(number)
                env[t] = (env[program.sources[number]] if held is None else held).copy()

    def _made(self, results: Sequence[Tensor], *, go: bool = False) -> list[Tensor]:
        """Return the results that the program makes; with ``go`` those that the host gets."""
        made = (t for t in results if self._results[t] in self._arrays)
        return [t for t in made if not (go and t in self._stay)]

    def copy(self, updates: Mapping[Tensor, int]) -> None:
        """Begin to copy values to where variables lie."""
        for variable, number in updates.items():
            home, array = self.homes[variable].array, self._arrays[number]
            self._device.cuda.copy(home.address, array.address, array.extent, self._device.stream)

    def look_at_alarms(self, steps: range) -> None:
        """Run the op of a step whose kernel has found something wrong, which tells what."""
        for at, alarm, operands in self._alarms:
            if at not in steps:
                continue
            found = get(self._device.cuda, alarm, self._device.stream).reshape(-1)
            if not found.any():
                continue
            instr: Any = self._lying.program.instrs[at]
            self.do(range(at))  # its inputs may be gone by now
            with self._explaining(at):
                try:
                    self._forward(at)
                except Exception as error:
                    if not operands:
                        raise
                    site = instr.op.sites[operands[int(found.argmax())]]
                    raise ServedError(error, instr.origins[site]) from error
